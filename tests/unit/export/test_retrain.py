"""Before and after: judged by labels with a claim to be right, on examples that neither network has seen."""

import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from audit_data import digits, shorten

from icelens.auditing import fit as fit_module
from icelens.auditing.public import run_audit
from icelens.auditing.source import Source
from icelens.cli.retrain import told
from icelens.errors import InputError
from icelens.export import retrain as module
from icelens.export.retrain import Retrained, retrain
from icelens.review.build import build_from_source
from icelens.review.store import Judgement, Store


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """An audit of 600 digits of which 30 % were given to the next class, the classes, and which moved."""
    folder = tmp_path_factory.mktemp("audited")
    X, given, moved = digits(0.3)
    X, given, moved = X[:600], given[:600], moved[:600]
    np.savez(folder / "digits.npz", X=X, y=given)
    source = Source(str(folder / "digits.npz"))
    with pytest.MonkeyPatch.context() as patched:
        shorten(patched, epochs=6)
        run_audit(source.read(), device="cpu", out=folder / "run", report=False, source=source)
    build_from_source(folder / "run")
    return folder / "run", given, moved


@pytest.fixture
def run(audited, tmp_path, monkeypatch):
    """A copy of it to judge, and the right classes."""
    shorten(monkeypatch, epochs=6)
    folder, given, moved = audited
    shutil.copytree(folder, tmp_path / "run")
    return tmp_path / "run", np.where(moved, (given - 1) % 10, given), moved


def judge(folder, judgements):
    with Store(folder) as store:
        said = [Judgement(row, verdict, f"k{row}", label) for row, verdict, label in judgements]
        store.judge_all(said, who="ann", new_class=True)


def test_labels_that_people_put_right_make_a_better_network(run):
    folder, truth, _ = run
    table = pd.read_parquet(folder / "examples.parquet")
    suspects = table.sort_values("trust")["index"].head(220)
    judge(folder, [(row, "relabel", str(truth[row])) for row in suspects.tolist()])
    found = retrain(folder, device="cpu")
    assert found.folds == 4
    assert found.reviewed.n == 220
    assert found.judged.n == found.reviewed.n + found.trusted.n
    assert found.judged.n + found.left_out == 600
    assert found.judged.difference > 2 * found.judged.standard_error
    assert found.judged.after > found.judged.before
    assert found.relabelled == sum(str(table["label"][row]) != str(truth[row]) for row in suspects)
    assert any("judge by" in line for line in told(found))
    assert found.judged.low < found.judged.difference < found.judged.high
    assert found.judged.low > 0
    assert not any("cannot be told" in line for line in told(found))
    assert retrain(folder, device="cpu") == found


def test_no_network_sees_what_it_is_judged_on(run, monkeypatch):
    folder, truth, moved = run
    wrong = np.flatnonzero(moved)[:40].tolist()
    dropped, unsure = wrong[:10], wrong[10:15]
    relabelled = {row: str(truth[row]) for row in wrong[15:]}
    judge(folder, [(row, "drop", None) for row in dropped] + [(row, "unsure", None) for row in unsure]
          + [(row, "relabel", label) for row, label in relabelled.items()])  # fmt: skip
    calls = []

    def watched(inputs, labels, classes, *, rows, read, seed, title):
        calls.append((labels.numpy(), set(rows.tolist()), set(read.tolist())))
        fitted = torch.zeros(len(read), classes)
        return fit_module.Fit(fitted.numpy(), None, np.zeros(0, np.int64), np.zeros((0, 0), np.float32))

    monkeypatch.setattr(fit_module, "fit", watched)
    found = retrain(folder, device="cpu")
    given = pd.read_parquet(folder / "examples.parquet")["label"].astype(int).to_numpy()
    assert len(calls) == 8
    for number, (labels, rows, read) in enumerate(calls):
        assert not rows & read
        everything = set(range(600)) - read
        assert rows == (everything if number % 2 == 0 else everything - set(dropped))
        expected = given.copy()
        if number % 2:
            expected[list(relabelled)] = [int(label) for label in relabelled.values()]
        np.testing.assert_array_equal(labels, expected)
    assert set().union(*(read for _, _, read in calls)) == set(range(600))
    issues = pd.read_parquet(folder / "examples.parquet")["is_issue"].to_numpy()
    open_issues = issues.sum() - issues[wrong].sum()
    assert found.left_out == len(dropped) + len(unsure) + open_issues
    assert found.reviewed.n == len(relabelled)
    assert (found.relabelled, found.dropped) == (len(relabelled), 10)


def test_the_score_is_that_of_pairs():
    right = np.array([[1, 0, 0, 1, 1], [1, 1, 1, 0, 1]], dtype=bool)
    score = module._score(right, np.array([True] * 4 + [False]))
    assert (score.n, score.before, score.after, score.difference) == (4, 0.5, 0.75, 0.25)
    assert score.standard_error == pytest.approx(np.std([0, 1, 1, -1], ddof=1) / 2)
    assert module._score(right, np.zeros(5, dtype=bool)) is None


def retrained(better, worse, examples=600, *, relabelled=1, dropped=0):
    """What a comparison found in which so many of the examples became right, and so many wrong."""
    right = np.ones((2, examples), dtype=bool)
    right[0, :better], right[1, better : better + worse] = False, False
    score = module._score(right, np.ones(examples, dtype=bool))
    return Retrained(score, None, score, 1, relabelled, dropped, 4, 10, examples)


def test_a_few_changes_are_too_few_to_tell():
    lines = told(retrained(3, 1))
    assert lines[0].startswith("1 label changed and 0 examples dropped; every example")
    assert lines[1].endswith("(+0.33 points, 90 % interval -0.28 to +0.94, n = 600)")
    assert lines[-2].startswith("1 held-out example has no label to judge by")
    assert lines[-1].startswith(
        "Whether it helped cannot be told from this: the interval holds 0, and 1 change in 600 examples is "
        "too few to tell. Review more"
    )
    assert "the interval holds 0. Review more" in told(retrained(3, 1, relabelled=60))[-1]
    assert "judge by" in told(retrained(40, 1, relabelled=60))[-1]  # which tells


def test_the_interval_is_honest_about_a_few():
    assert module.interval(0, 0, 20) == pytest.approx((-0.0748, 0.0748), abs=1e-4)
    assert module.interval(45, 7, 1797) == pytest.approx((0.0145, 0.0277), abs=1e-4)
    assert module.interval(20, 0, 20)[1] == 1.0
    low, high = module.interval(3, 0, 200)  # all three for the better, by which nobody can tell
    assert low < 0 < 3 / 200 < high


def test_without_verdicts_or_changes_there_is_nothing_to_compare(run):
    with pytest.raises(InputError, match="holds no verdicts yet"):
        retrain(run[0], device="cpu")
    judge(run[0], [(3, "keep", None), (4, "unsure", None)])
    with pytest.raises(InputError, match="change no label"):
        retrain(run[0], device="cpu")
