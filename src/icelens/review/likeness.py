"""How alike two suspects are: what a verdict on one says of the other. numpy alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

DOUBT = 2e-3  # trust is taken to lie this far from 0 and 1: a verdict may say that it was too sure
BELIEF = 0.7  # of the log-odds by trust: all of them would drown what verdicts say of the surest suspects
# How far trust may be off, as deviations of log-odds: for all suspects alike, and in how fast it falls.
OFF_FOR_ALL, OFF_BY_TRUST = 3.0, 0.55
REACH = 0.5  # how far one sees a likeness, where vectors have a mean square length of 1


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known of S suspects: arrays of an audit's `review.npz`, a row for each; see `auditing.aids`."""

    rows: NDArray[np.int64]
    trust: NDArray[np.float64]
    confidence: NDArray[np.float32]
    p_label: NDArray[np.float32]
    p_guess: NDArray[np.float32]
    label: NDArray[np.int32]
    guess: NDArray[np.int32]
    vectors: NDArray[np.float16]


@dataclass(frozen=True)
class Weights:
    """How much the kinds of likeness count, as variances of log-odds.

    Args:
        signs: trust apart, of what the network says: the label's class and the guess, C, p_label, p_guess.
        seen: of what the network sees.
        classes: of what it sees, told apart by class: what is right for one label is wrong for the others.
    """

    signs: float = 1.0
    seen: float = 1.0
    classes: float = 0.0


@dataclass(frozen=True, eq=False)
class Points:
    """Suspects as a comparison needs them.

    Args:
        odds: (S,), log-odds of a wrong label by trust alone, as far as it is believed.
        base: (S, 2), what all share, and trust.
        signs: (S, 3), C, p_label and p_guess, standardised.
        label: (S,).
        guess: (S,).
        seen: (S, width), vectors of mean square length 1.
        other: (S,), what two different labels say of each other: −1 / (classes − 1) for all.
        given: (S,), whether the label was given; else a reviewer put it there, and trust says nothing of it.
    """

    odds: Array
    base: Array
    signs: Array
    label: NDArray[np.int64]
    guess: NDArray[np.int64]
    seen: Array
    other: Array
    given: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.odds)

    def take(self, places: NDArray[np.int64]) -> Points:
        """Those at these places."""
        return Points(*(values[places] for values in vars(self).values()))

    def and_also(self, more: Points) -> Points:
        """These and more."""
        return Points(*map(np.concatenate, zip(vars(self).values(), vars(more).values(), strict=True)))

    def relabelled(self, truth: NDArray[np.int64]) -> Points:
        """The same with the labels that reviewers put in their place, of which the audit said nothing."""
        return replace(
            self,
            odds=np.zeros_like(self.odds),
            base=np.zeros_like(self.base),
            signs=np.zeros_like(self.signs),
            label=truth,
            given=np.zeros_like(self.given),
        )


def points_of(evidence: Evidence) -> Points:
    """Evidence on scales that can be compared."""
    trust = _logit(evidence.trust, DOUBT)
    logs = [_log(evidence.p_label), _log(evidence.p_guess)]
    signs = np.stack([_standard(values) for values in (_logit(evidence.confidence, 1e-3), *logs)], 1)
    seen = evidence.vectors.astype(np.float64)
    size = np.sqrt((seen**2).sum(1).mean()) if seen.size else 0.0
    # Trust and C of a held audit are one number, which so counts twice in the prior of its slope. That finds
    # slightly more: 4,977 errors against 4,945 counted once, in the first 10 % of Fashion-MNIST, MNIST and
    # Hausa news, 3 seeds each.
    base = np.stack([np.full(len(trust), OFF_FOR_ALL), OFF_BY_TRUST * _standard(trust)], 1)
    labels = (evidence.label.astype(np.int64), evidence.guess.astype(np.int64))
    classes = 1 + max((int(codes.max()) for codes in labels if len(codes)), default=1)
    other, given = np.full(len(trust), -1 / max(1, classes - 1)), np.ones(len(trust), dtype=bool)
    return Points(-BELIEF * trust, base, signs, *labels, seen / max(size, 1e-9), other, given)


def likeness(left: Points, right: Points, weights: Weights) -> Array:
    """The prior covariance of the log-odds of two sets of suspects, (left, right).

    A sum of kinds of likeness: all suspects share something, those of similar trust, C, p_label and p_guess,
    those of the same label, the same guess and of both, those that the network sees alike, and among these
    those of the same label most.
    """
    label = left.label[:, None] == right.label
    guess = left.guess[:, None] == right.guess
    given = left.given[:, None] & right.given
    product = left.seen @ right.seen.T
    squares = (left.seen**2).sum(1)[:, None] + (right.seen**2).sum(1) - 2 * product
    near = np.exp(np.minimum(-squares, 0) / (2 * REACH**2))
    covariance: Array = left.base @ right.base.T + 0.3 * weights.signs * left.signs @ right.signs.T
    same = 0.1 * weights.signs * (label.astype(float) + guess + (label & guess))
    covariance += given * (same + 0.6 * weights.seen * (product + near * (1.0 + label)))
    if weights.classes:
        covariance += weights.classes * np.where(label, 1.0, left.other[:, None]) * (product + near)
    return covariance


def _logit(p: NDArray[np.floating], least: float) -> Array:
    p = np.clip(p.astype(np.float64), least, 1 - least)
    logit: Array = np.log(p) - np.log1p(-p)
    return logit


def _log(p: NDArray[np.floating]) -> Array:
    return np.log(np.clip(p.astype(np.float64), 1e-6, 1))


def _standard(values: Array) -> Array:
    """With mean 0 and deviation 1; zeros where all are equal."""
    spread = float(values.std()) if len(values) else 0.0
    standard: Array = (values - values.mean()) / spread if spread > 1e-9 else np.zeros(len(values))
    return standard
