"""The folder of an audit: what is written is read back, and no other audit gets into it."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from audit_data import iris, reviews, same, shapes, shorten
from own_files import picture_folder
from report_audits import HOSTILE, digits, texts

from icelens.auditing import folder as folders
from icelens.auditing import public, stages
from icelens.auditing.folder import AuditFolder, fingerprint
from icelens.auditing.public import run_audit
from icelens.data import from_arrays, read_labelled
from icelens.errors import FileError, InputError, MissingFileError

FILES = {"recipe.json", "examples.parquet", "examples.csv", "audit.json", "history.npz", "report.html"}
FILES |= {"model.safetensors", "review.npz"}


@pytest.fixture(autouse=True)
def short(monkeypatch):
    shorten(monkeypatch)


def run(out, data=None, **settings):
    return run_audit(iris() if data is None else data, out=out, device="cpu", **settings)


def never(*_, **__):
    raise AssertionError("trained again")


@pytest.mark.parametrize("make", [digits, lambda: texts([text for text in HOSTILE if "\ud83d" not in text])])
def test_what_is_written_is_read_back(make, tmp_path):
    audit, _ = make()
    folder = AuditFolder(tmp_path)
    folder.write(audit)
    same(folder.read(), audit)
    assert not (tmp_path / "stages").exists()
    found = pd.read_csv(tmp_path / "examples.csv", keep_default_na=False)
    np.testing.assert_allclose(found["trust"], audit.examples["trust"], rtol=1e-5)


def test_an_audit_without_history_is_read_back(tmp_path):
    audit, _ = texts(["a", "b", "c"])
    AuditFolder(tmp_path).write(dataclasses.replace(audit, history=None))
    assert AuditFolder(tmp_path).read().history is None


def test_labels_and_guesses_keep_their_categories(tmp_path):
    """Also those that no guess has."""
    audit, _ = texts(["a", "b"], classes=("zebra", "ape", "none"), labels=[0, 0])
    AuditFolder(tmp_path).write(audit)
    found = AuditFolder(tmp_path).read().examples
    for name in ("label", "guess"):
        assert found[name].cat.categories.tolist() == ["zebra", "ape", "none"]


def test_a_finished_audit_has_its_files_and_no_others(tmp_path):
    run(tmp_path / "out")
    assert {file.name for file in (tmp_path / "out").iterdir()} == FILES
    recipe = json.loads((tmp_path / "out/recipe.json").read_text())
    assert recipe["settings"] == {"seed": 0, "backbone": None}
    assert len(recipe["data_fingerprint"]) == 32


def test_a_second_call_reads_what_is_there(tmp_path, monkeypatch):
    first = run(tmp_path)
    monkeypatch.setattr(stages, "fit", never)
    same(run(tmp_path), first)
    (tmp_path / "audit.json").unlink()
    with pytest.raises(AssertionError, match="trained again"):
        run(tmp_path)


def test_a_budget_of_the_second_call_has_its_row(tmp_path):
    assert 7 not in run(tmp_path).budgets["n"].tolist()
    found = run(tmp_path, budget=7)
    expected = (1 - found.suspects(7)["trust"]).sum()
    assert found.budgets.set_index("n")["errors"][7] == pytest.approx(expected)


def test_other_data_and_other_settings_are_refused(tmp_path, monkeypatch):
    run(tmp_path)
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    monkeypatch.setattr(stages, "fit", never)
    with pytest.raises(
        InputError, match=r"holds an audit of other data; give another folder \(--out, from Python out=\)"
    ):
        run(tmp_path, iris(flips=(8,)))
    with pytest.raises(InputError, match="holds an audit with seed=0, not 1; give another folder"):
        run(tmp_path, seed=1)
    with pytest.raises(InputError, match="holds an audit with backbone=None, not 'bert'"):
        run(tmp_path, backbone="bert")
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_an_audit_that_fails_before_its_first_run_leaves_no_folder(tmp_path):
    with pytest.raises(MissingFileError, match="nope"):
        run_audit(texts(["one", "two"] * 9)[1], device="cpu", out=tmp_path / "a", backbone=tmp_path / "nope")
    assert not (tmp_path / "a").exists()


def test_giving_up_removes_nothing_that_was_trained(tmp_path):
    folder = AuditFolder(tmp_path / "a")
    folder.start({"seed": 0}, iris())
    folder.stages.mkdir()
    (folder.stages / "run.npz").write_bytes(b"hours of work")
    folder.give_up()
    assert (folder.path / "recipe.json").exists()
    assert (folder.stages / "run.npz").exists()
    (folder.stages / "run.npz").unlink()
    folder.give_up()
    assert not folder.path.exists()


def test_what_makes_way_is_what_another_audit_would_be_refused_for(tmp_path):
    data, settings = iris(), {"seed": 0, "backbone": None}
    folder = AuditFolder(tmp_path / "flowers")
    assert folder.make_way(settings, data) is None
    folder.start(settings, data)
    assert folder.make_way(settings, data) is None  # it was stopped, and goes on
    assert folder.make_way({**settings, "seed": 1}, data) == tmp_path / "flowers.1"
    folder.start(settings, data)
    assert folder.make_way(settings, iris(flips=(8,))) == tmp_path / "flowers.2"
    folder.start(settings, data)
    (folder.path / "audit.json").write_text("{}")
    assert folder.make_way(settings, data) == tmp_path / "flowers.3"
    assert (tmp_path / "flowers.3/audit.json").exists()
    assert not folder.path.exists()


def test_no_other_folder_makes_way(tmp_path):
    (tmp_path / "recipe.json").write_text('{"settings": {}}')  # a training run
    with pytest.raises(InputError, match="holds no audit"):
        AuditFolder(tmp_path).make_way({}, iris())
    with pytest.raises(InputError, match="holds no audit"):
        run(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["recipe.json"]


def test_a_folder_that_holds_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(InputError, match="is not empty and holds no audit"):
        run(tmp_path)
    with pytest.raises(InputError, match=r"thesis\.tex is a file; give the name of a folder"):
        run(tmp_path / "thesis.tex")
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_what_a_killed_audit_left_of_a_file_is_no_obstacle_and_goes(tmp_path):
    (tmp_path / ".recipe.json.4242.part").write_text('{"sett')
    (tmp_path / "stages").mkdir()
    with pytest.raises(InputError, match="holds no audit"):
        run(tmp_path)
    (tmp_path / "stages").rmdir()
    run(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == FILES


def test_an_audit_that_cannot_be_written_is_not_called_finished(tmp_path, monkeypatch):
    run(tmp_path / "whole")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    for name in ("to_parquet", "to_csv"):
        with monkeypatch.context() as patched:
            patched.setattr(pd.DataFrame, name, full)
            with pytest.raises(OSError, match="No space left"):
                run(tmp_path / "part")
        assert not AuditFolder(tmp_path / "part").finished
    assert not [file for file in (tmp_path / "part").rglob("*") if file.name.endswith(".part")]
    monkeypatch.setattr(stages, "fit", never)  # all runs are kept
    same(run(tmp_path / "part"), AuditFolder(tmp_path / "whole").read())


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("audit.json", b"{}"),
        ("audit.json", b'{"estim'),
        ("audit.json", b"[]"),
        ("examples.parquet", b"PAR1"),
        ("history.npz", b"PK\x03\x04"),
        ("recipe.json", b"\xff"),
    ],
)
def test_damaged_files_are_told(name, content, tmp_path):
    run(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FileError, match=str(tmp_path)):
        run(tmp_path)
    (tmp_path / name).unlink()
    if name == "examples.parquet":
        with pytest.raises(FileError, match=name):
            run(tmp_path)


def test_a_folder_without_an_audit_cannot_be_read(tmp_path):
    with pytest.raises(MissingFileError, match="nowhere: no such folder"):
        AuditFolder(tmp_path / "nowhere").read()
    with pytest.raises(MissingFileError, match="holds no finished audit"):
        AuditFolder(tmp_path).read()


def test_a_report_can_be_left_out(tmp_path):
    run(tmp_path, report=False)
    assert {file.name for file in tmp_path.iterdir()} == FILES - {"report.html"}


def test_a_device_that_is_not_there_is_told_before_anything_is_written(tmp_path):
    with pytest.raises(InputError, match="unknown device 'tpu9'"):
        public.run_audit(iris(), out=tmp_path / "out", device="tpu9")
    assert not (tmp_path / "out").exists()


def variants():
    """For every kind of data, the same data again and all that must be told apart from it."""
    X, y = np.arange(40, dtype=np.float32).reshape(20, 2), ["a", "b"] * 10
    changed = X.copy()
    changed[3, 1] += 1
    words, labels, _ = reviews(20, wrong=())
    images, bars = shapes(20)
    frame = pd.DataFrame({"x": np.roll(X[:, 0], 1), "c": ["red", "red", "blue", "blue"] * 5})
    yield (
        "arrays",
        (X, y),
        [(changed, y), (X, y[::-1]), (X, ["a", "c"] * 10), (X[:, ::-1], y), (X[:-2], y[:-2])],
    )
    sparse = scipy.sparse.csr_matrix(X)
    yield "sparse", (sparse, y), [(scipy.sparse.csr_matrix(changed), y), (sparse[:, ::-1], y)]
    yield (
        "frame",
        (frame, y),
        [
            (frame.assign(x=np.roll(changed[:, 1], 1)), y),
            (frame.rename(columns={"x": "z"}), y),
            (frame.assign(c="red"), y),
        ],
    )
    yield "texts", (words, labels), [([*words[:-1], "else"], labels), (words[::-1], labels)]
    yield "images", (images, bars), [(images[::-1], bars), (images // 2, bars)]


@pytest.mark.parametrize(
    ("same_again", "others"), [case[1:] for case in variants()], ids=[c[0] for c in variants()]
)
def test_a_fingerprint_knows_the_data_again_and_no_other(same_again, others):
    prints = [fingerprint(from_arrays(*case)) for case in (same_again, *others)]
    assert len(set(prints)) == len(prints)
    assert fingerprint(from_arrays(*same_again)) == prints[0]
    assert fingerprint(from_arrays(*same_again, ids=[f"i{n}" for n in range(20)])) != prints[0]


def test_a_fingerprint_knows_image_files_by_name_size_and_time(tmp_path):
    import os

    where = picture_folder(tmp_path / "pets")
    first = fingerprint(read_labelled(where))
    assert fingerprint(read_labelled(where)) == first
    os.utime(where / "cat/1.png", ns=(1, 1))
    assert fingerprint(read_labelled(where)) != first


def test_nothing_that_json_cannot_hold_gets_into_the_folder(tmp_path):
    run(tmp_path)
    for name in ("audit.json", "recipe.json"):
        json.loads((tmp_path / name).read_text(), parse_constant=pytest.fail)
    assert folders.records(pd.DataFrame({"a": [np.nan]})) == [{"a": None}]
