"""What labels are judged by: networks that had not seen them, or the confidences of a held run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from icelens.auditing.noise_model import NoiseModel, explain, likelihood_of_others

if TYPE_CHECKING:
    from icelens.auditing.stages import Honest

Array = NDArray[np.float64]

LEAST_GAIN = 10.0  # nats; with fewer, predictions tell next to nothing of the labels


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known of some of the labels from predictions that the labels themselves did not spoil.

    Args:
        rows: which examples, (rows,).
        log_p: (rows, classes), those predictions.
        right: (rows,), the probability that each given label is right.
        noise: how labels were flipped.
        span: the smallest and the largest share of wrong labels that explain them.
        held: whether one run gave all of it, which drawing rows anew cannot question.
        gain: in nats, by how much the predictions explain the given labels better than the shares of the
            classes do, and than they would by chance; not known of a held run.
    """

    rows: NDArray[np.int64]
    log_p: NDArray[np.float32]
    right: Array
    noise: NoiseModel
    span: tuple[float, float]
    held: bool
    gain: float = math.inf


# An audit asks whether its runs tell anything before it asks what; weak, so that the runs go with the audit.
_found: WeakKeyDictionary[Honest, tuple[NDArray[np.int64], Evidence]] = WeakKeyDictionary()


def honest_evidence(honest: Honest, labels: NDArray[np.int64]) -> Evidence:
    """By networks that had not seen the label, and the noise that explains it then."""
    given = labels[honest.rows]
    if honest in _found and np.array_equal(_found[honest][0], given):
        return _found[honest][1]
    noise = explain(honest.log_p, given)
    right, span = noise.right(honest.log_p, given), noise.span(honest.log_p, given)
    gain = _gain(noise.best, honest.log_p, given)
    evidence = Evidence(honest.rows, honest.log_p, right, noise.best, span, held=False, gain=gain)
    _found[honest] = given, evidence
    return evidence


def _gain(noise: NoiseModel, log_p: NDArray[np.float32], labels: NDArray[np.int64]) -> float:
    """Nats that predictions are worth: beyond the shares of the classes, and what they reach by chance."""
    counts = np.bincount(labels)
    counts = counts[counts > 0]
    gain = float(len(labels) * noise.likelihood - (counts * np.log(counts / len(labels))).sum())
    # A nat for two free numbers is what these may gain by chance.
    surely = gain - (len(counts) ** 2 - 1) / 2
    if surely >= LEAST_GAIN:
        return surely
    mixed = np.random.default_rng(0).permutation(labels)
    return len(labels) * (noise.likelihood - likelihood_of_others(noise, log_p, mixed))


def held_evidence(
    log_p: NDArray[np.float32], confidence: NDArray[np.float32], labels: NDArray[np.int64]
) -> Evidence:
    """By one run that was held to its beliefs: its confidences, of all examples.

    A noise model of the predictions would not do here. It asks whether labels contradict a network that is
    sure; one that was held is sure of all it says, right or wrong, so that a timid network that makes no
    claim explains the labels better than any flips.

    Args:
        log_p: (N, classes), of the run.
        confidence: (N,), of ICE-HELD: how far each label agrees with what the network said of it.
        labels: (N,), as given.
    """
    right = confidence.astype(np.float64)
    noise = _counted(log_p, right, labels)
    share = float(1 - right.mean())
    return Evidence(np.arange(len(labels)), log_p, right, noise, (share, share), held=True)


def _counted(log_p: NDArray[np.float32], right: Array, labels: NDArray[np.int64]) -> NoiseModel:
    """The noise by counting: 1 − right of each label was flipped from the classes that the network sees."""
    classes = log_p.shape[1]
    moved = np.zeros((classes, classes))
    for label in range(classes):
        given = labels == label
        moved[:, label] = (1 - right[given]) @ np.exp(log_p[given].astype(np.float64))
    # One imagined flip for each cell, as where noise is explained.
    moved = np.where(np.eye(classes, dtype=bool), 0.0, moved + 1)
    stayed = np.bincount(labels, right, minlength=classes)
    rate = moved.sum(1) / np.maximum(moved.sum(1) + stayed, 1e-12)
    channel = moved / moved.sum(1, keepdims=True)
    return NoiseModel(1.0, np.ones(classes), rate, channel, likelihood=0.0)
