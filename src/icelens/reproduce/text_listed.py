"""Where the training rows that the paper lists for low confidence stand by our scores."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from icelens.errors import InputError
from icelens.reproduce.paper import METHODS as NAMES
from icelens.reproduce.paper_text import LISTED, TITLES
from icelens.reproduce.store import trial_path
from icelens.reproduce.tables import markdown
from icelens.reproduce.text_rows import known, read_rows

# By which score of which method; p is the model's probability of the given label after training.
SCORES = (
    ("ice_linear", "confidence"),
    ("ice_power", "confidence"),
    ("ice_linear", "p_label"),
    ("ice_power", "p_label"),
    ("cross_entropy", "p_label"),
)

Percentiles = dict[int, float]


def percentiles(data: str, npz: Path | str, score: str = "confidence") -> Percentiles:
    """Where the rows that the paper lists stand by a score: the percent of all rows that are below.

    Rows of equal score count half. A row drawn at random stands at 50, the most suspicious at 0.

    Args:
        data: a task of GLUE.
        npz: the file of a trial's rows, `results/table2/<data>-<method>-0.npz`.
        score: "confidence", C, or "p_label", the probability of the given label.
    """
    listed, values = LISTED[known(data)], read_rows(npz, score)[score]
    if max(listed) >= len(values):
        raise InputError(f"{npz}: has {len(values)} rows, but the paper lists row {max(listed)} of {data}")
    return {row: _percentile(values, values[row]) for row in listed}


def _percentile(values: NDArray[np.floating], value: np.floating) -> float:
    return 100 * float((values < value).mean() + (values == value).mean() / 2)


def percentiles_markdown(found: Mapping[str, Percentiles]) -> str:
    """The paper's rows of each task with their percentiles, and the median of each task."""
    rows = [
        (
            TITLES[data],
            f"{statistics.median(of.values()):.1f}",
            ", ".join(f"{i}: {p:.1f}" for i, p in of.items()),
        )
        for data, of in found.items()
    ]
    return markdown([("task", "median", "index: percentile"), *rows])


def by_score(data: str, results: Path) -> list[Percentiles]:
    """The percentiles of a task's listed rows by each of SCORES, from the rows of the trials with seed 0."""
    return [
        percentiles(data, trial_path(results, "table2", data, method, 0).with_suffix(".npz"), score)
        for method, score in SCORES
    ]


def medians_markdown(tasks: Sequence[str], results: Path) -> str:
    """The median percentile of each task's listed rows, by each score."""
    rows = [
        (
            TITLES[data],
            str(len(LISTED[data])),
            *(f"{statistics.median(of.values()):.1f}" for of in by_score(data, results)),
        )
        for data in tasks
    ]
    return markdown([("task", "rows listed", *_heads()), *rows])


def listed_markdown(tasks: Sequence[str], results: Path) -> str:
    """Every listed row with its percentile by each score."""
    rows = []
    for data in tasks:
        found = by_score(data, results)
        rows += [(TITLES[data], str(row), *(f"{of[row]:.1f}" for of in found)) for row in LISTED[data]]
    return markdown([("task", "index", *_heads()), *rows])


def _heads() -> list[str]:
    letters = {"confidence": "C", "p_label": "p"}
    return [f"{NAMES[method]}, {letters[score]}" for method, score in SCORES]
