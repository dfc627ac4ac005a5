"""Where audited data came from: it is read again as it was, or the reason is told."""

import json
import os
import shutil

import numpy as np
import pandas as pd
import pytest
from audit_data import iris, reviews, shorten
from own_files import picture_folder
from sklearn.datasets import load_iris

from icelens.auditing import fingerprint as fingerprints
from icelens.auditing.folder import AuditFolder
from icelens.auditing.public import run_audit
from icelens.auditing.source import Source, found_source, source_data, source_of
from icelens.data import from_arrays, read_labelled
from icelens.errors import FileError, InputError, MissingFileError


@pytest.fixture(autouse=True)
def short(monkeypatch):
    shorten(monkeypatch)


@pytest.fixture
def source(tmp_path):
    """A table of reviews, one of which has no label."""
    texts, labels, ids = reviews()
    lines = [f"{i},{text},{label}" for i, text, label in zip(ids, texts, labels, strict=True)]
    (tmp_path / "in").mkdir()
    (tmp_path / "in/reviews.csv").write_text("\n".join(["key,said,stars", *lines, "last,no label,"]) + "\n")
    path = str(tmp_path / "in/reviews.csv")
    return Source(path, label="stars", text=("said",), id="key", drop_unlabelled=True)


def audited(source, out):
    run_audit(source.read(), out=out, device="cpu", report=False, source=source)
    return out


def test_the_data_of_an_audit_is_read_again_as_it_was(source, tmp_path):
    folder = audited(source, tmp_path / "in/out")
    assert source_of(folder) == source
    again, before = source_data(folder), source.read()
    assert again.inputs == before.inputs
    assert again.ids.tolist() == before.ids.tolist()
    np.testing.assert_array_equal(again.labels, before.labels)


def test_a_recipe_holds_the_whole_path_and_all_options(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path / "in")
    audited(Source("reviews.csv", label="stars", text=("said",), id="key", drop_unlabelled=True), "out")
    recorded = json.loads((tmp_path / "in/out/recipe.json").read_text())["source"]
    assert recorded == {
        "path": str(tmp_path / "in/reviews.csv"), "label": "stars", "text": ["said"], "image": None,
        "features": [], "id": "key", "drop_unlabelled": True, "keep_rare": False, "skip_broken": False,
    }  # fmt: skip
    monkeypatch.chdir("/")
    assert len(source_data(tmp_path / "in/out")) == 60


def test_data_that_was_moved_with_its_audit_is_found_beside_it(source, tmp_path):
    audited(source, tmp_path / "in/out")
    shutil.move(tmp_path / "in", tmp_path / "moved")
    assert len(source_data(tmp_path / "moved/out")) == 60


def test_data_that_is_gone_is_told_and_may_be_named(source, tmp_path):
    folder = audited(source, tmp_path / "out")
    elsewhere = tmp_path / "elsewhere.csv"
    shutil.move(source.path, elsewhere)
    was, beside = tmp_path / "in/reviews.csv", tmp_path / "reviews.csv"
    with pytest.raises(MissingFileError) as told:
        source_data(folder)
    assert str(told.value) == f"{was}: no such file or folder, nor {beside}; say where it is (--data)"
    assert len(source_data(folder, elsewhere)) == 60
    assert found_source(folder, elsewhere).label == "stars"


def test_an_audit_of_data_that_was_moved_remembers_the_new_place(source, tmp_path):
    folder = audited(source, tmp_path / "out")
    elsewhere = tmp_path / "elsewhere.csv"
    shutil.move(source.path, elsewhere)
    audited(Source(**{**vars(source), "path": str(elsewhere)}), folder)
    assert source_of(folder).path == str(elsewhere)


def test_data_that_changed_is_refused(source, tmp_path):
    folder = audited(source, tmp_path / "out")
    path = tmp_path / "in/reviews.csv"
    path.write_text(path.read_text().replace("parcel", "packet", 1))
    with pytest.raises(InputError, match=r"reviews\.csv changed since it was audited"):
        source_data(folder)


def test_a_folder_of_images_is_read_again(tmp_path):
    where = picture_folder(tmp_path / "pets")
    folder = audited(Source(str(where)), tmp_path / "out")
    assert source_data(folder).kind == "image"


def test_arrays_have_no_source(tmp_path):
    run_audit(iris(), out=tmp_path, device="cpu", report=False)
    assert json.loads((tmp_path / "recipe.json").read_text())["source"] is None
    assert source_of(tmp_path) is None
    with pytest.raises(InputError, match=r"made from arrays in memory.*\(--data\).*X=X, y=y"):
        source_data(tmp_path)


def saved_as(kind, folder):
    """What is audited from memory, and the file by which the message says that it can be read again."""
    if kind == "texts":
        texts, labels, ids = reviews()
        table = pd.DataFrame({"text": texts, "label": labels, "id": ids})
        table.to_csv(folder / "data.csv", index=False)
        return from_arrays(texts, labels, ids=ids), folder / "data.csv"
    X, y = load_iris(return_X_y=True)
    if kind == "arrays":
        np.savez(folder / "data.npz", X=X, y=y)
        return from_arrays(X, y), folder / "data.npz"
    X = pd.DataFrame(X, columns=list("abcd")).assign(town=np.where(np.arange(150) % 2, "Oslo", "Rome"))
    X.assign(label=y).to_parquet(folder / "data.parquet")
    return from_arrays(X, y), folder / "data.parquet"


@pytest.mark.parametrize("kind", ["arrays", "frame", "texts"])
def test_a_file_as_the_message_asks_for_stands_in_for_arrays(kind, tmp_path):
    data, path = saved_as(kind, tmp_path)
    run_audit(data, out=tmp_path / "out", device="cpu", report=False)
    assert len(source_data(tmp_path / "out", path)) == len(data)


def frame(**column):
    X = pd.DataFrame(load_iris().data, columns=list("abcd"))
    return X.assign(**column), np.array(["setosa", "versicolor", "virginica"])[load_iris().target]


def started(data, folder, **changed):
    """The folder of an audit that has only begun: its recipe, from which some things are taken."""
    AuditFolder(folder).start({"seed": 0, "backbone": None}, data)
    recipe = json.loads((folder / "recipe.json").read_text())
    kept = {name: value for name, value in recipe.items() if changed.get(name, True)}
    (folder / "recipe.json").write_text(json.dumps(kept))
    return folder


COUNT = np.arange(150)
ODD = {
    "constant": np.ones(150),
    "date": pd.date_range("2020", periods=150),
    "zone": pd.date_range("2020", periods=150, tz="Europe/Berlin", freq="90min"),
    "counter": COUNT,
    "site_id": COUNT % 5,
    "user_id": [f"u{row}" for row in COUNT],
    "grade": pd.Categorical(COUNT % 3),
    "zip": np.array(["00501", "01234"])[COUNT % 2],
    "version": np.array(["3.1", "3.10"])[COUNT % 2],
    "late": COUNT % 4 == 0,
    "true_label": COUNT % 7,
    "target": COUNT % 3,
    "x[0]": COUNT % 9 / 4,
}


@pytest.mark.parametrize("save", ["parquet", "csv"])
@pytest.mark.parametrize("name", ODD)
def test_in_place_of_a_frame_every_column_is_what_it_was(name, save, tmp_path):
    X, y = frame(**{name: ODD[name]})
    folder, path = started(from_arrays(X, y), tmp_path / "out"), tmp_path / f"data.{save}"
    getattr(X.assign(label=y), f"to_{save}")(path, index=False)
    kept = [] if name in ("user_id", "counter") else [name]  # too many different words; where a row stands
    assert source_data(folder, path).inputs.columns.tolist() == [*"abcd", *kept]
    getattr(X.assign(label=y, a=X["a"] + 1), f"to_{save}")(path, index=False)
    with pytest.raises(InputError, match="does not hold the arrays that were audited"):
        source_data(folder, path)


def test_vectors_in_a_frame_are_found_in_its_file(tmp_path):
    X, y = frame(site_id=COUNT % 5, vector=list(load_iris().data.astype(np.float32)))
    X.assign(label=y).to_parquet(tmp_path / "data.parquet")
    folder = started(from_arrays(X, y), tmp_path / "out")
    assert source_data(folder, tmp_path / "data.parquet").inputs.shape == (150, 4 + 1 + 4)


def test_rows_that_have_names_are_known_by_their_numbers(tmp_path):
    """As after train_test_split: pandas writes the names of rows too."""
    X, y = frame()
    X = X.sample(frac=1, random_state=0)
    folder = started(from_arrays(X, y), tmp_path / "out")
    X.assign(label=y).to_parquet(tmp_path / "data.parquet")
    X.assign(label=y).to_csv(tmp_path / "data.csv")
    for name in ("data.parquet", "data.csv"):
        assert source_data(folder, tmp_path / name).ids.tolist() == list(range(150))


def test_a_frame_in_another_format_and_a_missing_column_are_told(tmp_path):
    X, y = frame(constant=1)
    folder = started(from_arrays(X, y), tmp_path / "out")
    np.savez(tmp_path / "data.npz", X=X.to_numpy(), y=y)
    X.drop(columns="constant").assign(label=y).to_parquet(tmp_path / "data.parquet")
    with pytest.raises(InputError, match="does not hold the arrays"):
        source_data(folder, tmp_path / "data.npz")
    with pytest.raises(InputError, match="no column 'constant'"):
        source_data(folder, tmp_path / "data.parquet")
    with pytest.raises(MissingFileError, match=r"nowhere\.parquet: no such file"):
        source_data(folder, tmp_path / "nowhere.parquet")


def test_a_recipe_without_the_columns_of_its_frame_reads_what_a_file_shows_and_gets_them(tmp_path):
    X, y = frame()
    folder = started(from_arrays(X, y), tmp_path / "plain", features=False)
    X.assign(label=y).to_parquet(tmp_path / "data.parquet")
    assert len(source_data(folder, tmp_path / "data.parquet")) == 150
    X = X.assign(constant=1)
    folder = started(from_arrays(X, y), tmp_path / "odd", features=False)
    X.assign(label=y).to_parquet(tmp_path / "data.parquet")
    with pytest.raises(InputError, match="does not hold the arrays"):
        source_data(folder, tmp_path / "data.parquet")
    started(from_arrays(X, y), folder)
    assert len(source_data(folder, tmp_path / "data.parquet")) == 150


def test_what_was_let_through_in_memory_is_let_through_in_a_file(tmp_path):
    X, y = load_iris(return_X_y=True)
    rare, unlabelled = y.copy(), y.astype(float)
    rare[0], unlabelled[3] = 3, np.nan
    for name, labels, how in (("a", rare, {"keep_rare": True}), ("b", unlabelled, {"drop_unlabelled": True})):
        folder = started(from_arrays(X, labels, **how), tmp_path / name)
        np.savez(tmp_path / "data.npz", X=X, y=labels)
        assert len(source_data(folder, tmp_path / "data.npz")) == 150 - (name == "b")
    with pytest.raises(InputError, match="does not hold the arrays"):
        source_data(tmp_path / "a", tmp_path / "data.npz")


@pytest.fixture
def copied(tmp_path):
    """A folder of images and, beside it, one as `cp -r` makes it: the same but for the times of its files."""
    where = picture_folder(tmp_path / "pets")
    shutil.copytree(where, tmp_path / "copy", copy_function=shutil.copyfile)
    for path in (tmp_path / "copy").rglob("*.*"):
        os.utime(path, ns=(1, 1))
    return tmp_path / "copy"


def test_a_copy_of_image_files_is_known_by_its_contents(copied, tmp_path):
    folder = started(read_labelled(tmp_path / "pets"), tmp_path / "out")
    assert source_data(folder, copied).inputs[0] == copied / "cat/1.png"
    started(read_labelled(copied), folder)  # nor is it other data to an audit that goes on
    picture = copied / "dog/b.bmp"
    picture.write_bytes(picture.read_bytes()[:-1] + b"\x07")
    with pytest.raises(InputError, match="holds an audit of other data"):
        started(read_labelled(copied), folder)


def test_files_with_the_times_that_they_had_are_not_read(tmp_path, monkeypatch):
    where = picture_folder(tmp_path / "pets")
    folder = started(read_labelled(where), tmp_path / "out")
    monkeypatch.setattr(fingerprints, "contents_of", lambda data: pytest.fail("read all files"))
    assert len(source_data(folder, where)) == 6


def test_a_copy_is_told_of_where_files_are_known_by_their_times_alone(copied, tmp_path):
    where, folder = tmp_path / "pets", tmp_path / "out"
    AuditFolder(folder).start({}, read_labelled(where), Source(str(where)))
    with (folder / "recipe.json").open() as file:
        recipe = json.load(file)
    del recipe["contents_fingerprint"]
    (folder / "recipe.json").write_text(json.dumps(recipe))
    assert len(source_data(folder)) == 6
    with pytest.raises(InputError, match=r"copy changed since .*, or is a copy .*\(cp -a keeps them\)"):
        source_data(folder, copied)


def test_a_folder_without_an_audit_and_a_damaged_recipe_are_told(tmp_path):
    with pytest.raises(MissingFileError, match="holds no finished audit"):
        source_of(tmp_path)
    for content in ('{"source": 7}', '{"source": {"path": "x", "run": "rm"}}', '{"source": {"label": "x"}}'):
        (tmp_path / "recipe.json").write_text(content)
        with pytest.raises(FileError, match="not what an audit wrote"):
            source_of(tmp_path)
