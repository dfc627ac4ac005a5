"""The benchmark of peers: what it counts, and that it measures icelens as people run it."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from icelens.auditing.audit import audit_labelled
from icelens.auditing.features import inputs_of
from icelens.losses import ChannelLoss, HeldLoss

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import detect
import detect_held
from detect_cases import CASES, Case, labelled
from detect_tables import summary
from detect_tools import FOLDS, TOOLS, Seen, Trial, Verdict, cross_validated, drawn

WRONG = np.array([True, False, True, False, False])


def blobs(rows=90, classes=3):
    generator = np.random.default_rng(0)
    labels = np.arange(rows) % classes
    inputs = (generator.normal(size=(rows, 4)) + 3 * labels[:, None]).astype(np.float32)
    return labelled("table", inputs, labels, tuple("abc"), "blobs")


def trial_on(data, folder=None):
    return Trial(data, inputs_of(data, torch.device("cpu")), 1, folder, lambda name: None)


def test_icelens_is_measured_as_people_run_it():
    data = blobs()
    known = Case(None, "symmetric", 0.2).draw(data, data.labels, 0)
    found = trial_on(known.data).icelens()
    audit = audit_labelled(known.data, seed=1, device="cpu")
    np.testing.assert_array_equal(found["trust"], audit.examples["trust"])
    np.testing.assert_array_equal(found["issues"], audit.examples["is_issue"])
    assert (found["errors"], found["low"], found["high"]) == (
        audit.estimate.errors,
        audit.estimate.low,
        audit.estimate.high,
    )


def test_what_is_measured_again_is_icelens_alone(monkeypatch):
    """On a machine without cleanlab, too: its figures are those of the version that made them."""
    monkeypatch.setattr(detect, "version", None)
    data = blobs()
    known = Case(None, "symmetric", 0.2).draw(data, data.labels, 0)
    old = {"versions": {"cleanlab": "2.0"}, "tools": {"AUM": {"auroc": 0.7}, "icelens": {"auroc": 0.1}}}
    record = detect.measure(known, trial_on(known.data), old)
    assert record["versions"]["cleanlab"] == "2.0"
    assert record["tools"]["AUM"] == {"auroc": 0.7}
    assert record["tools"]["icelens"]["auroc"] > 0.5


def test_a_digest_is_of_what_code_does():
    """Not of its words, nor of the fields that a version of Python gives its tree."""
    plain, told = "def a(b):\n    return b", 'def a(b):\n    """Why."""\n    return (b)  # how'
    arguments = "('arguments', ('args', [('arg', ('arg', 'b'))]))"
    body = "('Return', ('value', ('Name', ('id', 'b'), ('ctx', ('Load',)))))"
    function = f"('FunctionDef', ('name', 'a'), ('args', {arguments}), ('body', [{body}]))"
    assert detect.code(plain) == detect.code(told) == f"('Module', ('body', [{function}]))"
    assert detect.code(plain) != detect.code("def a(b):\n    return 0")


def test_five_folds_cost_four_runs_and_are_not_run_twice(tmp_path):
    data = blobs()
    first, again = trial_on(data, tmp_path), trial_on(data, tmp_path)
    folds = cross_validated(first)
    assert folds["model_epochs"] == pytest.approx((FOLDS - 1) * first.inputs.plan().epochs)
    np.testing.assert_allclose(folds["p"].sum(1), 1)
    before = drawn.rows
    stored = cross_validated(again)
    assert drawn.rows == before
    assert stored["model_epochs"] == folds["model_epochs"]
    np.testing.assert_array_equal(stored["p"], folds["p"])


def test_margin_is_that_of_the_logits():
    logits = torch.randn(2, 6, 4, dtype=torch.float64) * 5
    labels = torch.randint(4, (6,))
    seen = Seen(labels.numpy())
    for number, epoch in enumerate(logits):
        seen.epoch(number, epoch.log_softmax(1).numpy())
    for row, label in enumerate(labels.tolist()):
        margins = [
            float(epoch[row, label] - max(epoch[row, k] for k in range(4) if k != label)) for epoch in logits
        ]
        assert seen.margin[row] / seen.epochs == pytest.approx(sum(margins) / 2)


def test_quality_of_a_list_and_a_ranking():
    listed = detect.listed(np.array([True, True, False, False, False]), WRONG)
    assert listed == {"issues": 2, "precision": 0.5, "recall": 0.5, "f1": 0.5}
    assert detect.listed(np.zeros(5, bool), WRONG)["f1"] == 0
    # Low is suspicious: the errors come first and third.
    ranked = detect.ranked(np.array([0.1, 0.2, 0.3, 0.4, 0.5]), WRONG)
    assert ranked["average_precision"] == pytest.approx((1 + 2 / 3) / 2)
    assert ranked["auroc"] == pytest.approx(5 / 6)
    assert detect.ranked(np.arange(5), np.zeros(5, bool)) == {"average_precision": None, "auroc": None}


def test_differences_are_paired_by_trial_with_the_better_score():
    trials = [
        trial(0.9, (0.7, 0.8), errors=200, interval=(150, 190)),
        trial(0.6, (0.7, 0.5), errors=200, interval=(150, 250)),
    ]
    figures = summary({"hausa": trials, "cifar10n-worst": trials})
    gained = figures["cases"]["hausa"]["average_precision"]
    assert gained["mean"] == pytest.approx(0)
    assert gained["standard_error"] == pytest.approx(0.1)
    assert figures["cpu"]["cases"] == 1
    assert (figures["cpu"]["held"], figures["cpu"]["trials"]) == (1, 2)
    assert figures["cpu"]["width_mean"] == pytest.approx(0.35)
    assert figures["cpu"]["width_most"] == pytest.approx(0.5)
    assert figures["cpu"]["over_half"] == 0


def test_eleven_noisy_cases_run_on_a_cpu():
    noisy = [name for name, case in CASES.items() if not case.gpu and name != "digits-untouched"]
    assert len(noisy) == 11


def test_a_verdict_says_nothing_that_was_not_measured():
    record = detect.score(detect.Judged(Verdict(), 4.0, 1.0), WRONG)
    said = {key: value for key, value in record.items() if value is not None}
    assert said == {"model_epochs": 4.0, "seconds": 1.0}


def trial(mine, theirs, *, errors, interval):
    """A record whose F1 and AUROC are its average precision."""
    quality = dict(zip(TOOLS, (mine, *theirs, 0.5, 0.5, 0.5, 0.5), strict=True))
    tools = {
        tool: {"average_precision": value, "auroc": value, "f1": value, "model_epochs": 4.0}
        for tool, value in quality.items()
    }
    tools["icelens"] |= {"low": interval[0], "high": interval[1]}
    return {"examples": 2045, "errors": errors, "tools": tools}


def test_audits_by_ice_held_are_measured_beside_those_as_they_are(monkeypatch):
    """Each form by the run that it says; what stands in the package is back after the trial."""
    trained = []
    fit, own = detect_held.fit_module.fit, detect_held.fit_module._channel

    def noted(*arguments, **settings):
        found = fit(*arguments, **settings)
        trained.append((settings["title"], type(detect_held.fit_module._channel(inputs, 2, 2, 0.9))))
        return found

    monkeypatch.setattr("icelens.auditing.stages.fit", noted)
    data = blobs()
    known = Case(None, "symmetric", 0.2).draw(data, data.labels, 0)
    inputs = inputs_of(data, torch.device("cpu"))
    record = detect_held.trial(known, inputs, 1)
    whole = "training on all"
    assert [kind for title, kind in trained if title == whole] == [ChannelLoss, HeldLoss]
    assert {kind for title, kind in trained if title != whole} == {ChannelLoss}
    assert detect_held.fit_module._channel is own
    assert record["errors"] == known.wrong.sum()
    forms = record["forms"]
    # Both are counted by the runs that leave some examples out, the third by its confidences.
    assert forms["held, checked"]["errors"] == pytest.approx(forms["as it is"]["errors"], rel=1e-3)
    assert forms["held alone"]["errors"] != pytest.approx(forms["as it is"]["errors"], rel=1e-3)
    assert all(form["auroc"] > 0.5 for form in forms.values())
    assert len(list(detect_held.table([{**record, "case": "blobs"}]))) == 2 + len(forms)
