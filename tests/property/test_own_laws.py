"""Laws over all files of a user's own: what is read fits together, what cannot be is one of our errors."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from own_files import REVIEWS, TABLES, picture_folder, write_arrow_file, write_csv, write_parquet

from icelens.data import from_arrays, read_labelled
from icelens.data.own.labels import DECIMAL, natural_order
from icelens.errors import IcelensError

# Names of columns that make some of what is random a table that can be read.
HEADS = [
    b"text,label\n",
    b"x\tlabel\n",
    b'{"label": "a", "x": 1}\n',
    b"PAR1",
    b"ARROW1\0\0",
    b"PK\x03\x04",
    b"\x1f\x8b",
]
FORMATS = [*TABLES, "rich.parquet", "rich.arrow", "arrays.npz", "pictures"]


def few(examples):
    return settings(max_examples=examples, deadline=None, derandomize=True)


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def write_npz(path, columns):
    np.savez_compressed(
        path, X=np.arange(12.0).reshape(6, 2), y=np.array(columns["label"]), ids=np.array(columns["id"])
    )
    return path


def write_rich(path):
    columns = {
        "integer": [1, 2, None, 4, 5, 6],
        "float": [1.5, None, 2.5, 3.0, 4.0, 5.0],
        "category": pa.array(["r", "g", "r", "g", None, "r"]).dictionary_encode(),
        "vector": [[1.0, float(number)] for number in range(6)],
        "time": pa.array([1, 2, 3, 4, 5, 6], pa.timestamp("us")),
        "decimal": pa.array(["1.5", "2.5"] * 3).cast(pa.decimal128(5, 2)),
        "struct": [{"q": 1}] * 6,
        "flag": [True, False, None, True, False, True],
        "id": list("uvwxyz"),
        "label": pa.array([0, 1] * 3, pa.int8()),
    }
    return (write_parquet if path.suffix == ".parquet" else write_arrow_file)(path, columns)


def write(name, where):
    if name.startswith("rich"):
        return write_rich(where / name)
    if name == "pictures":
        return picture_folder(where / name)
    return TABLES.get(name, write_npz)(where / name, REVIEWS)


def files_of(path):
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


def read_or_refuse(path, **options):
    """The only ways out: data that fit together, or an error of ours on one line."""
    try:
        data = read_labelled(path, **options)
    except IcelensError as error:
        message = str(error)
    else:
        assert_fits(data)
        return data
    assert "\n" not in message
    assert str(path) in message
    return None


def assert_fits(data):
    count = data.inputs.shape[0] if hasattr(data.inputs, "shape") else len(data.inputs)
    assert len(data) == len(data.ids) == len(data.labels) == len(data.rows) == count
    assert set(np.unique(data.labels)) == set(range(len(data.classes)))
    assert len(set(data.ids)) == len(data.ids)
    assert len(set(data.classes)) == len(data.classes) >= 2
    assert (np.diff(data.rows) > 0).all()


@pytest.mark.parametrize("name", [name for name in FORMATS if "." in name])
@given(head=st.sampled_from([b"", *HEADS]), content=st.binary(max_size=200))
@few(60)
def test_random_bytes_are_read_or_refused(name, head, content):
    with folder() as where:
        (where / name).write_bytes(head + content)
        read_or_refuse(where / name)


@pytest.mark.parametrize("name", FORMATS)
@given(data=st.data())
@few(80)
def test_a_damaged_file_is_read_or_refused(name, data):
    with folder() as where:
        path = write(name, where)
        file = data.draw(st.sampled_from(files_of(path)))
        content = bytearray(file.read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            place = data.draw(st.integers(0, max(0, len(content) - 1)))
            kind = data.draw(st.sampled_from(["flip", "cut", "insert", "drop"]))
            if kind == "flip" and content:
                content[place] ^= data.draw(st.integers(1, 255))
            elif kind == "cut":
                del content[place:]
            elif kind == "insert":
                content[place:place] = data.draw(st.binary(min_size=1, max_size=8))
            else:
                del content[place : place + data.draw(st.integers(1, 20))]
        file.write_bytes(content)
        read_or_refuse(path, skip_broken=data.draw(st.booleans()), drop_unlabelled=data.draw(st.booleans()))


lines = st.text(st.sampled_from("ab1.,;\t|\"'\n\r -é"), max_size=60)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl"])
@given(
    content=lines,
    options=st.fixed_dictionaries(
        {}, optional={"label": st.sampled_from(["b", "2"]), "text": st.sampled_from(["a", "1"])}
    ),
)
@few(200)
def test_any_text_is_read_or_refused(name, content, options):
    with folder() as where:
        (where / name).write_bytes(content.encode())
        read_or_refuse(where / name, keep_rare=True, drop_unlabelled=True, **options)


# Everything that a cell can hold; what looks like a decimal number is one in CSV, and no class.
words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8).filter(
    lambda word: not DECIMAL.fullmatch(word)
)
label_values = st.one_of(
    st.lists(words, min_size=2, max_size=5, unique=True),
    st.lists(st.integers(-(10**9), 10**9), min_size=2, max_size=5, unique=True),
    st.just([True, False]),
)


@given(values=label_values, data=st.data())
@example(values=["01", "1"], data=None)
@example(values=['"', "\u2028"], data=None)
@example(values=["NA", "None"], data=None)
@example(values=["10", "9"], data=None)
@few(150)
def test_labels_are_the_same_from_csv_parquet_and_memory(values, data):
    labels = list(values) * 2
    if data is not None:
        labels += data.draw(st.lists(st.sampled_from(values), max_size=10))
    names = [str(label) for label in labels]
    expected = natural_order(sorted(set(names)))
    columns = {"x": [number * 0.5 for number in range(len(labels))], "label": labels}
    with folder() as where:
        read = [
            read_labelled(write_csv(where / "a.csv", columns)),
            read_labelled(write_parquet(where / "a.parquet", columns)),
            from_arrays(np.array(columns["x"])[:, None], labels),
        ]
    for found in read:
        assert_fits(found)
        assert list(found.classes) == expected
        assert [found.classes[code] for code in found.labels] == names


@given(
    texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), min_size=4, max_size=12)
)
@example(texts=['a\r\nb"', "", ",", "\u2028"])
@few(150)
def test_texts_come_back_from_csv_letter_by_letter(texts):
    assume(any(text.strip() for text in texts))
    assume(not any("\0" in text for text in texts))
    labels = ["a", "b"] * len(texts)
    with folder() as where:
        data = read_labelled(
            write_csv(where / "a.csv", {"t": texts, "label": labels[: len(texts)]}), text="t"
        )
    assert data.inputs == [(text,) for text in texts]


@given(
    ids=st.lists(words, min_size=4, max_size=12, unique=True),
    missing=st.sets(st.integers(0, 11)),
    seed=st.integers(0, 99),
)
@few(80)
def test_ids_stay_with_their_rows_when_rows_are_left_out(ids, missing, seed):
    kept = [row for row in range(len(ids)) if row not in missing]
    assume(len(kept) >= 4)
    labels = [None if row in missing else "ab"[kept.index(row) % 2] for row in range(len(ids))]
    columns = {"id": ids, "x": np.random.default_rng(seed).normal(size=len(ids)), "label": labels}
    with folder() as where:
        for path in (write_csv(where / "a.csv", columns), write_parquet(where / "a.parquet", columns)):
            data = read_labelled(path, drop_unlabelled=True)
            assert data.rows.tolist() == kept
            assert data.ids.tolist() == [ids[row] for row in kept]
            np.testing.assert_allclose(data.inputs["x"], columns["x"][kept], rtol=1e-6)
            assert_fits(data)


def test_the_files_that_are_damaged_are_whole_before():
    with folder() as where:
        for name in FORMATS:
            data = read_or_refuse(write(name, where))
            assert data is not None, name
            assert len(data) == 6
