"""Labels of every kind become codes, or one line says why not."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from own_files import write_csv, write_parquet

from icelens.data import from_arrays, read_labelled
from icelens.errors import InputError

FEATURES = np.arange(12.0).reshape(6, 2)

KINDS = [
    (["b", "a", "b", "a", "b", "a"], ("a", "b"), [1, 0, 1, 0, 1, 0]),
    ([10, 9, 10, 9, 10, 9], ("9", "10"), [1, 0, 1, 0, 1, 0]),
    ([True, False] * 3, ("False", "True"), [1, 0, 1, 0, 1, 0]),
    ([2.0, -1.0] * 3, ("-1", "2"), [1, 0, 1, 0, 1, 0]),
    (["10", "9", "10", "9", "-3", "-3"], ("-3", "9", "10"), [2, 1, 2, 1, 0, 0]),
    ([1, "1", 2, 2, "x", "x"], ("1", "2", "x"), [0, 0, 1, 1, 2, 2]),
    (np.array(["b", "a"] * 3), ("a", "b"), [1, 0, 1, 0, 1, 0]),
    (np.array([b"b", b"a"] * 3), ("a", "b"), [1, 0, 1, 0, 1, 0]),
    (np.array(["b", "a"] * 3, dtype=object), ("a", "b"), [1, 0, 1, 0, 1, 0]),
    (np.array([3, 7] * 3, dtype=np.uint8), ("3", "7"), [0, 1] * 3),
    (np.array([[3], [7]] * 3), ("3", "7"), [0, 1] * 3),
    (np.array([3, 7] * 3, dtype=np.float16), ("3", "7"), [0, 1] * 3),
    (torch.tensor([3, 7] * 3), ("3", "7"), [0, 1] * 3),
    (torch.tensor([3, 7] * 3, dtype=torch.bfloat16), ("3", "7"), [0, 1] * 3),
    ([torch.tensor(3), np.int8(7)] * 3, ("3", "7"), [0, 1] * 3),
    ([Decimal("3.0"), Decimal("7")] * 3, ("3", "7"), [0, 1] * 3),
    (tuple("ab" * 3), ("a", "b"), [0, 1] * 3),
    (pd.Series(["b", "a"] * 3, index=range(7, 13)), ("a", "b"), [1, 0, 1, 0, 1, 0]),
    (pd.Series(["b", "a"] * 3, dtype="string"), ("a", "b"), [1, 0, 1, 0, 1, 0]),
    (pd.Series([1, 0] * 3, dtype="Int64"), ("0", "1"), [1, 0, 1, 0, 1, 0]),
    (pd.array(["b", "a"] * 3, dtype="string"), ("a", "b"), [1, 0, 1, 0, 1, 0]),
    (pd.array([1, 0] * 3, dtype="Int64"), ("0", "1"), [1, 0, 1, 0, 1, 0]),
    (np.array([1, 0] * 3, dtype=">f8"), ("0", "1"), [1, 0, 1, 0, 1, 0]),
    (pd.Series(pd.Categorical(["b", "a"] * 3, ["z", "b", "a"])), ("b", "a"), [0, 1] * 3),
    (pd.Categorical([2, 10] * 3, [10, 2]), ("10", "2"), [1, 0] * 3),
    (pd.DataFrame({"y": ["b", "a"] * 3}), ("a", "b"), [1, 0, 1, 0, 1, 0]),
    (pa.array(["b", "a"] * 3).dictionary_encode(), ("b", "a"), [0, 1] * 3),
    (pa.array(["b", "a"] * 3, pa.string_view()), ("a", "b"), [1, 0, 1, 0, 1, 0]),
]


@pytest.mark.parametrize(
    ("y", "classes", "codes"), KINDS, ids=[f"{type(y).__name__}-{i}" for i, (y, *_) in enumerate(KINDS)]
)
def test_every_kind_of_label(y, classes, codes):
    data = from_arrays(FEATURES, y)
    assert data.classes == classes
    assert data.labels.tolist() == codes
    assert data.labels.dtype == np.int64


def test_whole_floats_are_told():
    assert "y holds whole numbers such as 2.0, read as 2" in from_arrays(FEATURES, [2.0, 3.0] * 3).said
    assert from_arrays(FEATURES, [2, 3] * 3).said == ()


ALIKE = "classes {} differ in case, spaces or encoding of letters alone; they are kept apart"


def test_classes_whose_letters_are_encoded_in_two_ways_are_told():
    composed, decomposed = "caf\N{LATIN SMALL LETTER E WITH ACUTE}", "cafe\N{COMBINING ACUTE ACCENT}"
    data = from_arrays(FEATURES, [composed, decomposed, "tea"] * 2)
    assert len(data.classes) == 3
    assert data.said == (ALIKE.format(f"'{decomposed}', '{composed}'"),)


def test_classes_that_differ_in_case_or_spaces_are_told():
    data = from_arrays(FEATURES, ["cat", "Cat", "cat ", "cat", "Cat", "cat "])
    assert data.classes == ("Cat", "cat", "cat ")
    assert data.said == (ALIKE.format("'Cat', 'cat', 'cat '"),)


def test_names_of_classes_may_be_given():
    data = from_arrays(FEATURES, [2, 0, 2, 0, 0, 2], classes=["zebra", "ape", "cow"])
    assert data.classes == ("zebra", "cow")
    assert data.labels.tolist() == [1, 0, 1, 0, 0, 1]
    assert (
        from_arrays(FEATURES, ["cow", "ape"] * 3, classes=["zebra", "cow", "ape"]).labels.tolist()
        == [0, 1] * 3
    )
    with pytest.raises(InputError, match="y holds '3', which is none of the 3 classes 'zebra', 'ape', 'cow'"):
        from_arrays(FEATURES, [2, 0, 2, 0, 3, 2], classes=["zebra", "ape", "cow"])
    with pytest.raises(InputError, match="y holds 'inf', which is none of the 2 classes 'a', 'b'"):
        from_arrays(FEATURES, [0, 1, 0, 1, 0, float("inf")], classes=["a", "b"])


@pytest.mark.parametrize("missing", [None, float("nan"), "", pd.NA])
def test_a_missing_label_is_told_or_left_out(missing):
    y = ["a", "b", missing, "a", "b", missing]
    with pytest.raises(
        InputError, match=r"^y is empty in 2 of 6 rows, first in row 2; .* drop_unlabelled=True$"
    ):
        from_arrays(FEATURES, y)
    data = from_arrays(FEATURES, y, ids=list("uvwxyz"), drop_unlabelled=True)
    assert data.rows.tolist() == [0, 1, 3, 4]
    assert data.ids.tolist() == ["u", "v", "x", "y"]
    assert data.inputs.tolist() == FEATURES[[0, 1, 3, 4]].tolist()
    with pytest.raises(InputError, match=r"^y is empty in every row"):
        from_arrays(FEATURES, [missing] * 6)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a"] * 6, "y holds one class alone, 'a'; an audit compares at least two"),
        (["a", "a", "b", "b", "b", "c"], r"y: class 'c' \(row 5\) has one example alone; .*keep_rare=True"),
        (["a", "a", "a", "b", "b", "c"], r"y: class 'c' \(row 5\) has one example alone"),
        ([1.5, 2.0, 1.5, 2.0, 1.5, 2.5], "y holds 3 different numbers such as 1.5; labels must be classes"),
        ([1.0, float("inf")] * 3, "y holds 2 different numbers such as inf"),
        (list("abcdef"), "y holds 6 different values in 6 rows, such as 'a'; labels must be classes, these"),
        (np.eye(6), r"y must have one value per row, got shape \(6, 6\); one-hot labels become classes by"),
        (list(pd.date_range("2020", periods=2)) * 3, "y holds timestamp.*; labels must be strings, integers"),
        ([[1], [2]] * 3, "y holds list<item: int64>; labels must be strings"),
        ([1j, 2j] * 3, r"y must hold strings, integers or booleans, got '1j'"),
        ({"a": 1}, "y must be a list, array, Series or tensor, got dict"),
        (["a", "b"], "X has 6 rows but y has 2"),
    ],
)  # fmt: skip
def test_what_is_no_class_is_told(y, message):
    with pytest.raises(InputError, match=message):
        from_arrays(FEATURES, y)


def test_a_rare_class_may_be_kept():
    data = from_arrays(FEATURES, ["a", "a", "b", "b", "b", "c"], keep_rare=True)
    assert data.classes == ("a", "b", "c")


def test_several_rare_classes_are_counted(tmp_path):
    columns = {"x": range(8), "label": ["a", "a", "a", "b", "b", "b", "c", "d"]}
    message = (
        r"label column 'label': 2 classes, such as 'c' \(row 6\), have one example alone; merge or remove "
        "it, or keep it with --keep-rare"
    )
    with pytest.raises(InputError, match=message):
        read_labelled(write_csv(tmp_path / "a.csv", columns))


@pytest.mark.parametrize("write", [write_csv, write_parquet])
def test_a_price_is_no_label(tmp_path, write):
    path = tmp_path / ("a.csv" if write is write_csv else "a.parquet")
    write(path, {"rooms": [1, 2, 3, 1] * 3, "price": [3.75, 4.0, 5.5, 6.0] * 3})
    message = (
        r"label column 'price' holds 4 different numbers such as 3\.75; labels must be classes; name another "
        "column with --label$"
    )
    with pytest.raises(InputError, match=message):
        read_labelled(path, label="price")


def test_numbers_that_are_called_strings_are_classes(tmp_path):
    path = write_parquet(
        tmp_path / "a.parquet", {"rooms": [1, 2, 3, 1], "version": ["3.1", "3.10", "3.1", "3.10"]}
    )
    assert read_labelled(path, label="version").classes == ("3.1", "3.10")
