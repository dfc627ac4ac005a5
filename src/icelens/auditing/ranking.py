"""From predictions to a ranking, from a ranking to trust, and from trust to a list of issues."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from icelens.auditing.noise_model import NoiseModel
from icelens.auditing.result import AMBIGUOUS, MISLABELLED

Array = NDArray[np.float64]

# How far the channel is believed: 1 is Bayes' rule. The channel also holds what the network confuses by
# itself, and full belief would take hard examples of two classes that look alike for flips.
BELIEF = 0.3
SHARES = (1.0, 4.0, 100.0)  # of logit C in the ranking; the last is C alone
CLEARLY = 0.01  # of expected precision
CHUNK = 100_000


def suspicion_score(log_p: NDArray[np.float32], labels: NDArray[np.int64], noise: NoiseModel) -> Array:
    """log p_y against the classes that the label may have come from, (rows,); low = suspicious.

    log p_y − log ‖p_a · channel[a, y]^BELIEF‖₂ over a ≠ y: between the margin over the best other class and
    the odds of the label, weighted by where flips come from. The rates of the classes are left out: where a
    network learns little they are hardly determined, and would rank by the class alone.
    """
    weight = BELIEF * np.log(np.maximum(noise.channel, np.finfo(np.float64).tiny))
    np.fill_diagonal(weight, -np.inf)
    parts = [
        _score(log_p[start : start + CHUNK], labels[start : start + CHUNK], weight, noise.sharpness)
        for start in range(0, len(labels), CHUNK)
    ]
    return np.concatenate(parts)


def _score(log_p: NDArray[np.float32], labels: NDArray[np.int64], weight: Array, sharpness: float) -> Array:
    scaled = sharpness * log_p.astype(np.float64)
    others = 2 * (scaled + weight.T[labels])
    top = others.max(1)
    norm = 0.5 * (top + np.log(np.exp(others - top[:, None]).sum(1)))
    score: Array = scaled[np.arange(len(labels)), labels] - norm
    return score


def best_reading(
    readings: list[NDArray[np.float32]],
    labels: NDArray[np.int64],
    noise: NoiseModel,
    known: NDArray[np.int64],
    right: Array,
) -> NDArray[np.float32]:
    """Of log p at the end and on the way the one that puts labels first which honest predictions call wrong.

    A deep network forgives wrong labels at the end, which it contradicted while it was learning. A linear one
    over n-grams sees but half of them in a step, and all at the end.

    Args:
        readings: log p, (N, classes), of all examples.
        labels: (N,), as given.
        noise: for the score.
        known: (rows,), the examples that have honest predictions.
        right: (rows,), the probability by those that the label is right.
    """
    scores = (suspicion_score(log_p[known], labels[known], noise) for log_p in readings)
    precision = [expected_precision(score, right) for score in scores]
    return readings[int(np.argmax(precision))]


def with_confidence(
    score: Array, confidence: NDArray[np.float32], known: NDArray[np.int64], right: Array
) -> Array:
    """The score plus as much of logit C as honest predictions ask for.

    The score is the network's word at the end, C the sum of what it said on the way. A network that has come
    to know its labels by heart forgives wrong ones at the end; C remembers. One that has not knows most at
    the end. C is taken in where that puts the labels first which honest predictions call wrong, and clearly.

    Args:
        score: (N,), of all examples.
        confidence: (N,), C of all examples.
        known: (rows,), the examples that have honest predictions.
        right: (rows,), the probability by those that the label is right.
    """
    v = np.clip(confidence.astype(np.float64), 1e-4, 1 - 1e-4)
    v = np.log(v) - np.log1p(-v)
    plain = expected_precision(score[known], right)
    candidates = [(expected_precision((score + share * v)[known], right), share) for share in SHARES]
    precision, share = max(candidates)
    return score + share * v if precision > plain + CLEARLY else score


def expected_precision(score: Array, right: Array) -> float:
    """Average precision of a ranking, lowest first, where each label is wrong with probability 1 − right."""
    wrong = 1 - right[np.argsort(score, kind="stable")]
    precision = wrong.cumsum() / np.arange(1, len(wrong) + 1)
    return float((precision * wrong).sum() / max(wrong.sum(), 1e-12))


def trust_of(score: Array, known: NDArray[np.int64], right: Array) -> Array:
    """The probability that each label is right: what honest predictions say, made to rise with the score.

    Args:
        score: (N,), of all examples.
        known: (rows,), the examples that have honest predictions.
        right: (rows,), the probability by those that the label is right.
    """
    from sklearn.isotonic import IsotonicRegression

    curve = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(score[known], right)
    steps: Array = curve.predict(score)
    # Steps of equal trust are put in the order of the score, by less than anyone would see.
    order = np.argsort(np.argsort(score, kind="stable"), kind="stable") / max(1, len(score) - 1)
    return np.clip(steps * (1 - 2e-6) + 1e-6 * (1 + order - 0.5), 0, 1)


def issues_of(trust: Array, contradicted: int) -> NDArray[np.bool_]:
    """Which labels to list: the first n by trust with the best expected F1 of all n.

    With e_i = 1 − trust_i, F1 of the first n is about 2·Σ_{i≤n} e_i / (n + Σ_i e_i). Where trust tells little
    that would be nearly all of them or next to none. So the list is about as long as the number of labels
    that the trained network, which has seen them, contradicts; the shorter it would be, the less trust tells.

    Args:
        trust: (N,), of all examples.
        contradicted: how many labels differ from the likeliest class of the network that was trained on them.
    """
    order = np.argsort(trust, kind="stable")
    wrong = 1 - trust[order]
    f1 = 2 * wrong.cumsum() / (np.arange(1, len(trust) + 1) + wrong.sum())
    count = min(f1.argmax() + 1, LONGEST * max(contradicted, wrong.sum()))
    short = SHORTEST * contradicted - count
    if short > 0:
        count = min(SHORTEST * contradicted + short / 2, contradicted)
    issues = np.zeros(len(trust), dtype=bool)
    issues[order[: round(count)]] = True
    return issues & (trust < LEAST_WORTH)


SHORTEST, LONGEST = 0.8, 1.1  # of what the network contradicts, the latter or of what is expected
LEAST_WORTH = 0.95  # a label that is right with more than this is not worth a look


def guesses(log_p: NDArray[np.float32], labels: NDArray[np.int64], trust: Array) -> NDArray[np.int64]:
    """The class each example should have: the likeliest; where the label is doubted, the likeliest other."""
    guess: NDArray[np.int64] = log_p.argmax(1)
    doubted = np.flatnonzero((guess == labels) & (trust < 0.5))
    others = log_p[doubted].copy()
    others[np.arange(len(doubted)), labels[doubted]] = -np.inf
    guess[doubted] = others.argmax(1)
    return guess


def kinds_of(
    log_p: NDArray[np.float32], guess: NDArray[np.int64], labels: NDArray[np.int64], issues: NDArray[np.bool_]
) -> NDArray[np.object_]:
    """ "mislabelled" where the model is sure of another class, "ambiguous" where it is torn, "" elsewhere."""
    sure = (np.exp(log_p[np.arange(len(guess)), guess]) >= 0.5) & (guess != labels)
    kinds = np.where(sure, MISLABELLED, AMBIGUOUS).astype(object)
    kinds[~issues] = ""
    return kinds
