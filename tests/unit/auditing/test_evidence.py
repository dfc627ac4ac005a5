"""What labels are judged by, where the run on all examples answers for itself."""

import importlib

import numpy as np
import pytest
import torch

from icelens.auditing import evidence, stages
from icelens.auditing.audit import judge
from icelens.auditing.evidence import LEAST_GAIN, held_evidence, honest_evidence
from icelens.auditing.inputs import Features, Plan
from icelens.auditing.stages import Honest, honest_runs, whole_run
from icelens.data import from_arrays

CLASSES = 3
fitting = importlib.import_module("icelens.auditing.fit")  # the package has a function of that name


def sure(rows=900, rate=0.2, seed=0):
    """A network that is sure of the truth, labels of which a share went to the next class, and which did."""
    draw = np.random.default_rng(seed)
    truth = np.arange(rows) % CLASSES
    p = np.full((rows, CLASSES), 0.005)
    p[np.arange(rows), truth] = 0.99
    wrong = draw.random(rows) < rate
    return np.log(p).astype(np.float32), np.where(wrong, (truth + 1) % CLASSES, truth), wrong


def test_noise_is_counted_from_confidences():
    log_p, labels, wrong = sure()
    evidence = held_evidence(log_p, np.where(wrong, 0.0, 1.0).astype(np.float32), labels)
    assert evidence.rows.tolist() == list(range(len(labels)))
    assert evidence.noise.rate == pytest.approx([wrong.mean()] * CLASSES, abs=0.05)
    assert evidence.noise.channel == pytest.approx(np.roll(np.eye(CLASSES), 1, 1), abs=0.06)
    assert evidence.span == pytest.approx((wrong.mean(), wrong.mean()))


@pytest.mark.parametrize("classes", [2, 10, 50])
@pytest.mark.parametrize("bold", [0.3, 2.0])
def test_guesses_gain_nothing_over_the_shares_of_the_classes(classes, bold):
    draw = np.random.default_rng(0)
    labels, guesses = draw.integers(classes, size=1000), draw.normal(0, bold, size=(1000, classes))
    log_p = (guesses - np.log(np.exp(guesses).sum(1, keepdims=True))).astype(np.float32)
    assert honest_evidence(Honest(np.arange(1000), log_p), labels).gain < LEAST_GAIN


def test_sure_and_right_predictions_gain_all_that_there_was_to_know():
    labels = np.arange(2000) % 10
    p = np.full((2000, 10), 1e-4)
    p[np.arange(2000), labels] = 1 - 9e-4
    gain = honest_evidence(Honest(np.arange(2000), np.log(p).astype(np.float32)), labels).gain
    assert gain == pytest.approx(2000 * np.log(10), rel=0.03)


def test_evidence_is_read_once_of_the_same_labels(monkeypatch):
    log_p, labels, _ = sure()
    honest, asked = Honest(np.arange(len(labels)), log_p), []
    monkeypatch.setattr(evidence, "explain", lambda *a, e=evidence.explain: asked.append(1) or e(*a))
    first = honest_evidence(honest, labels)
    assert honest_evidence(honest, labels.copy()) is first
    assert len(asked) == 1
    assert honest_evidence(honest, (labels + 1) % CLASSES).right.mean() < 0.5 < first.right.mean()
    assert len(asked) == 2


def test_a_class_that_nobody_has_does_no_harm():
    log_p, labels, _ = sure()
    labels = np.where(labels == 2, 0, labels)
    evidence = held_evidence(log_p, np.ones(len(labels), np.float32), labels)
    assert np.isfinite(evidence.noise.channel).all()
    assert np.isfinite(evidence.noise.rate).all()


class Held(Features):
    memorises = True

    def plan(self):
        return Plan(60, 32, 2e-3)


def test_an_audit_of_a_held_run_needs_no_other_and_finds_the_flips(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    truth = torch.randint(CLASSES, (600,), generator=generator)
    values = torch.randn(600, 20, generator=generator) + 3 * torch.eye(20)[truth]
    wrong = torch.rand(600, generator=generator) < 0.2
    labels = torch.where(wrong, (truth + 1) % CLASSES, truth)
    inputs = Held(values, hidden=256, dropout=0.0)
    runs = []
    made = []
    monkeypatch.setattr(
        fitting, "_channel", lambda *a, make=fitting._channel: made.append(make(*a)) or made[-1]
    )
    monkeypatch.setattr(
        stages, "fit", lambda *a, fit=stages.fit, **k: runs.append(k["title"]) or fit(*a, **k)
    )
    whole = whole_run(inputs, labels, CLASSES, seed=0, folder=None)
    assert honest_runs(inputs, labels, CLASSES, seed=0, folder=None) is None
    assert runs == ["training on all"]
    assert whole.confidence == pytest.approx(made[0].confidence().numpy())
    assert whole.confidence != pytest.approx(made[0].table().numpy(), abs=0.05)  # C does not rank
    assert whole.visited is None
    found = judge(from_arrays(values.numpy(), labels.numpy()), whole, None)
    listed = found.examples["is_issue"].to_numpy()
    assert (listed & wrong.numpy()).sum() > 0.85 * wrong.sum()
    assert (listed & ~wrong.numpy()).sum() < 0.15 * listed.sum()
    assert found.estimate.low < wrong.sum() < found.estimate.high
    assert found.about["held"] is True
    assert not {"sharpness", "gain"} & set(found.about)
    order = np.argsort(whole.confidence, kind="stable")  # which ranks by itself
    assert (np.diff(found.examples["trust"].to_numpy()[order]) > 0).all()
