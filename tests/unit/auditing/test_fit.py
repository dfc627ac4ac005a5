"""One training run: what it reads, what it leaves alone, and that it is the same each time."""

import math

import numpy as np
import pytest
import torch

from icelens.auditing import fit as fitting
from icelens.auditing.fit import SNAPSHOTS, fit, log_probabilities
from icelens.auditing.inputs import Features, Pictures, Plan, bags_of
from icelens.errors import InputError, TrainingError

SHORT = Plan(epochs=4, batch_size=16, learning_rate=1e-2)


def blobs(rows=60, classes=3, seed=0):
    """Clouds of points, one for each class, far from each other."""
    draw = np.random.default_rng(seed)
    labels = np.arange(rows) % classes
    points = 4 * np.eye(classes)[labels] + draw.normal(size=(rows, classes))
    return Features(torch.tensor(points, dtype=torch.float32), hidden=16), torch.from_numpy(labels)


def test_a_run_learns_and_says_what_it_learned():
    inputs, labels = blobs()
    run = fit(inputs, labels, 3, plan=Plan(30, 16, 1e-2))
    assert run.log_p.shape == (60, 3)
    assert run.log_p.dtype == np.float32
    np.testing.assert_allclose(np.exp(run.log_p).sum(1), 1, rtol=1e-5)
    assert (run.log_p.argmax(1) == labels.numpy()).mean() > 0.95
    assert ((run.confidence > 0) & (run.confidence < 1)).all()


def test_a_wrong_label_has_the_lowest_confidence_and_a_low_probability():
    inputs, labels = blobs()
    labels[9] = 1  # is of class 0
    run = fit(inputs, labels, 3, plan=Plan(30, 16, 1e-2))
    assert run.confidence.argmin() == 9
    assert run.log_p[9].argmax() == 0


def test_the_same_seed_gives_the_same_run():
    inputs, labels = blobs()
    first, second, other = (fit(inputs, labels, 3, plan=SHORT, seed=seed) for seed in (5, 5, 6))
    for name in ("log_p", "confidence", "iteration", "history"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert not np.allclose(first.log_p, other.log_p)


def test_rows_that_are_left_out_are_not_learned_from():
    inputs, labels = blobs()
    rows, read = torch.arange(0, 40), torch.tensor([50, 41, 3])
    run = fit(inputs, labels, 3, rows=rows, read=read, plan=SHORT)
    assert run.log_p.shape == (3, 3)
    start = fitting.ChannelLoss(1, 3).confidence().item()
    np.testing.assert_allclose(run.confidence[40:], start)
    assert (np.abs(run.confidence[:40] - start) > 1e-6).all()
    spoiled = labels.clone()
    spoiled[40:] = 0
    np.testing.assert_array_equal(fit(inputs, spoiled, 3, rows=rows, read=read, plan=SHORT).log_p, run.log_p)
    everything = fit(inputs, labels, 3, rows=rows, plan=SHORT)
    np.testing.assert_allclose(everything.log_p[read], run.log_p, atol=1e-5)


def test_visits_are_the_mean_of_what_the_steps_saw():
    inputs, labels = blobs()
    plain = Features(inputs.values, hidden=16, dropout=0.0)
    still = Plan(epochs=8, batch_size=16, learning_rate=0.0)
    run = fit(plain, labels, 3, rows=torch.arange(40), plan=still, keep=True)
    np.testing.assert_allclose(run.visited[:40], run.log_p[:40], atol=1e-5)  # a network that does not move
    np.testing.assert_allclose(np.exp(run.visited[40:]), 1 / 3, rtol=1e-5)
    first = fit(plain, labels, 3, plan=Plan(1, 16, 1e-2), keep=True).visited
    moved = fit(plain, labels, 3, plan=Plan(8, 16, 1e-2), keep=True)
    own = np.arange(60), labels.numpy()
    assert first[own].mean() < moved.visited[own].mean() < moved.log_p[own].mean()
    assert fit(plain, labels, 3, plan=SHORT).visited is None


def test_the_weights_that_are_kept_are_those_that_predicted():
    inputs, labels = blobs()
    run = fit(inputs, labels, 3, plan=SHORT, keep=True)
    network = inputs.network(3)
    network.load_state_dict(run.weights)
    np.testing.assert_array_equal(log_probabilities(inputs, network, torch.arange(60)), run.log_p)


def test_history_is_recorded_from_the_start_to_the_end(monkeypatch):
    inputs, labels = blobs()
    run = fit(inputs, labels, 3, plan=Plan(8, 16, 1e-2))
    assert run.iteration[0] == 0
    assert run.iteration[-1] == 8 * math.ceil(60 / 16)
    assert (np.diff(run.iteration) > 0).all()
    assert len(run.iteration) == SNAPSHOTS + 1
    assert run.history.shape == (SNAPSHOTS + 1, 60)
    np.testing.assert_array_equal(run.history[-1], run.confidence)
    monkeypatch.setattr(fitting, "SAMPLE", 7)
    sampled = fit(inputs, labels, 3, plan=SHORT)
    assert sampled.history.shape[1] == 7
    assert np.isin(sampled.history[-1], sampled.confidence).all()
    part = fit(inputs, labels, 3, rows=torch.arange(45, 60), plan=SHORT)
    assert np.isin(part.history[-1], part.confidence[45:]).all()  # none of those that were left out


def test_cross_entropy_has_no_confidences():
    inputs, labels = blobs()
    run = fit(inputs, labels, 3, plan=SHORT, loss="cross_entropy")
    assert run.confidence is None
    assert run.iteration.shape == (0,)
    assert run.history.shape == (0, 60)
    assert run.log_p.shape == (60, 3)
    with pytest.raises(InputError, match="unknown loss 'crossentropy'; did you mean 'cross_entropy'"):
        fit(inputs, labels, 3, plan=SHORT, loss="crossentropy")


def test_who_watches_sees_each_epoch():
    inputs, labels = blobs()
    seen = []
    run = fit(inputs, labels, 3, plan=SHORT, watch=lambda epoch, log_p: seen.append((epoch, log_p)))
    assert [epoch for epoch, _ in seen] == [0, 1, 2, 3]
    np.testing.assert_array_equal(seen[-1][1], run.log_p)
    np.testing.assert_array_equal(fit(inputs, labels, 3, plan=SHORT).log_p, run.log_p)  # and changes nothing


def test_inputs_that_are_not_finite_end_the_run():
    inputs, labels = blobs()
    inputs.values[3, 1] = math.inf
    with pytest.raises(TrainingError, match="in epoch 1; are inputs finite"):
        fit(inputs, labels, 3, plan=SHORT)


def test_sparse_rows_are_learned_from():
    import scipy.sparse

    labels = torch.arange(40) % 2
    words = scipy.sparse.csr_matrix(np.eye(2)[labels].repeat(3, 1))
    run = fit(bags_of(words), labels, 2, plan=Plan(10, 16, 2e-2))
    assert (run.log_p.argmax(1) == labels.numpy()).all()


@pytest.mark.parametrize("rows", [33, 2, 3])
def test_no_network_is_given_a_batch_of_one(rows):
    """BatchNorm cannot take it, where pooling has left one pixel."""
    pixels = torch.randint(256, (rows, 1, 4, 4), dtype=torch.uint8)
    inputs = Pictures(pixels, torch.zeros(1, 1, 1), torch.ones(1, 1, 1))
    run = fit(inputs, torch.arange(rows) % 2, 2, plan=Plan(2, 32 if rows == 33 else 2, 1e-3))
    assert np.isfinite(run.log_p).all()
    assert run.iteration[-1] == 2


@pytest.mark.parametrize("rows", [1, 2, 15, 16, 17, 32, 33])
def test_batches_hold_every_row_once(rows):
    order = torch.randperm(rows)
    parts = fitting._batches(order, 16)
    torch.testing.assert_close(torch.cat(parts), order)
    assert all(len(part) <= 17 for part in parts)
    assert rows == 1 or all(len(part) > 1 for part in parts)


def test_predictions_are_the_same_in_parts(monkeypatch):
    inputs, _ = blobs()
    network = inputs.network(3)
    rows = torch.tensor([5, 0, 59, 5, 17])
    whole = log_probabilities(inputs, network, rows)
    monkeypatch.setattr(fitting, "BATCH", 2)
    np.testing.assert_allclose(log_probabilities(inputs, network, rows), whole, atol=1e-6)
    assert not network.training
