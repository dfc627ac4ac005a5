"""What one run says of the labels that it was trained on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from icelens.auditing.noise_model import explain
from icelens.auditing.ranking import guesses, issues_of, suspicion_score, trust_of

ROWS = 20_000  # that the noise model is fitted to; more would take long and change little


@dataclass(frozen=True, eq=False)
class Quality:
    """What is thought of the training labels, (rows,) each.

    Args:
        label: the given class, as a code.
        guess: the class that it should be.
        trust: the probability that the given one is right.
        issues: which are worth a look.
    """

    label: NDArray[np.int64]
    guess: NDArray[np.int64]
    trust: NDArray[np.float64]
    issues: NDArray[np.bool_]


def judge_labels(log_p: NDArray[np.float64], labels: NDArray[np.int64]) -> Quality:
    """From predictions of the rows trained on: an audit's steps, without the runs that leave some out.

    An audit fits its noise model to predictions of networks that had not seen the label, at five times the
    cost. Those of one run that was made to disbelieve wrong labels are close to them; what it has learned by
    heart all the same is missing from the count of errors, and in the ranking it is behind.

    Args:
        log_p: (rows, classes), of the network that was trained on them.
        labels: (rows,), as given.
    """
    known = np.arange(len(labels))
    if len(labels) > ROWS:
        known = np.random.default_rng(0).permutation(known)[:ROWS]
    narrow = log_p.astype(np.float32)
    noise = explain(narrow[known], labels[known])
    right = noise.right(narrow[known], labels[known])
    trust = trust_of(suspicion_score(narrow, labels, noise.best), known, right)
    issues = issues_of(trust, int((narrow.argmax(1) != labels).sum()))
    return Quality(labels, guesses(narrow, labels, trust), trust, issues)
