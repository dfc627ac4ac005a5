"""What a reviewer is shown beside a suspect, and what verdicts are learned from: `review.npz`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from icelens.auditing.inputs import Inputs
from icelens.auditing.neighbours import nearest, trusted_pool
from icelens.auditing.views import compressed, view_of

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

TOP = 5
FEWEST, BEYOND, MOST = 5000, 1000, 20_000  # suspects: at least; beyond the issues; at most


@dataclass(frozen=True, eq=False)
class Aids:
    """For the S least trusted examples, the least trusted first; class numbers are those of the data.

    Args:
        rows: (S,), their index.
        top: (S, 5), the likeliest classes, the likeliest first; −1 where there are fewer.
        top_p: (S, 5), their probabilities.
        near_label: (S, 3), index of the trusted examples of the given class that are most alike; −1: none.
        near_guess: (S, 3), likewise of the guess; all −1 where that is the label.
        vectors: (S, at most 32), float16, what the network sees, compressed.
        label: (S,), the given class.
        guess: (S,).
        trust: (S,).
        confidence: (S,), that of the audit.
        p_label: (S,), the probability of the given class.
        p_guess: (S,).
    """

    rows: NDArray[np.int64]
    top: NDArray[np.int32]
    top_p: NDArray[np.float32]
    near_label: NDArray[np.int64]
    near_guess: NDArray[np.int64]
    vectors: NDArray[np.float16]
    label: NDArray[np.int32]
    guess: NDArray[np.int32]
    trust: NDArray[np.float64]
    confidence: NDArray[np.float32]
    p_label: NDArray[np.float32]
    p_guess: NDArray[np.float32]


def suspect_rows(examples: pd.DataFrame) -> NDArray[np.int64]:
    """The rows that reviewers are helped with, the least trusted first."""
    count = min(len(examples), MOST, max(FEWEST, int(examples["is_issue"].sum()) + BEYOND))
    return np.argsort(examples["trust"].to_numpy(), kind="stable")[:count]


def aids_for(
    examples: pd.DataFrame,
    rows: NDArray[np.int64],
    log_p: NDArray[np.float32],
    inputs: Inputs,
    weights: dict[str, Tensor],
) -> Aids:
    """The aids for these rows.

    Args:
        examples: of the audit.
        rows: (S,), from `suspect_rows`.
        log_p: (S, classes), log-probabilities of these rows.
        inputs: of all examples.
        weights: of the network that was trained on all.
    """
    columns = {name: examples[name].to_numpy() for name in ("trust", "confidence", "p_label", "p_guess")}
    label, guess = (examples[name].cat.codes.to_numpy().astype(np.int64) for name in ("label", "guess"))
    classes = log_p.shape[1]
    pool = trusted_pool(label, columns["trust"], ~examples["is_issue"].to_numpy() & (guess == label), classes)
    view = view_of(inputs, weights, classes, np.concatenate([rows, pool]))
    suspects, trusted = view[: len(rows)], view[len(rows) :]

    def near(wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        found = nearest(suspects, trusted, (rows, pool), wanted, label[pool])
        return np.where(found >= 0, np.append(pool, -1)[found], -1)

    other = np.where(guess == label, -1, guess)
    top = _top(log_p)
    return Aids(
        rows,
        *top,
        near(label[rows]),
        near(other[rows]),
        compressed(suspects),
        label[rows].astype(np.int32),
        guess[rows].astype(np.int32),
        *(values[rows] for values in columns.values()),
    )


def _top(log_p: NDArray[np.float32]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    count = min(TOP, log_p.shape[1])
    classes = np.full((len(log_p), TOP), -1, dtype=np.int32)
    p = np.zeros((len(log_p), TOP), dtype=np.float32)
    classes[:, :count] = np.argsort(-log_p, axis=1, kind="stable")[:, :count]
    p[:, :count] = np.exp(np.take_along_axis(log_p, classes[:, :count].astype(np.int64), 1))
    return classes, p
