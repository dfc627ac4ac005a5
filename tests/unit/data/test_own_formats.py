"""The same rows in every format become the same data."""

import gzip
import json
import shutil

import numpy as np
import pyarrow as pa
import pytest
from own_files import IDS, LABELS, REVIEWS, TABLES, TEXTS, write_csv, write_parquet, write_saved

from icelens.data import read_labelled
from icelens.errors import FileError, InputError, MissingFileError

every_table = pytest.mark.parametrize("name", TABLES)


@every_table
def test_every_format_gives_the_same_texts_labels_and_ids(tmp_path, name):
    data = read_labelled(TABLES[name](tmp_path / name, REVIEWS))
    assert data.kind == "text"
    assert data.inputs == [(text,) for text in TEXTS]
    assert data.classes == ("bad", "good")
    assert data.labels.tolist() == [0, 1] * 3
    assert data.labels.dtype == np.int64
    assert data.ids.tolist() == IDS
    assert data.rows.tolist() == list(range(6))
    assert data.name == name
    assert data.said == (
        "labels are in column 'label'",
        "text is in column 'review'",
        "ids are in column 'id'",
    )


@every_table
def test_what_is_named_is_taken_and_not_told(tmp_path, name):
    columns = REVIEWS | {"title": [f"A title of this review, number {i}" for i in range(6)], "mood": LABELS}
    path = TABLES[name](tmp_path / name, columns)
    data = read_labelled(path, label="mood", text=["title", "review"], id="id")
    assert data.inputs[1] == ("A title of this review, number 1", TEXTS[1])
    assert data.said == ()
    assert data.ids.tolist() == IDS
    assert read_labelled(path, label="mood", text="title").inputs[1] == ("A title of this review, number 1",)


@every_table
def test_numbers_become_floats_and_repeated_strings_categories(tmp_path, name):
    columns = {
        "height": [1.5, 2.0, None, -4.25, 0.0, 1e-3],
        "count": [1, 2, 3, 5, 8, 1000],
        "colour": ["red", "blue", "red", "red", None, "blue"],
        "constant": [7] * 6,
        "species": LABELS,
    }
    data = read_labelled(TABLES[name](tmp_path / name, columns))
    assert data.kind == "table"
    assert data.inputs.columns.tolist() == ["height", "count", "colour"]
    assert data.inputs.dtypes.astype(str).tolist() == ["float32", "float32", "category"]
    np.testing.assert_array_equal(
        data.inputs["height"], np.array([1.5, 2.0, np.nan, -4.25, 0.0, 1e-3], dtype=np.float32)
    )
    assert data.inputs["colour"].cat.categories.tolist() in (["red", "blue"], ["blue", "red"])
    assert data.inputs["colour"].isna().tolist() == [False] * 4 + [True, False]
    assert "left out: 'constant' (never changes)" in data.said


@every_table
def test_a_row_without_a_label_is_left_out_if_asked(tmp_path, name):
    columns = REVIEWS | {"label": ["bad", None, "bad", "good", None, "good"]}
    path = TABLES[name](tmp_path / name, columns)
    with pytest.raises(InputError, match=r"label column 'label' is empty in 2 of 6 rows, first in row 1; .*"
                                         "--drop-unlabelled"):  # fmt: skip
        read_labelled(path)
    data = read_labelled(path, drop_unlabelled=True)
    assert data.rows.tolist() == [0, 2, 3, 5]
    assert data.ids.tolist() == [IDS[row] for row in data.rows]
    assert data.inputs == [(TEXTS[row],) for row in data.rows]
    assert "2 rows without a label left out" in data.said


@every_table
def test_a_misspelt_column_is_told_with_the_nearest(tmp_path, name):
    path = TABLES[name](tmp_path / name, REVIEWS)
    with pytest.raises(
        InputError,
        match=r"no column 'reveiw'; did you mean 'review'\? columns are 'id', 'review', 'label'$",
    ):
        read_labelled(path, text="reveiw")
    with pytest.raises(InputError, match=r"no column 'zzz'; columns are 'id', 'review', 'label'$"):
        read_labelled(path, label="zzz")


@every_table
def test_a_truncated_file_is_told(tmp_path, name):
    path = TABLES[name](tmp_path / name, REVIEWS)
    file = path / "data-00001-of-00002.arrow" if path.is_dir() else path
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileError, match=str(file.name)):
        read_labelled(path)
    file.write_bytes(b"")
    with pytest.raises(FileError, match=str(file.name)):
        read_labelled(path)


@pytest.mark.parametrize("name", [name for name in TABLES if ".json" not in name and ".ndjson" not in name])
def test_a_table_without_rows_is_told(tmp_path, name):
    columns = {name: pa.array([], pa.string()) for name in REVIEWS}
    path = TABLES[name](tmp_path / name, columns)
    with pytest.raises(FileError, match=f"{name}: .*no rows"):
        read_labelled(path)


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
@pytest.mark.parametrize("content", ["", "\n \n", "[]", "{}\n{}\n"])
def test_json_without_rows_is_told(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(FileError, match=rf"{name}: (empty file|no rows|objects without|line 1 is a list)"):
        read_labelled(tmp_path / name)


def test_an_error_is_one_line_whatever_a_file_is_called(tmp_path):
    path = tmp_path / "two\nlines.csv"
    path.write_bytes(b"")
    with pytest.raises(FileError, match=r"two lines\.csv: empty file, no rows"):
        read_labelled(path)


def test_a_path_that_is_not_there_or_not_known_is_told(tmp_path):
    with pytest.raises(MissingFileError, match=r"gone\.csv: no such file or folder"):
        read_labelled(tmp_path / "gone.csv")
    for name in ("notes.docx", "data", "table.parquet.gz", "x.gz"):
        (tmp_path / name).write_bytes(b"x")
        with pytest.raises(FileError, match=rf"{name}: not a known kind of file; names end in \.csv, \.tsv"):
            read_labelled(tmp_path / name)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet", "a.arrow", "a.npz"])
def test_a_file_that_may_not_be_read_is_told(tmp_path, name, monkeypatch):
    path = tmp_path / name
    path.write_bytes(b"x")

    def refuse(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.open", refuse)
    monkeypatch.setattr("pyarrow.memory_map", refuse)
    monkeypatch.setattr("pyarrow.parquet.ParquetFile", refuse)
    monkeypatch.setattr("numpy.load", refuse)
    with pytest.raises(FileError, match=rf"{name}: cannot be read: permission denied"):
        read_labelled(path)


class TestSavedByHuggingFace:
    features = {  # noqa: RUF012
        "sentence": {"dtype": "string", "_type": "Value"},
        "kind": {"names": ["zebra", "ape", "cow"], "_type": "ClassLabel"},
    }
    columns = {"sentence": TEXTS, "kind": [2, 0, 2, 0, 0, 2]}  # noqa: RUF012

    def test_class_names_keep_their_order_and_unused_ones_go(self, tmp_path):
        data = read_labelled(write_saved(tmp_path / "animals", self.columns, self.features))
        assert data.classes == ("zebra", "cow")
        assert data.labels.tolist() == [1, 0, 1, 0, 0, 1]
        assert data.said[0] == "labels are in column 'kind'"

    def test_class_names_are_found_in_a_parquet_file_too(self, tmp_path):
        metadata = {"huggingface": json.dumps({"info": {"features": self.features}})}
        table = pa.table(self.columns).replace_schema_metadata(metadata)
        pa.parquet.write_table(table, tmp_path / "animals.parquet")
        assert read_labelled(tmp_path / "animals.parquet").classes == ("zebra", "cow")

    def test_minus_one_is_a_missing_label_and_three_is_no_class(self, tmp_path):
        folder = write_saved(tmp_path / "a", self.columns | {"kind": [2, 0, -1, 0, 0, 2]}, self.features)
        assert read_labelled(folder, drop_unlabelled=True).rows.tolist() == [0, 1, 3, 4, 5]
        folder = write_saved(tmp_path / "b", self.columns | {"kind": [2, 0, 3, 0, 0, 2]}, self.features)
        with pytest.raises(
            InputError, match="'kind' holds '3', which is none of the 3 classes 'zebra', 'ape', 'cow'"
        ):
            read_labelled(folder)

    def test_of_several_splits_train_is_taken_and_told(self, tmp_path):
        write_saved(tmp_path / "all" / "train", self.columns, self.features)
        write_saved(tmp_path / "all" / "test", self.columns, self.features)
        (tmp_path / "all" / "dataset_dict.json").write_text('{"splits": ["test", "train"]}')
        data = read_labelled(tmp_path / "all")
        assert len(data) == 6
        assert data.said[0] == "split 'train' of 'test', 'train'"
        assert data.name == "all"
        (tmp_path / "all" / "dataset_dict.json").write_text('{"splits": ["test", "validation"]}')
        with pytest.raises(
            InputError, match="no split 'train'; give the folder of one split: 'test', 'validation'"
        ):
            read_labelled(tmp_path / "all")

    @pytest.mark.parametrize(
        ("file", "content", "message"),
        [
            ("state.json", '{"_data_files": [{"filename": "../x.arrow"}]}', "outside of the folder"),
            ("state.json", '{"_data_files": [{"filename": "gone.arrow"}]}', r"gone\.arrow: no such file"),
            ("state.json", '{"_data_files": []}', "names no data files"),
            ("state.json", "{", "not a JSON file"),
            ("dataset_info.json", "[]", "no 'features' in it"),
        ],
    )
    def test_a_damaged_folder_is_told(self, tmp_path, file, content, message):
        folder = write_saved(tmp_path / "saved", self.columns, self.features)
        (folder / file).write_text(content)
        with pytest.raises((FileError, MissingFileError), match=message):
            read_labelled(folder)

    def test_what_the_library_itself_saves_is_read(self, tmp_path):
        datasets = pytest.importorskip("datasets")
        features = datasets.Features(
            {"sentence": datasets.Value("string"), "kind": datasets.ClassLabel(names=["zebra", "ape", "cow"])}
        )
        made = datasets.Dataset.from_dict(self.columns, features=features)
        made.select([0, 1, 2, 3, 5]).save_to_disk(tmp_path / "one")
        data = read_labelled(tmp_path / "one")
        assert data.classes == ("zebra", "cow")
        assert data.inputs == [(TEXTS[row],) for row in (0, 1, 2, 3, 5)]
        datasets.DatasetDict(train=made, test=made).save_to_disk(tmp_path / "all")
        assert len(read_labelled(tmp_path / "all")) == 6


class TestVectors:
    vectors = [[0.5, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0]]  # noqa: RUF012
    labels = ["a", "b", "a", "b"]  # noqa: RUF012

    @pytest.mark.parametrize(
        "kind", [pa.list_(pa.float32()), pa.list_(pa.float64(), 2), pa.large_list(pa.int8())]
    )
    def test_a_column_of_lists_is_an_array(self, tmp_path, kind):
        vectors = (
            [[int(x) for x in row] for row in self.vectors] if kind.value_type == pa.int8() else self.vectors
        )
        path = write_parquet(
            tmp_path / "e.parquet", {"embedding": pa.array(vectors, kind), "label": self.labels}
        )
        data = read_labelled(path)
        assert data.inputs.dtype == np.float32
        assert data.inputs.tolist() == vectors

    def test_beside_other_features_each_number_is_a_column(self, tmp_path):
        columns = {"embedding": self.vectors, "age": [3, 1, 4, 1], "label": self.labels}
        data = read_labelled(write_parquet(tmp_path / "e.parquet", columns))
        assert data.inputs.columns.tolist() == ["embedding[0]", "embedding[1]", "age"]
        assert data.inputs.to_numpy().tolist()[2] == [4.0, 5.0, 4.0]

    @pytest.mark.parametrize(
        ("row", "message"),
        [
            ([1.0], "column 'embedding', row 2 has 1 numbers; every list must be as long as the first"),
            (None, "column 'embedding', row 2 has no list"),
            ([1.0, float("nan")], "column 'embedding', row 2, column 1 is nan; every number must be there"),
            ([1.0, None], "column 'embedding', row 2, column 1 is nan"),
            ([float("inf"), 1.0], "column 'embedding', row 2, column 0 is inf"),
        ],
    )
    def test_a_list_that_does_not_fit_is_told(self, tmp_path, row, message):
        vectors = [*self.vectors[:2], row, self.vectors[3]]
        path = write_parquet(tmp_path / "e.parquet", {"embedding": vectors, "label": self.labels})
        with pytest.raises(InputError, match=message):
            read_labelled(path)


def test_a_saved_pandas_index_names_the_rows(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"review": TEXTS, "label": pd.Categorical(LABELS, ["good", "so-so", "bad"])})
    frame.index = [f"r{row}" for row in range(6)]
    frame.to_parquet(tmp_path / "f.parquet")
    data = read_labelled(tmp_path / "f.parquet")
    assert data.ids.tolist() == frame.index.tolist()
    assert data.classes == ("good", "bad")  # the order of the categories
    frame.to_csv(tmp_path / "f.csv")
    assert read_labelled(tmp_path / "f.csv").ids.tolist() == frame.index.tolist()


def test_gzip_of_several_members_is_read_whole(tmp_path):
    whole = write_csv(tmp_path / "a.csv", REVIEWS).read_bytes()
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(whole[:90]) + gzip.compress(whole[90:]))
    assert len(read_labelled(path)) == 6


def test_a_damaged_gzip_file_is_told(tmp_path):
    path = write_csv(tmp_path / "a.csv.gz", REVIEWS)
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    path.write_bytes(damaged)
    with pytest.raises(FileError, match=r"a\.csv\.gz: not a gzip file, or a damaged one"):
        read_labelled(path)
    shutil.copy(write_csv(tmp_path / "a.csv", REVIEWS), path)
    with pytest.raises(FileError, match="not a gzip file, or a damaged one"):
        read_labelled(path)
