"""Verdicts teach the ranking: the suspects that are left, in a new order and with a new trust, in no time.

Nothing is trained again. The log-odds that a label is wrong are those of `trust`, plus a Gaussian process
over what the audit knows of a suspect, learned from the verdicts so far. numpy alone, so that a server can.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from icelens.errors import FileError, InputError, MissingFileError
from icelens.review.learned import Learned, learn, probability
from icelens.review.likeness import Array, Evidence, Points, points_of

__all__ = ["Evidence", "Left", "Reranked", "read_evidence", "rerank"]

AHEAD = 100
SAMPLE, DRAWS = 400, 400
NORMAL_90 = (0.05, 0.95)
# What is left differs from what was judged by more than the process can know, in log-odds: the rest of the
# list, which lies far from the verdicts, and the next few. Measured on data sets with known errors.
DRIFT, DRIFT_AHEAD = 1.0, 0.5


@dataclass(frozen=True)
class Left:
    """Suspects without a verdict: how many, and how many of them are wrong, with a 90 % interval."""

    examples: int
    errors: float
    low: float
    high: float

    @property
    def rate(self) -> float:
        """The expected share of errors."""
        return self.errors / max(1, self.examples)


@dataclass(frozen=True, eq=False)
class Reranked:
    """What is left to review.

    Args:
        rows: (left,), the examples without a verdict, the least trusted first.
        trust: (left,), the probability of each that its label is right, by what verdicts taught.
        ahead: what to expect of the next few of the list.
        rest: what to expect of all that is left of it.
    """

    rows: NDArray[np.int64]
    trust: Array
    ahead: Left
    rest: Left


def read_evidence(folder: str | Path) -> Evidence:
    """What an audit's folder holds of its suspects."""
    path = Path(folder) / "review.npz"
    try:
        with path.open("rb") as file, np.load(file) as arrays:
            return Evidence(**{field.name: arrays[field.name] for field in fields(Evidence)})
    except FileNotFoundError:
        raise MissingFileError(f"{path}: no such file; audit the data again to have it") from None
    except (BadZipFile, ValueError, KeyError, EOFError) as error:
        raise FileError(f"{path}: not what an audit wrote: {error}") from None


def rerank(
    evidence: Evidence,
    rows: NDArray[np.int64],
    wrong: NDArray[np.bool_],
    *,
    truth: NDArray[np.int64] | None = None,
    unsure: NDArray[np.int64] | None = None,
    ahead: int = AHEAD,
) -> Reranked:
    """The suspects that are left, ranked by what the verdicts so far teach. Without verdicts, by trust.

    Args:
        evidence: of all suspects.
        rows: (V,), the examples that were judged, in the order of their verdicts. Those that are no suspects
            teach nothing.
        wrong: (V,), whether the label was found wrong.
        truth: (V,), the class that the reviewer found right; −1 where that is not known.
        unsure: examples that were looked at without a verdict: they leave the list and teach nothing.
        ahead: how many `Reranked.ahead` looks at.
    """
    rows, wrong = np.asarray(rows, dtype=np.int64), np.asarray(wrong, dtype=bool)
    if rows.shape != wrong.shape or rows.ndim != 1:
        raise InputError(
            f"a verdict for each row is needed, got {rows.shape} rows and {wrong.shape} verdicts"
        )
    places, known = _places(evidence.rows, rows)
    seen = np.concatenate([rows, np.asarray([] if unsure is None else unsure, dtype=np.int64)])
    left = np.flatnonzero(~np.isin(evidence.rows, seen))
    points = points_of(evidence)
    classes = np.full(len(rows), -1) if truth is None else np.asarray(truth, dtype=np.int64)
    learned = (
        learn(points.take(places), wrong[known].astype(np.float64), classes[known]) if len(places) else None
    )
    rest = points.take(left)
    log_odds = -_logit(evidence.trust[left]) if learned is None else learned.log_odds(rest)
    order = np.argsort(-log_odds, kind="stable")
    trust = evidence.trust[left].astype(np.float64) if learned is None else probability(-log_odds)
    few = order[:ahead]
    return Reranked(
        evidence.rows[left[order]],
        trust[order],
        _expected(rest.take(few), log_odds[few], learned, DRIFT_AHEAD),
        _expected(rest, log_odds, learned, DRIFT),
    )


def _places(
    suspects: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where judged rows stand among the suspects, and which of them do."""
    order = np.argsort(suspects, kind="stable")
    at = np.searchsorted(suspects, rows, sorter=order).clip(max=max(0, len(suspects) - 1))
    places = order[at] if len(suspects) else at
    known = np.flatnonzero(suspects[places] == rows) if len(suspects) else np.empty(0, np.int64)
    return places[known], known


def _logit(trust: NDArray[np.float64]) -> Array:
    trust = np.clip(trust, 1e-15, 1 - 1e-15)
    return np.log(trust) - np.log1p(-trust)


def _expected(points: Points, log_odds: Array, learned: Learned | None, drift: float) -> Left:
    """Wrong labels among these, by trust, and an interval: draws of log-odds, and of the count given those.

    The draws say how far the count may be off, not what it is: what is added to log-odds pulls their mean
    towards a half, and away from the trust that the list shows.
    """
    if not len(points):
        return Left(0, 0.0, 0.0, 0.0)
    generator = np.random.default_rng(0)
    sample = generator.permutation(len(points))[:SAMPLE]
    drawn = log_odds[sample][:, None] + drift * generator.standard_normal(DRAWS)
    if learned is not None:
        spread, axes = np.linalg.eigh(learned.covariance(points.take(sample)))
        scaled = axes * np.sqrt(np.maximum(spread, 0))
        drawn = drawn + scaled @ generator.standard_normal((len(sample), DRAWS))
    # The sample says how far the rate may be off; where it lies, all points say.
    rates = probability(drawn).mean(0) - probability(log_odds[sample]).mean() + probability(log_odds).mean()
    rates = rates.clip(0, 1)
    low, high = np.quantile(generator.binomial(len(points), rates), NORMAL_90)
    errors = probability(log_odds).sum().clip(low, high)
    return Left(len(points), float(errors), float(low), float(high))
