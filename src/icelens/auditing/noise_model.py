"""How labels were flipped, read from honest predictions: those of a network that had not seen the label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# How far predictions may be too timid or too bold: log p is multiplied by one of these.
SHARPNESS = (0.35, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0, 4.5, 7.0)
STEPS = 40


@dataclass(frozen=True, eq=False)
class NoiseModel:
    """P(given y) = (1 − rate_y)·p_y + Σ_a rate_a·channel[a, y]·p_a,  p ∝ (p of the network)^sharpness.

    Args:
        sharpness: by what log p is multiplied, which makes the network's probabilities honest.
        rate: (classes,), the share of the labels of a class that were flipped.
        channel: (classes, classes), where they went; rows sum to one, the diagonal is zero.
        likelihood: mean log-likelihood of the labels that it was fitted to.
    """

    sharpness: float
    rate: Array
    channel: Array
    likelihood: float

    def right(self, log_p: NDArray[np.float32], labels: NDArray[np.int64]) -> Array:
        """The probability that each given label is right, (rows,)."""
        own, flipped = _terms(sharpened(log_p, self.sharpness), labels, self.rate, self.channel)
        right: Array = own / (own + flipped.sum(1))
        return right


def fit_noise_model(
    log_p: NDArray[np.float32], labels: NDArray[np.int64], *, near: NoiseModel | None = None
) -> NoiseModel:
    """The noise that explains the given labels best: EM for rates and channel, the best of a few sharpnesses.

    Noise and ambiguity are told apart by where labels disagree: an ambiguous example has p spread over
    classes, a wrong label stands against a p that is sure.

    Args:
        log_p: (rows, classes), of networks that were not trained on these rows.
        labels: (rows,), as given.
        near: a model of much the same labels, to start from and to take the sharpness of.
    """
    if near is not None:
        return _expectation_maximisation(log_p, labels, near, STEPS // 4)
    classes = log_p.shape[1]
    rate, channel = np.full(classes, 0.1), (1 - np.eye(classes)) / max(1, classes - 1)
    starts = (NoiseModel(sharpness, rate, channel, 0.0) for sharpness in SHARPNESS)
    found = (_expectation_maximisation(log_p, labels, start, STEPS // 4) for start in starts)
    best = max(found, key=lambda model: model.likelihood)
    return _expectation_maximisation(log_p, labels, best, STEPS)


def sharpened(log_p: NDArray[np.float32], sharpness: float) -> Array:
    """p to the power of the sharpness, normalised."""
    scaled = sharpness * log_p.astype(np.float64)
    p: Array = np.exp(scaled - scaled.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    return p


def _expectation_maximisation(
    log_p: NDArray[np.float32], labels: NDArray[np.int64], start: NoiseModel, steps: int
) -> NoiseModel:
    import scipy.sparse

    p, rate, channel = sharpened(log_p, start.sharpness), start.rate, start.channel
    rows, classes = p.shape
    elsewhere = 1 - np.eye(classes)
    given = scipy.sparse.csr_matrix((np.ones(rows), (labels, np.arange(rows))), (classes, rows))
    for _ in range(steps):
        own, flipped = _terms(p, labels, rate, channel)
        q = own + flipped.sum(1)
        stayed = given @ (own / q)
        moved = (given @ (flipped / q[:, None])).T
        # One imagined flip for each cell, and ten examples of the overall rate for each class: rare classes
        # lean on the others.
        channel = (moved + elsewhere) / (moved + elsewhere).sum(1, keepdims=True)
        rate = (moved.sum(1) + 10 * moved.sum() / rows) / (moved.sum(1) + stayed + 10)
    own, flipped = _terms(p, labels, rate, channel)
    return NoiseModel(start.sharpness, rate, channel, float(np.log(own + flipped.sum(1)).mean()))


def _terms(p: Array, labels: NDArray[np.int64], rate: Array, channel: Array) -> tuple[Array, Array]:
    """P(given) in its parts: a label that was kept, (rows,), and a flip from each class, (rows, classes)."""
    own = (1 - rate[labels]) * p[np.arange(len(labels)), labels] + 1e-12
    return own, p * (rate[:, None] * channel).T[labels]
