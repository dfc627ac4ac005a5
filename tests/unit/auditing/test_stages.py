"""The runs of an audit: who is left out of which, and that none is made twice."""

import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from audit_data import iris, same, shorten

from icelens.auditing import stages
from icelens.auditing.audit import audit_labelled
from icelens.auditing.features import table_inputs
from icelens.auditing.fit import KEPT, Fit
from icelens.auditing.inputs import Plan
from icelens.auditing.shared import _agree, runs_together
from icelens.auditing.stages import FOLDS, SHORTER, TRIES, folds, honest_runs, whole_run
from icelens.ranks import ALONE

KILLED = """
import os, signal
from audit_data import iris
from icelens.auditing import stages
from icelens.auditing.public import run_audit
from icelens.auditing.inputs import Features, Plan

Features.plan = lambda self: Plan(2, 16, 1e-2)
fit, runs = stages.fit, []

def killed_in_the_second(*words, **settings):
    if runs:
        os.kill(os.getpid(), signal.SIGKILL)
    runs.append(1)
    return fit(*words, **settings)

stages.fit = killed_in_the_second
run_audit(iris(), out={out!r}, device="cpu")
"""


@pytest.fixture
def recorded(monkeypatch):
    """Runs that train nothing: what they were asked for, with the row number for a prediction."""
    asked = []

    def fake(
        inputs, labels, classes, *, rows=None, read=None, plan=None, seed=0, title="", keep=False, kept=0
    ):
        everything = torch.arange(len(labels))
        rows, read = (everything if part is None else part for part in (rows, read))
        assert kept == KEPT
        asked.append((rows, read, plan, seed, title))
        log_p = read[:, None].repeat(1, classes).float().numpy()
        return Fit(
            log_p, np.zeros(len(labels), np.float32), np.zeros(1, np.int64), np.zeros((1, 2), np.float32)
        )

    monkeypatch.setattr(stages, "fit", fake)
    return asked


class Counted:
    """Inputs of which only the plan is asked."""

    memorises = False

    def plan(self):
        return Plan(10, 32, 1e-3, 1e-2)


def never(*_, **__):
    raise AssertionError("trained again")


@pytest.mark.parametrize("counts", [[40, 40], [101, 7, 33], [4, 1, 2, 9]])
def test_folds_are_a_partition_with_equal_shares_of_every_class(counts):
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    labels = labels[torch.randperm(len(labels))]
    parts = folds(labels, torch.randperm(len(labels)), FOLDS)
    assert torch.cat(parts).sort().values.tolist() == list(range(len(labels)))
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    for number, count in enumerate(counts):
        shares = [int((labels[part] == number).sum()) for part in parts]
        assert set(shares) <= {count // FOLDS, math.ceil(count / FOLDS)}


def test_folds_depend_on_the_order():
    labels = torch.zeros(40, dtype=torch.int64)
    one, other = (folds(labels, torch.randperm(40), FOLDS)[0] for _ in range(2))
    assert one.tolist() != other.tolist()


def test_few_examples_are_all_predicted_by_runs_that_had_not_seen_them(recorded):
    labels = torch.arange(90) % 3
    honest = honest_runs(Counted(), labels, 3, seed=4, folder=None)
    assert sorted(honest.rows.tolist()) == list(range(90))
    np.testing.assert_array_equal(honest.log_p[:, 0], honest.rows)
    assert len(recorded) == FOLDS
    for rows, read, plan, seed, _ in recorded:
        assert sorted([*rows.tolist(), *read.tolist()]) == list(range(90))
        assert (plan, seed) == (Counted().plan(), 4)
    assert [title for *_, title in recorded] == [f"part {n} of 4 left out" for n in (1, 2, 3, 4)]


def test_of_many_examples_a_quarter_is_left_out_once_in_a_shorter_run(recorded, monkeypatch):
    monkeypatch.setattr(stages, "SMALL", 90)
    honest = honest_runs(Counted(), torch.arange(90) % 3, 3, seed=4, folder=None)
    ((rows, read, plan, _, title),) = recorded
    assert len(honest.rows) == len(read) == math.ceil(90 / FOLDS)
    assert set(rows.tolist()).isdisjoint(read.tolist())
    assert len(rows) + len(read) == 90
    assert plan == Plan(round(10 * SHORTER), 32, 1e-3, 1e-2)
    assert title == "a quarter left out"
    monkeypatch.setattr(stages, "SMALL", 91)
    assert len(honest_runs(Counted(), torch.arange(90) % 3, 3, seed=4, folder=None).rows) == 90


def test_the_whole_run_sees_all(recorded):
    whole_run(Counted(), torch.arange(9) % 3, 3, seed=1, folder=None)
    ((rows, read, plan, seed, _),) = recorded
    assert rows.tolist() == read.tolist() == list(range(9))
    assert (plan, seed) == (None, 1)


def says(monkeypatch, shares):
    """Runs that train nothing: with each trust in labels they are right in a share of them, and sure."""
    made = []

    def fake(inputs, labels, classes, *, read=None, title="", kept=0, **_):
        made.append(title)
        read = torch.arange(len(labels)) if read is None else read
        right = torch.arange(len(read)) < shares[TRIES.index(kept)] * len(read)
        said = torch.where(right, labels[read], (labels[read] + 1 + torch.arange(len(read)) % 2) % classes)
        log_p = torch.full((len(read), classes), 0.01).scatter_(1, said[:, None], 0.98).log().numpy()
        return Fit(log_p, np.full(len(labels), kept), np.zeros(1, np.int64), np.zeros((1, 2), np.float32))

    monkeypatch.setattr(stages, "fit", fake)
    return made


@pytest.mark.parametrize(
    ("shares", "tries", "taken"),
    [((0.9,), 1, 0), ((0.34, 0.9), 2, 1), ((0.34, 0.34, 0.9), 3, 2), ((0.36, 0.33, 0.34), 3, 0)],
)
def test_runs_that_learned_nothing_are_made_again_with_more_trust(
    monkeypatch, tmp_path, shares, tries, taken
):
    """Of three classes a third is guessed by chance. If no try learns, the one that says most counts."""
    made = says(monkeypatch, shares)
    labels = torch.arange(240) % 3
    whole, honest = runs_together(Counted(), labels, 3, ALONE, seed=0, folder=tmp_path)
    assert (whole.confidence == TRIES[taken]).all()
    assert (honest.log_p.argmax(1) == labels[honest.rows].numpy()).mean() == pytest.approx(
        shares[taken], abs=0.02
    )
    parts = [f"part {number} of 4 left out" for number in (1, 2, 3, 4)]
    expected = ["training on all", *parts]
    assert made[:5] == expected
    for number in range(1, tries):
        assert made[5 * number : 5 * number + 5] == [f"try {number + 1}: {title}" for title in expected]
    assert len(made) == 5 * tries
    runs_together(Counted(), labels, 3, ALONE, seed=0, folder=tmp_path)
    assert len(made) == 5 * tries  # all were kept, and under names of their own


@pytest.mark.parametrize("given_up_by", ["training on all", "part 2 of 4 left out"])
def test_runs_of_which_one_gave_up_a_class_are_made_again(monkeypatch, given_up_by):
    made, labels = [], (torch.arange(1200) % 12 == 0).long()

    def fake(inputs, labels, classes, *, read=None, title="", kept=0, **_):
        made.append(title)
        right = labels if read is None else labels[read]
        said = torch.zeros_like(right) if title == given_up_by else right
        log_p = torch.full((len(said), 2), 0.02).scatter_(1, said[:, None], 0.98).log().numpy()
        return Fit(log_p, np.full(len(labels), kept), np.zeros(1, np.int64), np.zeros((1, 2), np.float32))

    monkeypatch.setattr(stages, "fit", fake)
    whole, honest = runs_together(Counted(), labels, 2, ALONE, seed=0, folder=None)
    assert len(made) == 10
    np.testing.assert_array_equal(honest.log_p.argmax(1), labels[honest.rows].numpy())
    assert (whole.confidence == TRIES[1]).all()


def test_a_class_that_is_hardly_there_may_be_named_by_some_runs_and_not_by_others():
    assert _agree(np.array([[990, 10], [250, 0], [245, 5], [246, 4], [248, 2]]))
    assert not _agree(np.array([[920, 80], [250, 0], [225, 25], [230, 20], [228, 22]]))
    assert not _agree(np.array([[1000, 0], [240, 10], [245, 5], [246, 4], [248, 2]]))
    assert _agree(np.array([[500, 500, 0], [500, 500, 0]]))  # no run names the third


def test_runs_are_kept_and_not_made_again(tmp_path, monkeypatch):
    shorten(monkeypatch)
    data = iris()
    inputs, labels = table_inputs(data.inputs), torch.from_numpy(data.labels)
    whole = whole_run(inputs, labels, 3, seed=0, folder=tmp_path)
    honest = honest_runs(inputs, labels, 3, seed=0, folder=tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        *(f"part{number}.npz" for number in range(FOLDS)),
        "whole.npz",
        "whole.safetensors",
    ]
    monkeypatch.setattr(stages, "fit", never)
    again = whole_run(inputs, labels, 3, seed=0, folder=tmp_path)
    for name in ("log_p", "confidence", "iteration", "history"):
        np.testing.assert_array_equal(getattr(again, name), getattr(whole, name))
    assert again.weights.keys() == whole.weights.keys()
    assert all(torch.equal(again.weights[name], value) for name, value in whole.weights.items())
    kept = honest_runs(inputs, labels, 3, seed=0, folder=tmp_path)
    np.testing.assert_array_equal(kept.log_p, honest.log_p)
    np.testing.assert_array_equal(kept.rows, honest.rows)


def test_an_audit_over_kept_runs_is_the_same_and_trains_nothing(tmp_path, monkeypatch):
    shorten(monkeypatch)
    plain = audit_labelled(iris(), device="cpu")
    kept = audit_labelled(iris(), device="cpu", stages=tmp_path)
    same(kept, plain)
    monkeypatch.setattr(stages, "fit", never)
    same(audit_labelled(iris(), device="cpu", stages=tmp_path), plain)


def test_a_run_that_fails_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(stages, "fit", never)
    with pytest.raises(AssertionError, match="trained again"):
        whole_run(Counted(), torch.arange(9) % 3, 3, seed=0, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_audit_that_was_killed_goes_on_to_the_same_numbers(tmp_path, monkeypatch):
    out = tmp_path / "out"
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
    code = KILLED.format(out=str(out))
    ended = subprocess.run([sys.executable, "-c", code], check=False, env=environment, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    left = sorted(file.name for file in out.rglob("*") if file.is_file())
    assert left == ["recipe.json", "whole.npz", "whole.safetensors"]

    from icelens.auditing.public import run_audit

    shorten(monkeypatch)
    trained, fit = [], stages.fit
    monkeypatch.setattr(
        stages, "fit", lambda *words, **more: trained.append(more["title"]) or fit(*words, **more)
    )
    resumed = run_audit(iris(), out=out, device="cpu")
    assert trained == [f"part {n} of 4 left out" for n in (1, 2, 3, 4)]
    same(resumed, run_audit(iris(), out=tmp_path / "other", device="cpu"))
    assert {file.name for file in out.iterdir()} == {file.name for file in (tmp_path / "other").iterdir()}


@pytest.mark.parametrize("name", ["whole.npz", "whole.safetensors"])
def test_a_stage_that_was_damaged_on_disk_is_made_again(tmp_path, monkeypatch, name):
    shorten(monkeypatch)
    data = iris()
    inputs, labels = table_inputs(data.inputs), torch.from_numpy(data.labels)
    whole = whole_run(inputs, labels, 3, seed=0, folder=tmp_path)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:200])
    again = whole_run(inputs, labels, 3, seed=0, folder=tmp_path)
    np.testing.assert_array_equal(again.log_p, whole.log_p)
