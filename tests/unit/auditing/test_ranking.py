"""From log p to a score, from scores to trust, from trust to issues: against the plain ways to say each."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from icelens.auditing import ranking
from icelens.auditing.noise_model import NoiseModel
from icelens.auditing.ranking import (
    BELIEF,
    LEAST_WORTH,
    best_reading,
    expected_precision,
    guesses,
    issues_of,
    kinds_of,
    suspicion_score,
    trust_of,
    with_confidence,
)
from icelens.auditing.result import AMBIGUOUS, MISLABELLED

CLASSES = 5


def noise(rate=None, channel=None, sharpness=1.0):
    even = (1 - np.eye(CLASSES)) / (CLASSES - 1)
    rate = np.full(CLASSES, 0.1) if rate is None else rate
    return NoiseModel(sharpness, np.ones(CLASSES), rate, even if channel is None else channel, 0.0)


def predictions(rows, seed=0, scale=3.0):
    draw = np.random.default_rng(seed)
    logits = scale * draw.normal(size=(rows, CLASSES))
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    return log_p.astype(np.float32), draw.integers(CLASSES, size=rows)


def test_with_an_even_channel_and_one_rival_it_is_the_log_margin():
    log_p, labels = predictions(200)
    log_p[:] = -60
    rows, rival = np.arange(200), (labels + 1) % CLASSES
    p_label = np.linspace(0.01, 0.99, 200)
    log_p[rows, labels], log_p[rows, rival] = np.log(p_label), np.log1p(-p_label)
    shift = BELIEF * np.log(1 / (CLASSES - 1))
    margin = log_p[rows, labels] - log_p[rows, rival]
    np.testing.assert_allclose(suspicion_score(log_p, labels, noise()), margin - shift, rtol=1e-5, atol=1e-6)
    twice = suspicion_score(log_p, labels, noise(sharpness=2.0))
    np.testing.assert_allclose(twice, 2 * margin - shift, rtol=1e-5, atol=1e-6)


def test_the_score_is_what_its_docstring_says():
    draw = np.random.default_rng(1)
    rate, channel = draw.uniform(0.01, 0.5, CLASSES), draw.uniform(0.01, 1, (CLASSES, CLASSES))
    np.fill_diagonal(channel, 0)
    channel /= channel.sum(1, keepdims=True)
    log_p, labels = predictions(50)
    expected = []
    for row, y in zip(np.exp(1.5 * log_p.astype(float)), labels, strict=True):
        terms = [row[a] * channel[a, y] ** BELIEF for a in range(CLASSES) if a != y]
        expected.append(np.log(row[y]) - 0.5 * np.log(sum(term**2 for term in terms)))
    np.testing.assert_allclose(suspicion_score(log_p, labels, noise(rate, channel, 1.5)), expected, rtol=1e-6)


def test_a_label_that_flips_lead_to_is_the_more_suspicious():
    channel = np.full((CLASSES, CLASSES), 0.01)
    channel[0, 1] = 0.97  # what is wrong in class 0 was called 1
    np.fill_diagonal(channel, 0)
    log_p = np.log(np.array([[0.6, 0.1, 0.1, 0.1, 0.1]] * 2)).astype(np.float32)
    to_1, to_2 = suspicion_score(log_p, np.array([1, 2]), noise(channel=channel))
    assert to_1 < to_2


def test_parts_of_many_rows_are_scored_as_one(monkeypatch):
    log_p, labels = predictions(100)
    whole = suspicion_score(log_p, labels, noise())
    monkeypatch.setattr(ranking, "CHUNK", 7)
    np.testing.assert_array_equal(suspicion_score(log_p, labels, noise()), whole)


def test_impossible_labels_have_finite_scores():
    log_p = np.full((4, CLASSES), -2e4, dtype=np.float32)
    log_p[:, 0] = 0
    score = suspicion_score(log_p, np.arange(4), noise())
    assert np.isfinite(score).all()
    assert score[0] > 0 > score[1:].max()


def test_where_every_label_is_right_the_score_is_still_the_margin():
    log_p, labels = predictions(50)
    score = suspicion_score(log_p, labels, noise(rate=np.zeros(CLASSES)))
    assert np.isfinite(score).all()
    even = suspicion_score(log_p, labels, noise())
    np.testing.assert_array_equal(np.argsort(score), np.argsort(even))


@pytest.fixture
def scored():
    """Scores with ties, and honest probabilities for half of the rows, loosely rising with the score."""
    draw = np.random.default_rng(2)
    score = np.round(draw.normal(scale=3, size=1000), 1)
    known = np.sort(draw.choice(1000, 500, replace=False))
    right = np.clip(1 / (1 + np.exp(-score[known])) + draw.normal(scale=0.2, size=500), 0, 1)
    return score, known, right


def test_trust_is_a_probability_in_the_order_of_the_score(scored):
    score, known, right = scored
    assert len(np.unique(score)) < 500
    trust = trust_of(score, known, right)
    assert trust.shape == (1000,)
    assert ((trust >= 0) & (trust <= 1)).all()
    assert (np.diff(trust[np.argsort(score, kind="stable")]) > 0).all()
    assert len(np.unique(trust)) == 1000


def test_trust_keeps_the_number_of_errors_that_honest_predictions_have(scored):
    score, known, right = scored
    trust = trust_of(score, known, right)
    assert (1 - trust[known]).mean() == pytest.approx((1 - right).mean(), abs=3e-6)


def test_trust_is_the_best_rising_curve():
    """Pool adjacent violators on a case that can be done by hand."""
    score, right = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.1, 0.9, 0.5, 1.0])
    np.testing.assert_allclose(trust_of(score, np.arange(4), right), [0.1, 0.7, 0.7, 1.0], atol=3e-6)
    shuffled = np.array([2, 0, 3, 1])
    np.testing.assert_allclose(
        trust_of(score[shuffled], np.arange(4), right[shuffled]), [0.7, 0.1, 1.0, 0.7], atol=3e-6
    )


def test_trust_beyond_what_is_known_is_that_of_the_last_known():
    trust = trust_of(np.array([-9.0, 0.0, 1.0, 9.0]), np.array([1, 2]), np.array([0.25, 0.75]))
    np.testing.assert_allclose(trust, [0.25, 0.25, 0.75, 0.75], atol=3e-6)


def test_equal_scores_and_a_single_row_have_a_trust():
    np.testing.assert_allclose(trust_of(np.zeros(3), np.arange(3), np.array([0, 1, 0.5])), 0.5, atol=3e-6)
    np.testing.assert_allclose(trust_of(np.zeros(1), np.arange(1), np.array([0.3])), 0.3, atol=3e-6)


def best_prefix(trust):
    """Every length of the list tried, its expected F1 summed up term by term."""
    order = sorted(range(len(trust)), key=lambda row: trust[row])
    errors = sum(1 - t for t in trust)
    f1 = [2 * sum(1 - trust[row] for row in order[:n]) / (n + errors) for n in range(1, len(trust) + 1)]
    chosen = order[: int(np.argmax(f1)) + 1]
    return {row for row in chosen if trust[row] < LEAST_WORTH}


@pytest.mark.parametrize("shape", [(0.3, 3), (0.1, 0.2), (5, 1), (1, 1), (0.02, 0.5)])
def test_issues_are_the_prefix_with_the_best_expected_f1(shape):
    for seed in range(5):
        trust = np.random.default_rng(seed).beta(*shape[::-1], size=60)
        best = best_prefix(trust)
        assert set(np.flatnonzero(issues_of(trust, len(best)))) == best


def test_issues_are_the_least_trusted_and_none_where_all_is_well():
    trust = np.array([0.99, 0.02, 0.97, 0.1, 0.995])
    assert issues_of(trust, 2).tolist() == [False, True, False, True, False]
    assert not issues_of(np.full(50, 0.95), 20).any()
    assert not issues_of(np.ones(3), 3).any()
    assert issues_of(np.zeros(3), 0).all()


def test_the_list_is_about_as_long_as_what_the_network_contradicts():
    undecided = np.full(1000, 0.9) + np.linspace(0, 1e-3, 1000)  # the best expected F1 is that of all
    assert issues_of(undecided, 200).sum() == 220
    assert issues_of(undecided, 10).sum() == 109  # 99.5 errors are expected
    believing = np.concatenate([np.full(10, 0.1), np.full(990, 0.94) + np.linspace(0, 1e-3, 990)])
    assert issues_of(believing, 300).sum() == 300
    assert issues_of(believing, 20).sum() == 19  # 16, and half of what is missing there
    assert issues_of(believing, 12).sum() == 10


def test_kinds_say_whether_the_model_is_sure():
    log_p = np.log(np.array([[0.9, 0.1, 1e-9], [0.4, 0.35, 0.25], [0.2, 0.8, 1e-9], [0.9, 0.1, 1e-9]]))
    labels, issues = np.array([1, 1, 1, 2]), np.array([True, True, True, False])
    kinds = kinds_of(log_p.astype(np.float32), log_p.argmax(1), labels, issues)
    assert kinds.tolist() == [MISLABELLED, AMBIGUOUS, AMBIGUOUS, ""]


def test_confidence_joins_the_ranking_where_honest_predictions_bear_it_out():
    draw = np.random.default_rng(0)
    wrong = np.arange(400) < 60
    right, known = np.where(wrong, 0.05, 0.95), np.arange(400)
    remembered = np.where(wrong, 0.1, 0.9).astype(np.float32)
    blind = draw.normal(size=400)  # the last word of a network that knows all labels by heart
    joined = with_confidence(blind, remembered, known, right)
    assert expected_precision(joined, right) > expected_precision(blind, right) + 0.3
    clear = np.where(wrong, -5.0, 5.0) + draw.normal(size=400)
    noise_alone = draw.uniform(0.01, 0.99, 400).astype(np.float32)
    np.testing.assert_array_equal(with_confidence(clear, noise_alone, known, right), clear)


def test_of_two_readings_the_one_is_taken_that_honest_predictions_bear_out():
    log_p, labels = predictions(300)
    right = (log_p.argmax(1) == labels).astype(float)
    by_heart = np.full_like(log_p, -6.0)
    by_heart[np.arange(300), labels] = 0  # knows every label, and so says nothing
    known = np.arange(0, 300, 2)
    for readings in ([log_p, by_heart], [by_heart, log_p]):
        assert best_reading(readings, labels, noise(), known, right[known]) is log_p


def test_expected_precision_is_average_precision_where_labels_are_surely_right_or_wrong():
    draw = np.random.default_rng(3)
    score, wrong = draw.normal(size=300), draw.random(300) < 0.2
    expected = average_precision_score(wrong, -score)
    assert expected_precision(score, 1.0 - wrong) == pytest.approx(expected, abs=1e-9)


def test_the_guess_of_a_doubted_label_is_another_class():
    log_p = np.log(np.array([[0.9, 0.07, 0.03], [0.9, 0.07, 0.03], [0.2, 0.5, 0.3]], dtype=np.float32))
    guess = guesses(log_p, np.array([0, 0, 0]), np.array([0.1, 0.9, 0.9]))
    assert guess.tolist() == [1, 0, 1]
