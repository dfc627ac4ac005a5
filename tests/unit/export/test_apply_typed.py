"""Parquet, Arrow, .npz, saved data sets and folders of images come back as they were, but for the changes."""

import datetime
import os

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from own_files import LABELS, TEXTS
from PIL import Image
from pyarrow import feather, parquet
from reviewed import applied, verdicts

from icelens.auditing.folder import AuditFolder
from icelens.auditing.source import found_source, source_data
from icelens.data import from_arrays
from icelens.errors import FileError, InputError
from icelens.export import apply
from icelens.export.apply import rewrite
from icelens.export.changes import changes_of

ROWS = 12
TEXT = [f"{text} {row}" for row, text in enumerate(TEXTS * 2)]


def table(labels, **more):
    """A table with columns that only Arrow knows, and metadata."""
    columns = {
        "text": pa.array(TEXT),
        "when": pa.array([datetime.datetime(2026, 1, 1)] * ROWS, pa.timestamp("ns", "UTC")),
        "deep": pa.array([{"a": [row], "b": None} for row in range(ROWS)]), "label": labels,
        "price": pa.array([None, *range(1, ROWS)], pa.decimal128(9, 2)), **more,
    }  # fmt: skip
    found = pa.table(columns)
    field = found.schema.field("text").with_metadata({b"unit": b"words"})
    return found.cast(found.schema.set(0, field).with_metadata({b"owner": b"ann"}))


TYPES = {
    "string": pa.array(LABELS * 2),
    "large_string": pa.array(LABELS * 2, pa.large_string()),
    "dictionary": pa.array(LABELS * 2).dictionary_encode(),
    "int8": pa.array([0, 1, 7] * 4, pa.int8()),
    "uint64": pa.array([0, 1, 7] * 4, pa.uint64()),
    "double": pa.array([0.0, 1.0, 7.0] * 4),
    "bool": pa.array([True, False, False] * 4),
    "decimal": pa.array([0, 1, 7] * 4, pa.decimal128(5, 1)),
}


def expected(given, labels, drop, before=False):
    """By Python's own lists, whatever the writers do."""
    place = given.schema.get_field_index("label")
    changed = given.set_column(
        place, given.schema.field("label"), pa.array(labels, given.schema.field("label").type)
    )
    if before:
        changed = changed.append_column(
            given.schema.field("label").with_name("label_before"), given.column("label")
        )
    return changed.take([row for row in range(ROWS) if row not in drop])


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("kind", TYPES)
def test_parquet_keeps_the_table_schema_metadata_and_groups(tmp_path, kind, before):
    given = table(TYPES[kind])
    path, out = tmp_path / "data.parquet", tmp_path / "cleaned.parquet"
    parquet.write_table(given, path, row_group_size=5, compression={"text": "gzip", "label": "zstd"})
    given = parquet.read_table(path)  # Parquet has its own name for the items of a list
    labels = given.column("label").to_pylist()
    other = next(label for label in labels if label != labels[0])
    name = str(int(other)) if kind in ("double", "decimal") else str(other)
    labels[0] = labels[9] = other if labels[9] != other else labels[9]
    done = applied(
        path,
        out,
        history=before,
        relabel={0: name, 9: name},
        drop=[3, 10, 11],
        unsure=[1],
        options={"text": ("text",)},
    )
    assert (done.written, done.dropped) == (9, 3)
    found, wanted = parquet.read_table(out), expected(given, labels, {3, 10, 11}, before)
    assert found.schema.equals(wanted.schema, check_metadata=True)
    assert found.to_pylist() == wanted.to_pylist()  # categories may be numbered otherwise in each group
    old, new = (parquet.ParquetFile(file).metadata for file in (path, out))
    assert [new.row_group(group).num_rows for group in range(new.num_row_groups)] == [4, 5]
    assert [new.row_group(0).column(number).compression for number in range(old.num_columns)] == [
        old.row_group(0).column(number).compression for number in range(old.num_columns)
    ]


def test_parquet_without_changes_is_equal(tmp_path):
    given = table(TYPES["dictionary"])
    parquet.write_table(given, tmp_path / "data.parquet", row_group_size=5)
    given = parquet.read_table(tmp_path / "data.parquet")
    applied(tmp_path / "data.parquet", tmp_path / "cleaned.parquet", keep=[0], options={"text": ("text",)})
    assert parquet.read_table(tmp_path / "cleaned.parquet").equals(given, check_metadata=True)


VIEW = pa.string_view()
VIEWS = {
    "words": pa.array([f"{text}, told at length" for text in TEXT[:-1]] + [None], VIEW),
    "bytes": pa.array([bytes([row]) for row in range(ROWS)], pa.binary_view()),
    "lists": pa.array([["a", None]] * ROWS, pa.list_(VIEW)),
    "large": pa.array([["a"], None] * (ROWS // 2), pa.large_list(VIEW)),
    "pairs": pa.array([["a", "b"]] * ROWS, pa.list_(VIEW, 2)),
    "deep": pa.array([{"a": "x", "n": row} for row in range(ROWS)], pa.struct([("a", VIEW), ("n", "int8")])),
    "map": pa.array([[("a", "x")]] * ROWS, pa.map_(pa.string(), VIEW)),
}


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize(
    ("kind", "suffix"),
    [("view", "arrow"), ("view", "parquet"), ("dictionary", "arrow"), ("string", "arrow")],
)
def test_views_stay_views(tmp_path, kind, suffix, before):
    labels = pa.array(LABELS * 2, VIEW if kind == "view" else pa.string())
    if kind == "dictionary":
        coded = pa.array(LABELS * 2).dictionary_encode()
        labels = pa.DictionaryArray.from_arrays(coded.indices, coded.dictionary.cast(VIEW))
    given = pa.table({"label": labels, **VIEWS})
    path, out = tmp_path / f"data.{suffix}", tmp_path / f"cleaned.{suffix}"
    if suffix == "arrow":
        with pa.ipc.new_file(str(path), given.schema) as writer:
            writer.write_table(given)
    else:
        parquet.write_table(given, path)
    relabel = {0: "good", 1: "odd"}
    applied(path, out, history=before, relabel=relabel, drop=[2, 5], options={"text": ("words",)})
    found = pa.ipc.open_file(str(out)).read_all() if suffix == "arrow" else parquet.read_table(out)
    kept = [row for row in range(ROWS) if row not in (2, 5)]
    assert found.column("label").to_pylist() == ["good", "odd", *[(LABELS * 2)[row] for row in kept[2:]]]
    if before:
        assert found.column("label_before").to_pylist() == [(LABELS * 2)[row] for row in kept]
    given = given if suffix == "arrow" else parquet.read_table(path)
    for name in VIEWS:
        assert found.column(name).to_pylist() == [given.column(name).to_pylist()[row] for row in kept]
    assert found.select(given.column_names).schema.equals(given.schema)


def test_pandas_reads_its_own_parquet_back_with_its_index(tmp_path):
    frame = pd.DataFrame(
        {"text": TEXT, "label": pd.Categorical(LABELS * 2)}, index=pd.RangeIndex(ROWS, name="n")
    )
    frame.to_parquet(tmp_path / "data.parquet")
    applied(tmp_path / "data.parquet", tmp_path / "cleaned.parquet", relabel={0: "good", 1: "odd"}, drop=[5])
    found = pd.read_parquet(tmp_path / "cleaned.parquet")
    assert found["label"].tolist() == ["good", "odd", *(LABELS * 2)[2:5], *(LABELS * 2)[6:]]
    assert found["label"].dtype == "category"
    assert list(found.columns) == ["text", "label"]


def test_a_new_class_must_fit_the_type(tmp_path):
    parquet.write_table(table(TYPES["int8"]), tmp_path / "data.parquet")
    applied(
        tmp_path / "data.parquet", tmp_path / "cleaned.parquet", relabel={0: "9"}, options={"text": ("text",)}
    )
    column = parquet.read_table(tmp_path / "cleaned.parquet").column("label")
    assert column[0].as_py() == 9
    assert column.type == pa.int8()
    with pytest.raises(InputError, match="labels are of type int8, which class 'cat' cannot be"):
        applied(
            tmp_path / "data.parquet",
            tmp_path / "other.parquet",
            relabel={0: "cat"},
            options={"text": ("text",)},
        )
    assert not (tmp_path / "other.parquet").exists()


@pytest.mark.parametrize(
    ("kind", "name"),
    [("uint8", "300"), ("uint8", "-1"), ("int8", "128"), ("float16", "70000"), ("float32", "16777217"),
     ("float64", "123456789012345678")],
)  # fmt: skip
def test_a_number_that_a_type_has_no_room_for_is_told(tmp_path, kind, name):
    """Rounded, it would be another class."""
    draw = np.random.default_rng(0).normal(size=(ROWS, 3))
    labels = np.array([0, 1, 7] * 4, dtype=kind)
    np.savez(tmp_path / "data.npz", X=draw, y=labels)
    parquet.write_table(pa.table({"x": draw[:, 0], "label": labels}), tmp_path / "data.parquet")
    for suffix in ("npz", "parquet"):
        path, out = tmp_path / f"data.{suffix}", tmp_path / suffix / f"cleaned.{suffix}"
        with pytest.raises(InputError, match=f"labels are of type .*, which class '{name}' cannot be"):
            applied(path, out, relabel={0: name})
        assert not out.exists()
        applied(path, out, relabel={0: "100"})
    found = parquet.read_table(tmp_path / "parquet/cleaned.parquet").column("label")
    assert found.to_pylist() == [100, *labels[1:].tolist()]
    with np.load(tmp_path / "npz/cleaned.npz") as arrays:
        assert arrays["y"].tolist() == found.to_pylist()
        assert arrays["y"].dtype == kind


def test_a_feature_that_is_called_label_is_not_taken_for_the_labels_of_a_frame(tmp_path):
    X = pd.DataFrame({"label": np.arange(ROWS) % 4, "x": np.random.default_rng(0).normal(size=ROWS)})
    data, path, out = from_arrays(X, LABELS * 2), tmp_path / "data.parquet", tmp_path / "cleaned.parquet"
    AuditFolder(tmp_path / "audit").start({}, data)
    X.assign(target=LABELS * 2).to_parquet(path)
    source, read = found_source(tmp_path / "audit", path), source_data(tmp_path / "audit", path)
    rewrite(source, read, changes_of(read, verdicts(relabel={0: "good"})), out)
    wanted = X.assign(target=["good", *(LABELS * 2)[1:]])
    pd.testing.assert_frame_equal(pd.read_parquet(out), wanted)


def test_arrow_files_and_streams_stay_what_they_are(tmp_path):
    given = table(TYPES["string"])
    labels = ["good", *given.column("label").to_pylist()[1:]]
    for name, opener, reader in (
        ("file", pa.ipc.new_file, pa.ipc.open_file),
        ("stream", pa.ipc.new_stream, pa.ipc.open_stream),
    ):
        path, out = tmp_path / f"{name}.arrow", tmp_path / f"{name}-cleaned.arrow"
        with opener(str(path), given.schema) as writer:
            writer.write_table(given, max_chunksize=5)
        applied(path, out, relabel={0: "good"}, drop=[2], options={"text": ("text",)})
        with pa.memory_map(str(out)) as mapped:
            assert reader(mapped).read_all().equals(expected(given, labels, {2}), check_metadata=True)
    feather.write_feather(given, str(tmp_path / "data.feather"))
    applied(
        tmp_path / "data.feather",
        tmp_path / "cleaned.feather",
        relabel={0: "good"},
        drop=[2],
        options={"text": ("text",)},
    )
    assert feather.read_table(tmp_path / "cleaned.feather").equals(expected(given, labels, {2}))


def saved(folder, *, split=False, names=("bad", "good", "never")):
    features = datasets.Features(
        {
            "text": datasets.Value("string"),
            "label": datasets.ClassLabel(names=list(names)),
            "n": datasets.Value("int16"),
        }
    )
    columns = {"text": TEXT, "label": [names.index(label) for label in LABELS * 2], "n": list(range(ROWS))}
    made = datasets.Dataset.from_dict(columns, features=features)
    if split:
        made = datasets.DatasetDict({"train": made, "test": made.select(range(3)).flatten_indices()})
    made.save_to_disk(folder, **({"num_shards": 3} if not split else {}))
    return datasets.load_from_disk(folder)


def test_a_saved_dataset_goes_out_and_back_with_datasets(tmp_path):
    given = saved(tmp_path / "data")
    done = applied(tmp_path / "data", tmp_path / "cleaned", relabel={0: "good", 7: "never"}, drop=[4, 5])
    found = datasets.load_from_disk(tmp_path / "cleaned")
    assert found.features == given.features
    codes = [1, *given["label"][1:7], 2, *given["label"][8:]]
    assert found["label"] == codes[:4] + codes[6:]
    assert found["n"] == [0, 1, 2, 3, 6, 7, 8, 9, 10, 11]
    assert found["text"] == [text for row, text in enumerate(TEXT) if row not in (4, 5)]
    assert found._fingerprint != given._fingerprint
    assert len(list((tmp_path / "cleaned").glob("*.arrow"))) == 3
    assert (done.written, done.relabelled, done.dropped) == (10, 2, 2)


def test_a_class_that_is_new_joins_the_features(tmp_path):
    saved(tmp_path / "data")
    done = applied(tmp_path / "data", tmp_path / "cleaned", history=True, relabel={0: "odd"})
    found = datasets.load_from_disk(tmp_path / "cleaned")
    assert found.features["label"].names == ["bad", "good", "never", "odd"]
    assert found.features["label_before"].names == ["bad", "good", "never"]
    assert (found[0]["label"], found[0]["label_before"]) == (3, 0)
    assert any("odd" in line for line in done.said)


def test_other_splits_come_along(tmp_path):
    given = saved(tmp_path / "data", split=True)
    applied(tmp_path / "data", tmp_path / "cleaned", drop=[0])
    found = datasets.load_from_disk(tmp_path / "cleaned")
    assert found["test"].to_list() == given["test"].to_list()
    assert found["train"].to_list() == given["train"].to_list()[1:]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_all_arrays_of_an_npz_file_are_kept(tmp_path, save):
    draw = np.random.default_rng(0)
    arrays = {
        "X": draw.normal(size=(ROWS, 3)).astype(np.float16),
        "y": np.array(LABELS * 2), "ids": np.arange(ROWS) + 100,
        "weights": np.asfortranarray(draw.normal(size=(ROWS, 2))),
        "classes": np.array(["bad", "good"]), "made": np.array(7),
    }  # fmt: skip
    save(tmp_path / "data.npz", **arrays)
    applied(
        tmp_path / "data.npz", tmp_path / "cleaned.npz", history=True, relabel={0: "marvellous"}, drop=[1, 11]
    )
    with np.load(tmp_path / "cleaned.npz") as found:
        kept = [row for row in range(ROWS) if row not in (1, 11)]
        assert list(found) == [*arrays, "label_before"]
        for name in ("X", "ids", "weights"):
            np.testing.assert_array_equal(found[name], arrays[name][kept])
            assert found[name].dtype == arrays[name].dtype
        assert found["y"].tolist() == ["marvellous", *arrays["y"][kept][1:]]
        assert found["label_before"].tolist() == arrays["y"][kept].tolist()
        assert found["classes"].tolist() == ["bad", "good"]
        assert found["made"] == 7


def test_old_labels_are_not_added_to_an_npz_file_twice(tmp_path):
    X = np.random.default_rng(0).normal(size=(ROWS, 3))
    np.savez(tmp_path / "data.npz", X=X, y=np.array(LABELS * 2))
    applied(tmp_path / "data.npz", tmp_path / "once.npz", history=True, relabel={0: "good"})
    with pytest.raises(InputError, match=r"once\.npz: has an array 'label_before' already; rename it, or"):
        applied(tmp_path / "once.npz", tmp_path / "twice.npz", history=True, relabel={1: "bad"})
    assert not (tmp_path / "twice.npz").exists()
    applied(tmp_path / "once.npz", tmp_path / "twice.npz", relabel={1: "bad"})
    with np.load(tmp_path / "twice.npz") as found:
        assert found["label_before"].tolist() == LABELS * 2


def test_objects_of_an_npz_file_are_copied_unread_or_refused(tmp_path):
    things = np.array([{"a": 1}] * ROWS, dtype=object)
    X = np.random.default_rng(0).normal(size=(ROWS, 3))
    np.savez(tmp_path / "data.npz", X=X, y=np.array([0, 1] * 6), things=things)
    applied(tmp_path / "data.npz", tmp_path / "cleaned.npz", relabel={0: "1"})
    with np.load(tmp_path / "cleaned.npz", allow_pickle=True) as found:
        assert found["things"].tolist() == things.tolist()
        assert found["y"].tolist() == [1, 1, *[0, 1] * 5]
        assert found["y"].dtype == np.int64
    with pytest.raises(FileError, match="never unpickled"):
        applied(tmp_path / "data.npz", tmp_path / "other.npz", drop=[0])
    assert not (tmp_path / "other.npz").exists()


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    for number, name in enumerate(["cat", "cat", "cat", "dog", "dog", "dog"]):
        (folder / name).mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), number * 40).save(folder / name / f"{number % 3}.png")
    (folder / "cat" / "notes.txt").write_text("not an image")
    (folder / "README.md").write_text("read me")
    return folder


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("link", [False, True])
def test_images_go_into_the_folder_of_their_class(tmp_path, photos, link):
    before = content(photos)
    done = applied(photos, tmp_path / "cleaned", link=link, relabel={0: "dog", 4: "fox"}, drop=[2])
    names = {"cat/0.png": "dog/cat_0.png", "dog/1.png": "fox/1.png", "cat/2.png": None}
    moved = {names.get(name, name): image for name, image in before.items()}
    moved.pop(None)
    assert content(tmp_path / "cleaned") == moved
    assert content(photos) == before
    assert (done.written, done.relabelled, done.dropped) == (5, 2, 1)
    assert done.noun == "image"
    assert os.path.samefile(photos / "dog" / "1.png", tmp_path / "cleaned" / "fox" / "1.png") == link


@pytest.mark.parametrize("link", [False, True])
def test_a_link_to_nothing_comes_along_and_nothing_is_written_through_it(tmp_path, photos, link):
    nowhere = tmp_path / "gone.png"
    for name in ("cat/gone.png", "dog/0.jpg", "gone"):
        (photos / name).symlink_to(nowhere)
    (photos / "cat/0.png").rename(photos / "cat/0.jpg")
    applied(photos, tmp_path / "cleaned", link=link, relabel={0: "dog"}, drop=[1])
    for name in ("cat/gone.png", "dog/0.jpg", "gone"):
        assert (tmp_path / "cleaned" / name).readlink() == nowhere
    assert not nowhere.exists()
    assert (tmp_path / "cleaned/dog/cat_0.jpg").is_file()


def test_a_file_that_cannot_be_copied_is_told(tmp_path, photos):
    os.mkfifo(photos / "cat/pipe")
    with pytest.raises(FileError, match=r"cat/pipe: cannot be copied or linked: .* is a named pipe"):
        applied(photos, tmp_path / "cleaned", relabel={0: "dog"})
    assert {path.name for path in tmp_path.iterdir()} == {"photos"}


@pytest.mark.parametrize("name", ["../dog", "..", "a/b", ".hidden", "a\\b"])
def test_a_class_cannot_lead_out_of_the_folder(tmp_path, photos, name):
    with pytest.raises(InputError, match="cannot be the name of a folder"):
        applied(photos, tmp_path / "cleaned", relabel={0: name})
    assert {path.name for path in tmp_path.iterdir()} == {"photos"}


def test_what_lies_there_is_replaced_only_when_asked_and_the_source_never(tmp_path, photos):
    out = tmp_path / "cleaned"
    for place in (photos, photos / "within", tmp_path):
        with pytest.raises(InputError, match="the data that was audited"):
            applied(photos, place, force=True, drop=[0])
    (tmp_path / "link").symlink_to(photos)
    with pytest.raises(InputError, match="the data that was audited"):
        applied(photos, tmp_path / "link", force=True, drop=[0])
    out.mkdir()
    (out / "mine.txt").write_text("dear to me")
    with pytest.raises(InputError, match="exists"):
        applied(photos, out, drop=[0])
    with pytest.raises(InputError, match="did not write"):
        applied(photos, out, force=True, drop=[0])
    applied(photos, tmp_path / "again", drop=[0])
    applied(photos, tmp_path / "again", force=True, drop=[1])
    assert "cat/1.png" not in content(tmp_path / "again")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_failure_leaves_nothing_behind(tmp_path, photos, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(apply, "_write_log", fail)
    with pytest.raises(OSError, match="No space"):
        applied(photos, tmp_path / "cleaned", drop=[0])
    assert {path.name for path in tmp_path.iterdir()} == {"photos"}


def test_the_format_stays_what_it_was(tmp_path, photos):
    parquet.write_table(table(TYPES["string"]), tmp_path / "data.parquet")
    for name in ("cleaned.csv", "cleaned", "cleaned.parquet.gz"):
        with pytest.raises(InputError, match=r"--out must end in .parquet or .pq"):
            applied(tmp_path / "data.parquet", tmp_path / name, options={"text": ("text",)}, drop=[0])
    with pytest.raises(InputError, match="is named like a file"):
        applied(photos, tmp_path / "cleaned.csv", drop=[0])
    with pytest.raises(InputError, match="which a folder of images has not"):
        applied(photos, tmp_path / "cleaned", history=True, drop=[0])
    with pytest.raises(InputError, match="--link is for folders of images"):
        applied(
            tmp_path / "data.parquet",
            tmp_path / "cleaned.pq",
            link=True,
            options={"text": ("text",)},
            drop=[0],
        )
