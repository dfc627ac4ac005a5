"""Labels drawn from a known noise model: what is fitted to them is that model."""

import dataclasses

import numpy as np
import pytest

from icelens.auditing.noise_model import SHARPNESS, explain, fit_noise_model, sharpened

CLASSES = 4
RATE = np.array([0.05, 0.3, 0.1, 0.2])
CHANNEL = np.array([[0, 1, 0, 0], [0.1, 0, 0.8, 0.1], [0.5, 0.3, 0, 0.2], [0.05, 0.05, 0.9, 0]])


def drawn(examples, rate=RATE, channel=CHANNEL, sharpness=1.0, seed=0):
    """Network log p, given labels, and which of them are right; the truth has p to the power of sharpness."""
    draw = np.random.default_rng(seed)
    logits = draw.normal(size=(examples, len(rate))) * 4
    log_p = (logits - np.log(np.exp(logits).sum(1, keepdims=True))).astype(np.float32)
    truth = _sample(sharpened(log_p, sharpness), draw)
    flipped = draw.random(examples) < rate[truth]
    labels = np.where(flipped, _sample(channel[truth], draw), truth)
    return log_p, labels, labels == truth


def _sample(p, draw):
    return np.minimum((p.cumsum(1) < draw.random((len(p), 1))).sum(1), p.shape[1] - 1)


@pytest.fixture(scope="module")
def planted():
    log_p, labels, right = drawn(20_000)
    return explain(log_p, labels).best, log_p, labels, right


def test_rates_channel_and_sharpness_are_recovered(planted):
    model, *_ = planted
    assert model.sharpness == 1.0
    np.testing.assert_allclose(model.rate, RATE, atol=0.02)
    np.testing.assert_allclose(model.channel, CHANNEL, atol=0.12)
    np.testing.assert_array_equal(model.channel.argmax(1), CHANNEL.argmax(1))


def test_the_channel_has_rows_that_sum_to_one_and_no_diagonal(planted):
    model, *_ = planted
    np.testing.assert_allclose(model.channel.sum(1), 1)
    assert (model.channel.diagonal() == 0).all()


def test_the_probability_of_being_right_is_honest(planted):
    model, log_p, labels, truth = planted
    right = model.right(log_p, labels)
    assert ((right >= 0) & (right <= 1)).all()
    assert right.mean() == pytest.approx(truth.mean(), abs=0.01)
    bins = np.digitize(right, np.linspace(0, 1, 11)[1:-1])
    checked = 0
    for number in range(10):
        inside = bins == number
        if inside.sum() >= 150:
            error = 4 * np.sqrt(0.25 / inside.sum())
            assert right[inside].mean() == pytest.approx(truth[inside].mean(), abs=error)
            checked += 1
    assert checked >= 5


def test_the_fit_is_as_likely_as_the_model_that_drew_the_labels(planted):
    model, log_p, labels, _ = planted
    p = np.exp(log_p.astype(np.float64))
    given = ((1 - RATE) * p) + (p * RATE) @ CHANNEL
    truth = np.log(given[np.arange(len(labels)), labels]).mean()
    assert truth <= model.likelihood + 1e-6
    assert model.likelihood == pytest.approx(truth, abs=2e-3)


@pytest.mark.parametrize("sharpness", [0.5, 2.0])
def test_predictions_that_are_too_bold_or_too_timid_are_made_honest(sharpness):
    assert sharpness in SHARPNESS
    log_p, labels, right = drawn(20_000, sharpness=sharpness)
    model = explain(log_p, labels).best
    assert model.sharpness == sharpness
    np.testing.assert_allclose(model.rate, RATE, atol=0.05)
    assert model.right(log_p, labels).mean() == pytest.approx(right.mean(), abs=0.02)
    other = fit_noise_model(log_p, labels, dataclasses.replace(model, sharpness=1.0))
    assert other.likelihood < model.likelihood


def test_a_class_that_the_network_names_too_seldom_is_weighted_up():
    log_p, labels, right = drawn(20_000)
    odd = log_p + np.log(np.array([0.2, 1, 1, 1]))
    odd = (odd - np.log(np.exp(odd).sum(1, keepdims=True))).astype(np.float32)
    model = explain(odd, labels).best
    np.testing.assert_allclose(model.weight / model.weight[1], [5, 1, 1, 1], rtol=0.2)
    np.testing.assert_allclose(model.rate, RATE, atol=0.03)
    assert model.right(odd, labels).mean() == pytest.approx(right.mean(), abs=0.01)


def test_explanations_that_are_as_likely_are_averaged_and_few_errors_preferred():
    draw = np.random.default_rng(0)
    logits = np.stack([draw.normal(size=800), np.zeros(800)], 1) * 0.3  # hardly better than chance
    log_p = (logits - np.log(np.exp(logits).sum(1, keepdims=True))).astype(np.float32)
    labels = _sample(np.exp(log_p), draw)
    found = explain(log_p, labels)
    assert len(found.models) > 3
    assert found.likely.sum() == pytest.approx(1)
    assert (np.diff(found.likely) <= 0).all()
    shares = np.array([1 - model.right(log_p, labels).mean() for model in found.models])
    mean = 1 - found.right(log_p, labels).mean()
    assert mean == pytest.approx(found.likely @ shares)
    low, high = found.span(log_p, labels)
    assert low <= mean <= high
    assert mean < (shares.min() + shares.max()) / 2


def test_without_noise_the_rates_are_near_zero():
    log_p, labels, right = drawn(20_000, rate=np.zeros(CLASSES))
    assert right.all()
    model = explain(log_p, labels).best
    assert model.rate.max() < 0.01
    assert model.right(log_p, labels).mean() > 0.99


def test_a_fit_from_another_keeps_its_sharpness_and_comes_to_the_same(planted):
    model, log_p, labels, _ = planted
    again = fit_noise_model(log_p, labels, model, steps=10)
    np.testing.assert_allclose(again.rate, model.rate, atol=2e-3)
    np.testing.assert_allclose(again.channel, model.channel, atol=5e-3)
    assert again.likelihood >= model.likelihood - 1e-9
    odd = dataclasses.replace(model, sharpness=0.77)
    assert fit_noise_model(log_p[:50], labels[:50], odd).sharpness == 0.77


def test_a_class_without_examples_leans_on_the_others():
    log_p, labels, _ = drawn(2000)
    few = labels != 2
    model = explain(log_p[few], labels[few]).best
    assert np.isfinite(model.rate).all()
    assert ((model.rate >= 0) & (model.rate <= 1)).all()


@pytest.mark.parametrize("classes", [2, 7])
def test_two_rows_and_impossible_labels_give_finite_numbers(classes):
    log_p = np.full((2, classes), -200.0, dtype=np.float32)
    log_p[:, 0] = 0
    labels = np.array([0, classes - 1])
    right = explain(log_p, labels).right(log_p, labels)
    assert np.isfinite(right).all()
    assert right[0] > 0.5 > right[1]


def test_sharpened_probabilities_sum_to_one_whatever_their_size():
    log_p = np.array([[0.0, -1e4, -5.0], [-3e38, -1.0, -0.5]], dtype=np.float32)
    for sharpness in SHARPNESS:
        p = sharpened(log_p, sharpness)
        np.testing.assert_allclose(p.sum(1), 1)
        assert p[0].argmax() == 0
