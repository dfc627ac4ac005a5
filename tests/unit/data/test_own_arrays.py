"""Arrays, matrices, frames, lists and torch data sets; and .npz files of arrays."""

import io
import zipfile

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from own_files import TEXTS, picture, picture_folder
from PIL import Image
from torch.utils.data import IterableDataset, TensorDataset

from icelens.data import from_arrays, open_image, read_labelled
from icelens.errors import FileError, InputError

Y = ["a", "b"] * 3
TABLE = np.arange(12.0).reshape(6, 2)
GREY = np.arange(6 * 4 * 5, dtype=np.uint8).reshape(6, 4, 5)
COLOUR = np.arange(6 * 4 * 5 * 3, dtype=np.uint8).reshape(6, 4, 5, 3)


@pytest.mark.parametrize(
    "X",
    [
        TABLE,
        TABLE.astype(np.float16),
        TABLE.astype(int),
        TABLE.tolist(),
        torch.tensor(TABLE),
        torch.tensor(TABLE).int(),
        torch.tensor(TABLE, requires_grad=True),
        torch.tensor(TABLE).bfloat16(),
        [torch.tensor(row) for row in TABLE],
        [tuple(row) for row in TABLE],
    ],
    ids=lambda X: type(X).__name__,
)
def test_numbers_are_a_table_of_float32(X):
    data = from_arrays(X, Y, name="mine")
    assert data.kind == "table"
    assert data.inputs.dtype == np.float32
    assert data.inputs.tolist() == TABLE.tolist()
    assert data.ids.tolist() == data.rows.tolist() == [0, 1, 2, 3, 4, 5]
    assert data.name == "mine"


@pytest.mark.parametrize(
    ("numbers", "kept"),
    [
        ([0.1, 0.2], np.float32),
        ([1e6, 1e6 + 1000], np.float32),
        ([2**24, 2**24 + 1], np.float64),  # float32 would merge them
        ([1.7e9, 1.7e9 + 60], np.float64),
        ([1e6, 1e6 + 0.1], np.float64),  # one step of float32
        ([-1e12, 3.0], np.float64),
        ([5.0, 5.0], np.float32),  # nothing to tell apart
        ([1e9, 1e9], np.float32),
    ],
)
def test_numbers_keep_what_float32_would_merge(numbers, kept):
    X = np.tile(np.c_[numbers, [0.0, 1.0]], (3, 1))
    assert from_arrays(X, Y).inputs.dtype == kept
    frame = from_arrays(pd.DataFrame(X, columns=["first", "second"]), Y).inputs
    assert (frame["first"].dtype, frame["second"].dtype) == (kept, np.float32)


def test_float32_is_not_copied():
    X = TABLE.astype(np.float32)
    assert np.shares_memory(from_arrays(X, Y).inputs, X)


@pytest.mark.parametrize("make", [scipy.sparse.csr_matrix, scipy.sparse.csc_matrix, scipy.sparse.coo_array])
def test_a_sparse_matrix_stays_sparse(make):
    data = from_arrays(make(TABLE), Y)
    assert data.kind == "table"
    assert data.inputs.format == "csr"
    assert data.inputs.dtype == np.float32
    assert data.inputs.toarray().tolist() == TABLE.tolist()


@pytest.mark.filterwarnings("ignore:Sparse CS:UserWarning")  # torch calls them a beta
@pytest.mark.parametrize("name", ["to_sparse", "to_sparse_csr", "to_sparse_csc"])
def test_a_sparse_matrix_of_torch_stays_sparse(name):
    X = getattr(torch.tensor(TABLE), name)()
    assert from_arrays(X, Y).inputs.toarray().tolist() == TABLE.tolist()


def test_other_sparse_tensors_become_dense():
    rows = torch.tensor(TABLE).to_sparse(1)
    assert from_arrays(rows, torch.tensor([0, 1] * 3).to_sparse()).inputs.tolist() == TABLE.tolist()
    images = torch.tensor(GREY).to_sparse()
    np.testing.assert_array_equal(from_arrays(images, Y).inputs, GREY)


class TestFrame:
    frame = pd.DataFrame(
        {
            "size": [1.5, None, 3.0, 4.0, 5.0, 6.0],
            "count": pd.array([1, None, 3, 4, 5, 6], dtype="Int64"),
            "flag": [True, False] * 3,
            "colour": ["red", "blue", None, "red", "blue", "red"],
            "grade": pd.Categorical(["low", "high"] * 3, ["low", "high"]),
            7: np.arange(6, dtype=np.float16),
            "remark": TEXTS,
        },
        index=range(10, 16),
    )

    def test_a_frame_is_a_table_of_floats_and_categories(self):
        data = from_arrays(self.frame, Y)
        assert data.kind == "table"
        assert data.inputs.columns.tolist() == ["size", "count", "flag", "colour", "grade", "7"]
        kinds = ["float32"] * 3 + ["category"] * 2 + ["float32"]
        assert data.inputs.dtypes.astype(str).tolist() == kinds
        assert (
            data.inputs["size"].isna().tolist()
            == data.inputs["count"].isna().tolist()
            == [False, True] + [False] * 4
        )
        assert data.inputs["colour"].isna().sum() == 1
        assert data.inputs.index.tolist() == list(range(6))
        assert data.said == ("left out: 'remark' (too many different values)",)

    @pytest.mark.parametrize(("fill", "kind"), [(0.0, float), (np.nan, float), (0, int), (False, bool)])
    def test_sparse_columns_are_numbers(self, fill, kind):
        plain = pd.DataFrame({"a": [0, 1, 0, 0, 3, 0], "b": [1, 0] * 3}).astype(kind)
        if fill != fill:  # noqa: PLR0124
            plain = plain.replace(0, np.nan)
        data = from_arrays(plain.astype(pd.SparseDtype(kind, fill)), Y)
        assert data.said == ()
        pd.testing.assert_frame_equal(data.inputs, plain.astype(np.float32))

    def test_labels_may_be_sparse(self):
        labels = pd.Series([0, 1] * 3, dtype=pd.SparseDtype(int, 0))
        assert from_arrays(TABLE, labels).classes == ("0", "1")

    def test_durations_are_seconds_as_dates_are(self):
        hours = pd.to_timedelta([0.0, 1.0, 2.0, 3.0, np.nan, 5.0], "h")
        data = from_arrays(pd.DataFrame({"wait": hours}), Y)
        np.testing.assert_array_equal(data.inputs["wait"], np.float32([0, 3600, 7200, 10800, np.nan, 18000]))
        with pytest.raises(InputError, match="features hold only constants: 'wait'"):
            from_arrays(pd.DataFrame({"wait": hours[[1] * 6]}), Y)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (
                {"size": [1.0, np.inf, 3.0, 4.0, 5.0, 6.0]},
                "column 'size', row 1 is inf; every number must be finite",
            ),
            ({"size": [{"a": 1}] * 6}, "column 'size' holds struct<a: int64>; features are numbers"),
        ],
    )
    def test_what_is_no_feature_is_told(self, change, message):
        with pytest.raises(InputError, match=message):
            from_arrays(self.frame.assign(**change), Y)

    def test_texts_and_constants_alone_are_told(self):
        with pytest.raises(
            InputError, match=r"X has no numbers or categories; .* hand in one column, such as X\['remark"
        ):
            from_arrays(self.frame[["remark"]], Y)
        with pytest.raises(InputError, match="features hold only constants: 'a'"):
            from_arrays(pd.DataFrame({"a": [1] * 6}), Y)
        with pytest.raises(InputError, match="X has two columns of the same name"):
            from_arrays(pd.DataFrame(TABLE, columns=["a", "a"]), Y)
        with pytest.raises(InputError, match="X has no columns"):
            from_arrays(pd.DataFrame(index=range(6)), Y)


@pytest.mark.parametrize(
    "X",
    [TEXTS, tuple(TEXTS), np.array(TEXTS), np.array(TEXTS, dtype=object), pd.Series(TEXTS, index=range(3, 9)),
     pd.Series(TEXTS, dtype="string"), pd.array(TEXTS, dtype="string"), [[text] for text in TEXTS],
     pd.Index(TEXTS)],
    ids=lambda X: type(X).__name__,
)  # fmt: skip
def test_strings_are_texts(X):
    data = from_arrays(X, Y)
    assert data.kind == "text"
    assert data.inputs == [(text,) for text in TEXTS]


@pytest.mark.parametrize("make", [list, lambda pairs: [list(pair) for pair in pairs], np.array])
def test_pairs_of_strings_are_texts(make):
    pairs = list(zip(TEXTS, TEXTS[::-1], strict=True))
    assert from_arrays(make(pairs), Y).inputs == pairs


def test_a_missing_text_is_empty_and_half_a_letter_is_replaced():
    data = from_arrays(pd.Series(["a", None, "c", "d", np.nan, "\ud83d"], dtype=object), Y)
    assert data.inputs == [("a",), ("",), ("c",), ("d",), ("",), ("\N{REPLACEMENT CHARACTER}",)]
    assert data.said == ("2 rows without text",)


class TestImages:
    @pytest.mark.parametrize(
        ("X", "inputs"),
        [
            (GREY, GREY),
            (torch.tensor(GREY), GREY),
            (GREY[..., None], GREY),
            (torch.tensor(GREY)[:, None], GREY),
            (GREY[:, None], GREY),
            (COLOUR, COLOUR),
            (torch.tensor(COLOUR), COLOUR),
            (np.moveaxis(COLOUR, 3, 1), COLOUR),
            (torch.tensor(COLOUR).permute(0, 3, 1, 2), COLOUR),
            (torch.tensor(COLOUR).permute(0, 3, 1, 2).float() / 255, COLOUR),
            (GREY.astype(np.int64), GREY),
            (GREY / 255, GREY),
        ],
    )
    def test_images_have_their_channels_last(self, X, inputs):
        data = from_arrays(X, Y)
        assert data.kind == "image"
        assert data.inputs.dtype == np.uint8
        np.testing.assert_array_equal(data.inputs, inputs)
        assert open_image(data.inputs[0]).size == (5, 4)

    def test_of_two_places_for_channels_torch_has_the_first(self):
        X = np.arange(6 * 27, dtype=np.uint8).reshape(6, 3, 3, 3)
        np.testing.assert_array_equal(from_arrays(X, Y).inputs, X)
        np.testing.assert_array_equal(from_arrays(torch.tensor(X), Y).inputs, np.moveaxis(X, 1, 3))

    @pytest.mark.parametrize(
        ("X", "message"),
        [
            (
                GREY - 0.5,
                r"X of shape \(6, 4, 5\) must be images, uint8 or floats .* but is float64 from -0.5",
            ),
            (
                np.full((6, 4, 5), np.nan),
                "must be images, uint8 or floats from 0 to 1, but is float64 from nan",
            ),
            (
                np.zeros((6, 2, 4, 5), np.uint8),
                r"X of shape \(6, 2, 4, 5\) must be images with 1, 3 or 4 channels",
            ),
            (np.zeros((6, 0, 5), np.uint8), "X holds images without pixels"),
        ],
    )
    def test_what_is_no_image_is_told(self, X, message):
        with pytest.raises(InputError, match=message):
            from_arrays(X, Y)

    def test_paths_are_images(self, tmp_path):
        paths = sorted(picture_folder(tmp_path).rglob("*.*"))
        data = from_arrays(paths, Y)
        assert data.inputs == paths
        paths[2].write_bytes(b"")
        with pytest.raises(
            InputError, match=r"1 of 6 images cannot be read, first row 2, .* skip_broken=True"
        ):
            from_arrays(paths, Y)
        assert len(from_arrays(paths, Y, skip_broken=True)) == 5


def nan_at(array, place, value=np.nan):
    array = array.copy()
    array[place] = value
    return array


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (nan_at(TABLE, (4, 1)), "X: row 4, column 1 is nan; every number must be there and finite"),
        (nan_at(TABLE, (0, 0), -np.inf), "X: row 0, column 0 is -inf"),
        (nan_at(TABLE, (3, 1), 1e300), "X: row 3, column 1 is inf"),
        (scipy.sparse.csr_matrix(nan_at(TABLE, (4, 1))), "X: row 4, column 1 is nan"),
        (scipy.sparse.csr_matrix((6, 3)), "X: features hold only constants: every number is 0"),
        (np.ones((6, 3)), "X: features hold only constants: every row is the same"),
        (np.zeros((6, 0)), r"X must be \(rows, features\) or images, got shape \(6, 0\)"),
        (np.arange(6.0), r"got shape \(6,\); for one feature give X\[:, None\]"),
        (np.zeros((0, 3)), "X has no rows"),
        ([], r"X must be \(rows, features\)"),
        (TABLE[:5], "X has 5 rows but y has 6"),
        ([[1.0], [1.0, 2.0]] * 3, "X must hold rows of equal length"),
        (["a", 3, "c"] * 2, r"X: row 1 is '\(3,\)', expected texts as in other rows"),
        ([("a", "b"), ("c",)] * 3, "X: row 1 has 1 text; every row must have one, or every row two"),
        ([("a", "b", "c")] * 6, "X: row 0 has 3 texts"),
        ([""] * 6, "X: every text is empty"),
        ([object()] * 6, "X must hold numbers or texts, got '<object"),
        ({"a": 1}, "X must be an array, matrix, DataFrame, tensor or list, got dict"),
        (np.array([1j] * 6)[:, None], "X must hold numbers or texts"),
    ],
)  # fmt: skip
def test_inputs_that_cannot_be_used_are_told(X, message):
    with pytest.raises(InputError, match=message):
        from_arrays(X, Y)


@pytest.mark.parametrize("make", [list, np.array, pd.Series, pd.array, torch.tensor])
def test_ids_come_back_as_they_are(make):
    assert from_arrays(TABLE, Y, ids=make([9, 7, 5, 3, 1, 0])).ids.tolist() == [9, 7, 5, 3, 1, 0]
    if make is not torch.tensor:
        assert from_arrays(TABLE, Y, ids=make(list("uvwxyz"))).ids.tolist() == list("uvwxyz")


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([1, 2, 3, 2, 4, 5], "ids holds '2' twice, in rows 1 and 3; ids must differ"),
        (["a", None, "c", "d", "e", "f"], "ids is empty in 1 of 6 rows, first in row 1"),
        ([1, 2], "X has 6 rows but ids has 2"),
        (7, "ids must be a list, array, Series or tensor, got int"),
    ],
)
def test_ids_that_do_not_name_rows_are_told(ids, message):
    with pytest.raises(InputError, match=message):
        from_arrays(TABLE, Y, ids=ids)


class Items:
    """A map-style data set of any items."""

    def __init__(self, items, classes=None):
        self.items = items
        if classes:
            self.classes = classes

    def __len__(self):
        return len(self.items)

    def __getitem__(self, row):
        return self.items[row]


class TestTorchDataset:
    def test_tensors_are_stacked(self):
        data = from_arrays(TensorDataset(torch.tensor(TABLE), torch.tensor([0, 1] * 3)))
        assert data.inputs.tolist() == TABLE.tolist()
        assert data.classes == ("0", "1")

    def test_images_of_torch_have_their_channels_moved(self):
        items = [
            (torch.tensor(image).permute(2, 0, 1) / 255, row % 2, "more") for row, image in enumerate(COLOUR)
        ]
        data = from_arrays(Items(items, classes=["ape", "bee"]))
        np.testing.assert_array_equal(data.inputs, COLOUR)
        assert data.classes == ("ape", "bee")

    @pytest.mark.parametrize(
        ("mode", "shape"),
        [
            *((mode, (6, 4, 5)) for mode in ("L", "I", "F")),
            *((mode, (6, 4, 5, 3)) for mode in ("RGB", "RGBA", "P", "1", "LA")),
        ],
    )
    def test_pillow_images_of_one_size(self, mode, shape):
        items = [(Image.fromarray(image).convert(mode), row % 2) for row, image in enumerate(COLOUR)]
        assert from_arrays(Items(items)).inputs.shape == shape

    @pytest.mark.parametrize("dtype", [np.uint16, np.int32, np.float32])
    @pytest.mark.parametrize("scale", [1, 16, 257])
    def test_deeper_pillow_images_have_one_scale(self, dtype, scale):
        grey = np.linspace(0, 255, GREY.size).astype(np.uint8).reshape(GREY.shape)
        items = [(Image.fromarray(image.astype(dtype) * scale), row % 2) for row, image in enumerate(grey)]
        np.testing.assert_array_equal(from_arrays(Items(items)).inputs, grey)

    def test_pillow_images_of_several_depths_keep_their_own_scales(self):
        grey = np.linspace(0, 255, 20).astype(np.uint8).reshape(4, 5)
        kinds = [grey, grey.astype(np.uint16) * 257, np.float32(grey / 255)] * 2
        items = [(Image.fromarray(image), row % 2) for row, image in enumerate(kinds)]
        np.testing.assert_array_equal(from_arrays(Items(items)).inputs, [grey] * 6)

    def test_a_drawing_in_transparency_is_seen(self):
        items = [(Image.new("RGBA", (5, 4)), row % 2) for row in range(6)]
        for row, (image, _) in enumerate(items):
            image.putalpha(Image.fromarray(GREY[row]))
        found = from_arrays(Items(items)).inputs
        np.testing.assert_allclose(found, np.repeat(255 - GREY[..., None].astype(int), 3, axis=3), atol=1)

    @pytest.mark.parametrize("make", [lambda text: text, lambda text: (text, text), lambda text: [text]])
    def test_texts(self, make):
        data = from_arrays(Items([(make(text), label) for text, label in zip(TEXTS, Y, strict=True)]))
        assert data.kind == "text"
        assert data.inputs[2][0] == TEXTS[2]

    def test_numbers_and_arrays(self):
        assert from_arrays(Items([(row, row % 2) for row in range(6)])).inputs.tolist() == [
            [row] for row in range(6)
        ]
        data = from_arrays(Items([(TABLE[row], np.int64(row % 2)) for row in range(6)]))
        assert data.inputs.tolist() == TABLE.tolist()

    @pytest.mark.parametrize(
        ("whole", "kind"),
        [
            *((torch.int64, kind) for kind in (torch.float32, torch.float64, torch.float16)),
            *((torch.uint16, kind) for kind in (torch.float32, torch.int32, torch.int64)),
            *((kind, torch.float32) for kind in (torch.bool, torch.uint8, torch.bfloat16)),
            *((np.int64, kind) for kind in (np.float32, np.float64, np.float16)),
        ],
    )
    def test_a_first_item_of_whole_numbers_leaves_others_as_they_are(self, whole, kind):
        first, others = [0, 1], [3.5, -0.25] if "int" not in str(kind) else [70000, -7]
        if isinstance(kind, torch.dtype):
            rows = [torch.tensor(first, dtype=whole), *[torch.tensor(others, dtype=kind)] * 5]
        else:
            rows = [np.array(first, dtype=whole), *[np.array(others, dtype=kind)] * 5]
        for items in (rows, rows[::-1]):
            found = from_arrays(Items([(x, row % 2) for row, x in enumerate(items)])).inputs
            assert found.tolist() == [x.tolist() for x in items]

    def test_sparse_items_are_read(self):
        items = TensorDataset(torch.tensor(TABLE).to_sparse(), torch.tensor([0, 1] * 3))
        assert from_arrays(items).inputs.tolist() == TABLE.tolist()

    @pytest.mark.parametrize(
        ("items", "message"),
        [
            (
                [(torch.zeros(3), torch.zeros(2))],
                r"item 0 has a label of shape \(2,\), expected one value; one-hot labels become classes by y",
            ),
            ([(torch.zeros(3), 0), (torch.zeros(3), np.eye(2)[0])], r"item 1 has a label of shape \(2,\)"),
            ([(np.zeros(3), 0), (np.array(list("abc")), 1)], "item 1 holds <U1, those before it float64"),
            (
                [(torch.zeros(3), 0), (torch.zeros(4), 1)],
                r"item 1 has shape \(4,\), item 0 \(3,\); inputs must have one",
            ),
            (
                [(Image.new("L", (4, 5)), 0), (Image.new("L", (5, 4)), 1)],
                r"item 1 has shape \(4, 5\), item 0 \(5, 4\)",
            ),
            ([(torch.zeros(3), 0), ("text", 1)], "item 1 holds a str, unlike item 0"),
            ([("text", 0), (torch.zeros(3), 1)], "item 1 holds a Tensor, unlike item 0"),
            ([{"x": 1, "y": 2}], r"y is missing; without it items must be \(x, y\), but item 0 is a dict"),
            ([(torch.zeros(3),)], r"items must be \(x, y\), but item 0 is a tuple"),
            ([], r"X must be \(rows, features\)"),
        ],
    )
    def test_items_that_do_not_fit_are_told(self, items, message):
        with pytest.raises(InputError, match=message):
            from_arrays(Items(items))

    def test_a_stream_and_a_frame_without_labels_are_told(self):
        class Stream(IterableDataset):
            def __iter__(self):
                return iter(())

        with pytest.raises(
            InputError, match=r"y is missing; without it X must be a data set with rows that yields"
        ):
            from_arrays(Stream())
        for X in (TABLE, pd.DataFrame(TABLE), torch.tensor(TABLE), TEXTS, scipy.sparse.csr_matrix(TABLE)):
            with pytest.raises(InputError, match="y is missing"):
                from_arrays(X)


class TestNpz:
    @pytest.mark.parametrize("x", ["X", "x", "features", "embeddings", "images"])
    @pytest.mark.parametrize("y", ["y", "label", "labels", "targets"])
    def test_arrays_are_known_by_their_names(self, tmp_path, x, y):
        X = GREY if x == "images" else TABLE
        np.savez(tmp_path / "a.npz", **{x: X, y: Y})
        data = read_labelled(tmp_path / "a.npz")
        assert data.kind == ("image" if x == "images" else "table")
        assert data.inputs.tolist() == X.tolist()
        assert data.classes == ("a", "b")
        assert data.name == "a.npz"
        assert data.said == (
            f"labels are in array '{y}'",
            f"inputs are in array '{x}'",
            "ids are row numbers",
        )

    def test_arrays_may_be_named(self, tmp_path):
        np.savez_compressed(tmp_path / "a.npz", p=TABLE, q=GREY, r=np.array(TEXTS), s=Y, t=list("uvwxyz"))
        path = tmp_path / "a.npz"
        assert read_labelled(path, features="p", label="s", id="t").ids.tolist() == list("uvwxyz")
        assert read_labelled(path, image="q", label="s").kind == "image"
        assert read_labelled(path, text="r", label="s").inputs[1] == (TEXTS[1],)
        for options, message in [
            ({"image": "p", "label": "s"}, "array 'p' holds features, not images"),
            (
                {"features": ["p", "q"], "label": "s"},
                "an .npz file has its inputs in one array, got 'p', 'q'",
            ),
            ({"features": "pp", "label": "s"}, r"no array 'pp'; .*arrays are 'p', 'q', 'r', 's', 't'"),
            (
                {"features": "p"},
                r"no array for labels \(y, label, .*\); arrays are 'q', 'r', 's', 't': name one with --label",
            ),
            ({"label": "s"}, r"no array for inputs \(X, x, .*name one with --features, --image or --text"),
        ]:
            with pytest.raises(InputError, match=message):
                read_labelled(path, **options)

    def test_ids_are_found(self, tmp_path):
        np.savez(tmp_path / "a.npz", X=TABLE, y=Y, ids=[9, 7, 5, 3, 1, 0])
        assert read_labelled(tmp_path / "a.npz").ids.tolist() == [9, 7, 5, 3, 1, 0]

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"X": nan_at(TABLE, (4, 1)), "y": Y}, "array 'X': row 4, column 1 is nan"),
            ({"X": TABLE, "y": np.eye(6)}, r"array 'y' must have one value per row, got shape \(6, 6\)"),
            ({"X": TABLE, "y": Y[:5]}, "array 'X' has 6 rows but array 'y' has 5"),
            ({"X": TABLE, "y": [1.5, 2.0] * 3}, "array 'y' holds 2 different numbers such as 1.5"),
            ({"X": TABLE, "y": np.array(7)}, r"array 'y' must have one value per row, got shape \(\)"),
        ],
    )
    def test_arrays_that_do_not_fit_are_told(self, tmp_path, arrays, message):
        np.savez(tmp_path / "a.npz", **arrays)
        with pytest.raises(InputError, match=r"a\.npz: " + message):
            read_labelled(tmp_path / "a.npz")

    def test_pickled_objects_are_refused(self, tmp_path):
        np.savez(tmp_path / "a.npz", X=TABLE, y=np.array(Y, dtype=object))
        with pytest.raises(
            FileError, match=r"a\.npz: array 'y' holds Python objects, which are never unpickled"
        ):
            read_labelled(tmp_path / "a.npz")

    def test_damaged_files_are_told(self, tmp_path):
        path = tmp_path / "a.npz"
        np.savez(path, X=TABLE, y=Y)
        whole = path.read_bytes()
        buffer = io.BytesIO()
        np.save(buffer, TABLE)
        for content, message in [
            (whole[:300], "not an .npz file, or a damaged one"),
            (
                whole.replace(TABLE[3].tobytes(), b"\1" * 16),
                r"not an .npz file, or a damaged one \(Bad CRC-32",
            ),
            (b"", "not an .npz file"),
            (b"hello", "not an .npz file"),
            (buffer.getvalue(), "one array alone; save inputs and labels together with np.savez"),
        ]:
            path.write_bytes(content)
            with pytest.raises(FileError, match=r"a\.npz: " + message):
                read_labelled(path)
        with zipfile.ZipFile(path, "w") as file:
            file.writestr(
                "X.npy",
                b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (9999999999",
            )
            file.writestr("y.npy", b"x")
        with pytest.raises(FileError, match=r"not an \.npz file"):
            read_labelled(path)


def test_an_image_in_a_list_beside_a_text_is_told(tmp_path):
    with pytest.raises(InputError, match="X: row 1 is"):
        from_arrays(["a", picture(tmp_path / "a.png")] * 3, Y)


class TestFramesThatTellTheLabel:
    frame = pd.DataFrame({"a": np.random.default_rng(0).normal(size=40), "target": ["no", "yes"] * 20})

    def test_the_label_among_the_features_is_refused(self):
        with pytest.raises(InputError, match="column 'target' of X is the label under another name"):
            from_arrays(self.frame, self.frame["target"])
        with pytest.raises(InputError, match="'code' of X is the label under another name"):
            from_arrays(self.frame[["a"]].assign(code=[7, 3] * 20), self.frame["target"])

    def test_a_column_that_is_nearly_the_label_is_a_feature(self):
        labels = self.frame["target"].where(self.frame.index != 5, "no")
        assert from_arrays(self.frame, labels).inputs.columns.tolist() == ["a", "target"]

    def test_a_counter_of_rows_is_left_out_unless_there_is_nothing_else(self):
        labels = ["x"] * 20 + ["y"] * 20
        data = from_arrays(self.frame[["a"]].assign(row=range(40)), labels)
        assert data.inputs.columns.tolist() == ["a"]
        assert data.said == ("left out: 'row' (counts the rows)",)
        alone = pd.DataFrame({"row": range(40), "constant": 1})
        assert from_arrays(alone, labels).inputs.columns.tolist() == ["row", "constant"]

    @pytest.mark.parametrize(("rows", "kept"), [(18, ["a", "row"]), (20, ["a"])])
    def test_in_a_few_rows_numbers_may_be_in_order_by_chance(self, rows, kept):
        few = self.frame[["a"]][:rows].assign(row=range(rows))
        assert from_arrays(few, ["x", "y"] * (rows // 2)).inputs.columns.tolist() == kept

    def test_fractions_that_rise_are_a_feature_however_late_they_are(self):
        rising = pd.DataFrame({"a": self.frame["a"].repeat(10), "b": [*range(399), 399.5]})
        assert "b" in from_arrays(rising, ["x", "y"] * 200).inputs.columns
