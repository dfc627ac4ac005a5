"""Where audited data came from: it is read again as it was, or the reason is told."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from audit_data import iris, reviews, shorten
from own_files import picture_folder
from sklearn.datasets import load_iris

from icelens.auditing.public import run_audit
from icelens.auditing.source import Source, found_source, source_data, source_of
from icelens.data import from_arrays
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


def test_a_folder_without_an_audit_and_a_damaged_recipe_are_told(tmp_path):
    with pytest.raises(MissingFileError, match="holds no finished audit"):
        source_of(tmp_path)
    for content in ('{"source": 7}', '{"source": {"path": "x", "run": "rm"}}', '{"source": {"label": "x"}}'):
        (tmp_path / "recipe.json").write_text(content)
        with pytest.raises(FileError, match="not what an audit wrote"):
            source_of(tmp_path)
