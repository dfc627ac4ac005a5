"""Table 2 from the records of finished trials, beside the paper's."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from icelens.reproduce.paper import METHODS as NAMES
from icelens.reproduce.paper_text import TABLE2, TITLES
from icelens.reproduce.text_recipe import METHODS

_PAPER_COLUMN = {"cross_entropy": 0, "ice_power": 1}  # the paper's ICE on text is the power transformation


@dataclass(frozen=True)
class Cell:
    """A cell of Table 2, in percent: one measure of one method on one task.

    `deviation` is that of the sample, None for one trial. `paper` is the paper's number, where it has one.
    The others compare with cross entropy, where there is one: `difference` is the mean less its mean,
    `error` the standard error of that, paired by seed, None where the seeds are not the same;
    `in_deviations` is the difference in standard deviations of cross entropy; `papers_difference` is the
    paper's number less its number for cross entropy.
    """

    data: str
    measure: str
    method: str
    mean: float
    deviation: float | None
    n: int
    paper: float | None = None
    difference: float | None = None
    error: float | None = None
    in_deviations: float | None = None
    papers_difference: float | None = None


def summary(records: Iterable[dict[str, Any]]) -> list[Cell]:
    """The cells of Table 2 from the records of its trials, in the paper's order."""
    values: dict[tuple[str, str, str], dict[int, float]] = defaultdict(dict)
    for record in records:
        for measure, value in record["scores"].items():
            values[record["data"], measure, record["method"]][record["seed"]] = 100 * value
    return [
        _cell(values, data, measure, method)
        for data, measures in TABLE2.items()
        for measure in measures
        for method in METHODS
        if (data, measure, method) in values
    ]


def _cell(
    values: Mapping[tuple[str, str, str], Mapping[int, float]], data: str, measure: str, method: str
) -> Cell:
    found = values[data, measure, method]
    baseline = values.get((data, measure, "cross_entropy")) if method != "cross_entropy" else None
    papers = TABLE2[data][measure]
    paper = papers[_PAPER_COLUMN[method]] if method in _PAPER_COLUMN else None
    return Cell(
        data=data,
        measure=measure,
        method=method,
        mean=statistics.mean(found.values()),
        deviation=_deviation(found),
        n=len(found),
        paper=paper,
        papers_difference=None if paper is None or method == "cross_entropy" else paper - papers[0],
        **({} if baseline is None else _compared(found, baseline)),
    )


def _compared(found: Mapping[int, float], baseline: Mapping[int, float]) -> dict[str, float | None]:
    """How a method's scores, by seed, compare with those of cross entropy."""
    difference = statistics.mean(found.values()) - statistics.mean(baseline.values())
    deviation = _deviation(baseline)
    error = None
    if found.keys() == baseline.keys() and len(found) > 1:
        paired = [found[seed] - baseline[seed] for seed in found]
        error = statistics.stdev(paired) / math.sqrt(len(paired))
    in_deviations = difference / deviation if deviation else None
    return {"difference": difference, "error": error, "in_deviations": in_deviations}


def _deviation(found: Mapping[int, float]) -> float | None:
    return statistics.stdev(found.values()) if len(found) > 1 else None


def summary_rows(cells: Sequence[Cell]) -> list[Sequence[str]]:
    """Table 2 with its head: mean (deviation) in percent, trials, what ICE gains, and the paper's."""
    head = ("task", "measure", "method", "ours", "n", "less CCE, ± its error", "in deviations of CCE",
            "paper", "paper, less CCE")  # fmt: skip
    rows = [
        (
            TITLES[cell.data],
            cell.measure.replace("_", ", "),
            NAMES[cell.method],
            f"{cell.mean:.2f}" + (f" ({cell.deviation:.2f})" if cell.deviation is not None else ""),
            str(cell.n),
            _signed(cell.difference) + ("" if cell.error is None else f" ± {cell.error:.2f}"),
            _signed(cell.in_deviations),
            "" if cell.paper is None else f"{cell.paper:.2f}",
            _signed(cell.papers_difference),
        )
        for cell in cells
    ]
    return [head, *rows]


def verdict(cells: Sequence[Cell]) -> str:
    """Where ICE is below cross entropy by more than one standard deviation of it, as a sentence."""
    found = {_named(cell): cell.in_deviations for cell in cells if cell.in_deviations is not None}
    below = [name for name, deviations in found.items() if deviations < -1]
    lowest, highest = min(found, key=found.__getitem__), max(found, key=found.__getitem__)
    where = f"on {'; '.join(below)}" if below else "on no task"
    return (
        f"By more than one of CCE's standard deviations, ICE is below CCE {where}. Its lowest cell is at "
        f"{found[lowest]:+.2f} deviations ({lowest}), its highest at {found[highest]:+.2f} ({highest})."
    )


def _named(cell: Cell) -> str:
    return f"{TITLES[cell.data]}, {cell.measure.replace('_', ', ')}, {NAMES[cell.method]}"


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.2f}"
