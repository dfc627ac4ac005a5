"""A Gaussian process over the log-odds of wrong labels, learned from verdicts. numpy alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from icelens.review.likeness import Array, Points, Weights, likeness

LANDMARKS = 400  # verdicts that others are compared with; all verdicts count, up to
NEWEST = 3000
TRIED = 200  # verdicts by which weights are chosen
FEWEST = 20  # below, the weights are left as they are
PARTS = 4
BY_CLASS = 1.5
CLEARLY = 1.0  # of log-likelihood: what told apart by class must foretell better, as it may also mislead
SCALES = (0.1, 0.3, 1.0, 3.0, 10.0)
CHUNK = 2000


@dataclass(frozen=True, eq=False)
class Learned:
    """log-odds(x) = odds by trust + φ(x)·w,  φ(x) = likeness(x, landmarks)·L⁻ᵀ,  L·Lᵀ = likeness of these.

    w has a standard normal prior. Given verdicts it is taken for normal, around `mean` and with the inverse
    of `precision` as its covariance (Laplace's approximation). With all verdicts as landmarks this is the
    exact process.
    """

    landmarks: Points
    weights: Weights
    root: Array
    mean: Array
    precision: Array
    evidence: float

    def features(self, points: Points) -> Array:
        """φ, (points, landmarks)."""
        return np.asarray(np.linalg.solve(self.root, likeness(self.landmarks, points, self.weights)).T, float)

    def log_odds(self, points: Points) -> Array:
        """What is expected of the log-odds that a label is wrong, (points,)."""
        direction = np.linalg.solve(self.root.T, self.mean)
        parts = [
            likeness(points.take(part), self.landmarks, self.weights) @ direction
            for part in np.split(np.arange(len(points)), range(CHUNK, len(points), CHUNK))
        ]
        log_odds: Array = points.odds + np.concatenate(parts)
        return log_odds

    def covariance(self, points: Points) -> Array:
        """Of the log-odds of a few points, (points, points)."""
        features = self.features(points)
        known = np.linalg.solve(self.precision, features.T)
        covariance: Array = likeness(points, points, self.weights) - features @ features.T + features @ known
        return covariance


def learn(points: Points, wrong: Array, truth: NDArray[np.int64]) -> Learned:
    """What verdicts say of all suspects.

    Args:
        points: (V,), the suspects that were judged, in the order of their verdicts.
        wrong: (V,), 1 where the label was found wrong, 0 where it was kept.
        truth: (V,), the class that a reviewer found right; −1 where that is not known.
    """
    newest = np.arange(len(wrong))[-NEWEST:]
    points, wrong, truth = points.take(newest), wrong[newest], truth[newest]
    few = _drawn(len(wrong), TRIED)
    weights = _chosen(points.take(few), wrong[few], truth[few])
    points, wrong = _told(points, wrong, truth, weights)
    return _fitted(points, wrong, points.take(_drawn(len(wrong), LANDMARKS)), weights)


def _drawn(count: int, most: int) -> NDArray[np.int64]:
    """Some of so many, the same ones each time."""
    return np.sort(np.random.default_rng(0).permutation(count)[:most])


def _told(points: Points, wrong: Array, truth: NDArray[np.int64], weights: Weights) -> tuple[Points, Array]:
    """The verdicts, and with each label that a reviewer put in the place of a wrong one, that it is right."""
    if not weights.classes:
        return points, wrong
    put = np.flatnonzero((wrong > 0) & (truth >= 0) & (truth != points.label))
    more = points.take(put).relabelled(truth[put])
    return points.and_also(more), np.append(wrong, np.zeros(len(put)))


def _chosen(points: Points, wrong: Array, truth: NDArray[np.int64]) -> Weights:
    """The weights that make the verdicts likeliest; far from 1 only where they say so clearly."""
    best = Weights()
    if len(wrong) < FEWEST:
        return best

    def goodness(weights: Weights) -> float:
        distance = np.log([weights.signs, weights.seen])
        return _fitted(points, wrong, points, weights).evidence - float(distance @ distance) / 2

    for name in ("signs", "seen"):
        best = max((replace(best, **{name: scale}) for scale in SCALES), key=goodness)
    by_class = replace(best, classes=BY_CLASS)
    if _foretold(points, wrong, truth, by_class) > _foretold(points, wrong, truth, best) + CLEARLY:
        return by_class
    return best


def _foretold(points: Points, wrong: Array, truth: NDArray[np.int64], weights: Weights) -> float:
    """The log-likelihood of verdicts that were held back, a part of them at a time."""
    total, number = 0.0, np.arange(len(wrong))
    for part in range(PARTS):
        kept, held = np.flatnonzero(number % PARTS != part), np.flatnonzero(number % PARTS == part)
        told = _told(points.take(kept), wrong[kept], truth[kept], weights)
        log_odds = _fitted(*told, told[0], weights).log_odds(points.take(held))
        total -= float(np.logaddexp(0, -(2 * wrong[held] - 1) * log_odds).sum())
    return total


def _fitted(points: Points, wrong: Array, landmarks: Points, weights: Weights) -> Learned:
    own = likeness(landmarks, landmarks, weights)
    root = np.linalg.cholesky(own + 1e-6 * np.trace(own) / len(own) * np.eye(len(own)))
    blank = Learned(landmarks, weights, root, np.zeros(len(own)), np.eye(len(own)), 0.0)
    features = blank.features(points)
    mean, precision, goodness = _logistic(features, points.odds, wrong)
    evidence = goodness - float(np.log(np.diag(np.linalg.cholesky(precision))).sum())
    return replace(blank, mean=mean, precision=precision, evidence=evidence)


def _logistic(features: Array, offset: Array, wrong: Array) -> tuple[Array, Array, float]:
    """The likeliest w, its precision and log-posterior: Newton's steps, halved where they lead too far."""
    w, width = np.zeros(features.shape[1]), features.shape[1]
    goodness = _goodness(w, features, offset, wrong)
    for _ in range(30):
        p = probability(offset + features @ w)
        precision = np.eye(width) + features.T @ ((p * (1 - p))[:, None] * features)
        step = np.linalg.solve(precision, features.T @ (wrong - p) - w)
        share = 1.0
        while (better := _goodness(w + share * step, features, offset, wrong)) < goodness and share > 1e-4:
            share /= 2
        if better < goodness + 1e-5:
            break
        w, goodness = w + share * step, better
    return w, precision, goodness


def _goodness(w: Array, features: Array, offset: Array, wrong: Array) -> float:
    margin = (2 * wrong - 1) * (offset + features @ w)
    return float(-np.logaddexp(0, -margin).sum() - w @ w / 2)


def probability(log_odds: NDArray[np.float64]) -> Array:
    """1 / (1 + exp(−log-odds)), without overflow."""
    return 0.5 * (1 + np.tanh(0.5 * log_odds))
