"""How many labels are wrong, with an interval; where; and what a review of n would find."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from icelens.auditing.evidence import Evidence
from icelens.auditing.noise_model import fit_noise_model
from icelens.auditing.result import Estimate

if TYPE_CHECKING:
    import pandas as pd

RESAMPLES, STEPS = 30, 10  # the steps start from what was found
ROWS = 20_000  # of a resample
NORMAL_90 = 1.645
# What the estimate is off by itself, as a share of it: measured on data sets with planted noise,
# not with held networks.
OFF_BY = 0.12


def estimate_errors(
    trust: NDArray[np.float64], evidence: Evidence, labels: NDArray[np.int64], seed: int
) -> Estimate:
    """The number of wrong labels: expected by trust, with what stays open of it.

    That is what other rows would have said, how far such a count is off by itself, and, where few errors and
    many explain the labels about as well, how far these lie apart.

    Args:
        trust: (N,), of all examples.
        evidence: what that was read from.
        labels: (N,), as given.
        seed: of the resampling.
    """
    errors, count = float((1 - trust).sum()), len(trust)
    drawn = 0.0 if evidence.held else _drawn(evidence, labels[evidence.rows], seed) * count
    reach = NORMAL_90 * math.hypot(drawn, OFF_BY * errors)
    fewest, most = (count * share for share in evidence.span)
    low = errors - math.hypot(reach, max(0.0, errors - fewest))
    # Less than one error is nothing that anyone can rule out.
    high = errors + max(1.0, math.hypot(reach, max(0.0, most - errors)))
    return Estimate(errors, max(0.0, low), min(float(count), high))


def _drawn(evidence: Evidence, given: NDArray[np.int64], seed: int) -> float:
    """How far the share of errors moves if the rows are drawn anew and the noise is explained again."""
    generator, shares = np.random.default_rng(seed), []
    for _ in range(RESAMPLES):
        rows = generator.integers(len(given), size=min(ROWS, len(given)))
        log_p, labels = evidence.log_p[rows], given[rows]
        again = fit_noise_model(log_p, labels, evidence.noise, steps=STEPS)
        shares.append(float(1 - again.right(log_p, labels).mean()))
    return float(np.std(shares)) * float(np.sqrt(min(1.0, ROWS / len(given))))


def confused_pairs(examples: pd.DataFrame) -> pd.DataFrame:
    """For each label and guess that differ: the errors to expect and the issues, the most errors first."""
    wrong = examples.assign(errors=1 - examples["trust"], issues=examples["is_issue"].astype(int))
    wrong = wrong[wrong["label"].astype(str) != wrong["guess"].astype(str)]
    pairs = wrong.groupby(["label", "guess"], observed=True)[["errors", "issues"]].sum().reset_index()
    return pairs.sort_values("errors", ascending=False, kind="stable").reset_index(drop=True)


def by_class(examples: pd.DataFrame) -> pd.DataFrame:
    """For each class its examples, the errors to expect among them, and the issues."""
    counted = examples.assign(
        examples=1, errors=1 - examples["trust"], issues=examples["is_issue"].astype(int)
    )
    return counted.groupby("label", observed=True)[["examples", "errors", "issues"]].sum().reset_index()


def review_budgets(trust: NDArray[np.float64], *wanted: int) -> pd.DataFrame:
    """How many errors to expect among the n least trusted, for round n and those that were asked for."""
    import pandas as pd

    found = np.cumsum(np.sort(1 - trust)[::-1])
    round_numbers = [base * 10**power for power in range(1, 8) for base in (1, 2, 5)]
    sizes = sorted({n for n in (*round_numbers, *(wanted or (1,)), len(trust)) if 1 <= n <= len(trust)})
    return pd.DataFrame({"n": sizes, "errors": [float(found[n - 1]) for n in sizes]})
