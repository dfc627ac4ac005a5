"""How labels were flipped, read from honest predictions: those of a network that had not seen the label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# How far predictions may be too timid or too bold: log p is multiplied by one of these.
SHARPNESS = (0.2, 0.25, 0.35, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0, 4.5, 7.0)
STEPS = 40
USUAL = (
    0.033  # share of wrong labels, the mean of its prior: that of ten well-known test sets (Northcutt, 2021)
)
HOPELESS = 20.0  # nats behind the likeliest after a few steps: more steps would not mend it
UNLIKELY = 0.01


@dataclass(frozen=True, eq=False)
class NoiseModel:
    """P(given y) = (1 − rate_y)·p_y + Σ_a rate_a·channel[a, y]·p_a,  p ∝ weight·(p of the network)^sharpness.

    Sharpness and weights make the network's probabilities honest.

    Args:
        sharpness: by what log p is multiplied.
        weight: (classes,), more than 1 for a class that the network names too seldom.
        rate: (classes,), the share of the labels of a class that were flipped.
        channel: (classes, classes), where they went; rows sum to one, the diagonal is zero.
        likelihood: mean log-likelihood of the labels that it was fitted to.
    """

    sharpness: float
    weight: Array
    rate: Array
    channel: Array
    likelihood: float

    def right(self, log_p: NDArray[np.float32], labels: NDArray[np.int64]) -> Array:
        """The probability that each given label is right, (rows,)."""
        p = _weighted(sharpened(log_p, self.sharpness), self.weight)
        own, flipped = _terms(p, labels, self.rate, self.channel)
        right: Array = own / (own + flipped.sum(1))
        return right


@dataclass(frozen=True, eq=False)
class Explanations:
    """Noise models of the same labels, the likeliest first, and how likely each is; these sum to one."""

    models: tuple[NoiseModel, ...]
    likely: Array

    @property
    def best(self) -> NoiseModel:
        """The likeliest."""
        return self.models[0]

    def right(self, log_p: NDArray[np.float32], labels: NDArray[np.int64]) -> Array:
        """The probability that each given label is right, (rows,), by all of them."""
        right: Array = np.zeros(len(labels))
        for model, likely in zip(self.models, self.likely, strict=True):
            right += likely * model.right(log_p, labels)
        return right

    def span(self, log_p: NDArray[np.float32], labels: NDArray[np.int64]) -> tuple[float, float]:
        """The smallest and the largest share of wrong labels by those that are not unlikely."""
        within = [model for model, likely in zip(self.models, self.likely, strict=True) if likely > UNLIKELY]
        shares = [float(1 - model.right(log_p, labels).mean()) for model in within]
        return min(shares), max(shares)


def explain(log_p: NDArray[np.float32], labels: NDArray[np.int64]) -> Explanations:
    """The noise that explains the given labels: EM for rates, channel and weights at several sharpnesses.

    Noise and ambiguity are told apart by where labels disagree: an ambiguous example has p spread over
    classes, a wrong label stands against a p that is sure. Where the network learns little, many errors and
    a bold network explain the labels as well as few errors and a timid one. Then a weak prior counts, by
    which the share of errors is exponentially distributed, and what it leaves open is averaged over.

    Args:
        log_p: (rows, classes), of networks that were not trained on these rows.
        labels: (rows,), as given.
    """
    starts = (_start(sharpness, log_p.shape[1]) for sharpness in SHARPNESS)
    found = [fit_noise_model(log_p, labels, start, steps=STEPS // 4) for start in starts]
    least = max(model.likelihood for model in found) - HOPELESS / len(labels)
    models = [fit_noise_model(log_p, labels, model) for model in found if model.likelihood >= least]
    errors = np.array([1 - model.right(log_p, labels).mean() for model in models])
    posterior = len(labels) * np.array([model.likelihood for model in models]) - errors / USUAL
    likely = np.exp(posterior - posterior.max())
    order = np.argsort(-likely, kind="stable")
    return Explanations(tuple(models[place] for place in order), likely[order] / likely.sum())


def _start(sharpness: float, classes: int) -> NoiseModel:
    channel = (1 - np.eye(classes)) / max(1, classes - 1)
    return NoiseModel(sharpness, np.ones(classes), np.full(classes, 0.1), channel, 0.0)


def likelihood_of_others(model: NoiseModel, log_p: NDArray[np.float32], labels: NDArray[np.int64]) -> float:
    """The mean log-likelihood of other labels by a model as sharp as this one, which is fitted to them."""
    return fit_noise_model(log_p, labels, _start(model.sharpness, log_p.shape[1])).likelihood


def sharpened(log_p: NDArray[np.float32], sharpness: float) -> Array:
    """p to the power of the sharpness, normalised."""
    scaled = sharpness * log_p.astype(np.float64)
    p: Array = np.exp(scaled - scaled.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    return p


def _weighted(p: Array, weight: Array) -> Array:
    weighted: Array = p * weight
    weighted /= weighted.sum(1, keepdims=True)
    return weighted


def fit_noise_model(
    log_p: NDArray[np.float32], labels: NDArray[np.int64], start: NoiseModel, *, steps: int = STEPS
) -> NoiseModel:
    """The model that steps of EM make of a start; its sharpness stays.

    Args:
        log_p: (rows, classes), of networks that were not trained on these rows.
        labels: (rows,), as given.
        start: where to begin, and at which sharpness.
        steps: of EM.
    """
    import scipy.sparse

    plain, weight, rate, channel = sharpened(log_p, start.sharpness), start.weight, start.rate, start.channel
    rows, classes = plain.shape
    elsewhere = 1 - np.eye(classes)
    given = scipy.sparse.csr_matrix((np.ones(rows), (labels, np.arange(rows))), (classes, rows))
    for _ in range(steps):
        p = _weighted(plain, weight)
        own, flipped = _terms(p, labels, rate, channel)
        q = own + flipped.sum(1)
        stayed = given @ (own / q)
        moved = (given @ (flipped / q[:, None])).T
        # One imagined flip for each cell; ten imagined examples of the usual rate for the whole, and ten of
        # the whole's rate for each class: few examples lean on what is usual, rare classes on the others.
        channel = (moved + elsewhere) / (moved + elsewhere).sum(1, keepdims=True)
        overall = (moved.sum() + 10 * USUAL) / (rows + 10)
        rate = (moved.sum(1) + 10 * overall) / (moved.sum(1) + stayed + 10)
        # Generalised iterative scaling: as many of each class predicted as are taken to be there.
        weight = weight * (stayed + moved.sum(1) + 1) / (p.sum(0) + 1)
    own, flipped = _terms(_weighted(plain, weight), labels, rate, channel)
    likelihood = float(np.log(own + flipped.sum(1)).mean())
    return NoiseModel(start.sharpness, weight / weight.mean(), rate, channel, likelihood)


def _terms(p: Array, labels: NDArray[np.int64], rate: Array, channel: Array) -> tuple[Array, Array]:
    """P(given) in its parts: a label that was kept, (rows,), and a flip from each class, (rows, classes)."""
    own = (1 - rate[labels]) * p[np.arange(len(labels)), labels] + 1e-12
    return own, p * (rate[:, None] * channel).T[labels]
