"""Table 1 from the records of finished trials, beside the paper's."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from icelens.reproduce.paper import DATA, METHODS, TABLE1

LEVEL = 0.05  # of the one-tailed t-tests
MEASURES = {"last": "accuracy", "best": "accuracy_at_best_validation"}


@dataclass(frozen=True)
class Cell:
    """One method on one data set, in percent: mean, standard deviation of the sample, trials.

    `bold` says that it is not significantly worse than the best of its column; `paper` is the paper's mean
    and deviation.
    """

    mean: float
    deviation: float | None
    n: int
    bold: bool
    paper: tuple[float, float] | None

    @property
    def difference(self) -> float | None:
        """Ours less the paper's."""
        return None if self.paper is None else self.mean - self.paper[0]

    @property
    def within(self) -> bool | None:
        """Whether our mean lies within the paper's mean and one of its deviations."""
        return None if self.paper is None else abs(self.mean - self.paper[0]) <= self.paper[1]


def table1(records: Iterable[Mapping[str, Any]], measure: str = "last") -> dict[tuple[str, str], Cell]:
    """The cells of Table 1, by data set and method.

    Args:
        records: those of the finished trials.
        measure: "last", the accuracy of the last iteration, or "best", that of the evaluation with the best
            accuracy on the noisy validation set.
    """
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for record in records:
        if MEASURES[measure] in record:  # without a validation set there is no best
            values[record["data"], record["method"]].append(100 * record[MEASURES[measure]])
    columns: dict[str, dict[str, list[float]]] = defaultdict(dict)
    for (data, method), found in values.items():
        columns[data][method] = found
    return {
        (data, method): Cell(
            mean=statistics.fmean(found),
            deviation=statistics.stdev(found) if len(found) > 1 else None,
            n=len(found),
            bold=method in not_worse(columns[data]),
            paper=TABLE1.get((data, method)),
        )
        for (data, method), found in values.items()
    }


def not_worse(column: Mapping[str, Sequence[float]]) -> set[str]:
    """The methods whose mean is not significantly below the best one, by one-tailed t-tests.

    >>> sorted(not_worse({"a": [3.0, 3.2, 3.1], "b": [3.1, 3.0, 3.0], "c": [1.0, 1.1, 0.9]}))
    ['a', 'b']
    """
    from scipy.stats import ttest_ind

    enough = {method: values for method, values in column.items() if len(values) > 1}
    if not enough:
        return set()
    best = max(enough, key=lambda method: statistics.fmean(enough[method]))
    return {
        method
        for method, values in enough.items()
        if method == best or not ttest_ind(values, enough[best], alternative="less").pvalue < LEVEL
    }


def table1_rows(
    cells: Mapping[tuple[str, str], Cell], data: Sequence[str], *, gap: str = "<br>", paper: bool = True
) -> list[list[str]]:
    """Table 1 as rows of text with a head: ours, bold as tested, and after a gap the paper's cell.

    Where nothing was measured, "not measured here" stands. Without `paper`, ours alone.
    """
    methods = [*METHODS, *sorted({method for _, method in cells} - set(METHODS))]
    rows = [["", *(_column(cells, name) for name in data)]]
    for method in methods:
        if any((name, method) in cells or (paper and (name, method) in TABLE1) for name in data):
            rows.append(
                [_title(method), *(_both(cells, name, method, gap if paper else "") for name in data)]
            )
    return rows


def _column(cells: Mapping[tuple[str, str], Cell], data: str) -> str:
    """The name of a data set and how many trials its cells have."""
    trials = sorted({cell.n for (name, _), cell in cells.items() if name == data})
    if not trials:
        return DATA.get(data, data)
    count = f"{trials[0]}" if len(trials) == 1 else f"{trials[0]} to {trials[-1]}"
    return f"{DATA.get(data, data)} (n = {count})"


def table1_markdown(cells: Mapping[tuple[str, str], Cell], data: Sequence[str]) -> str:
    """Table 1 in Markdown, the paper's cells in italics."""
    return markdown(table1_rows(cells, data))


def differences_markdown(cells: Mapping[tuple[str, str], Cell]) -> str:
    """Every cell that the paper has too: ours, n, the paper's, the difference, whether it lies within."""
    rows = [
        [
            DATA[data],
            _title(method),
            own(cell),
            str(cell.n),
            papers(cell.paper),
            f"{cell.difference:+.2f}",
            "yes" if cell.within else "no",
        ]
        for data in DATA
        for method in METHODS
        if (cell := cells.get((data, method))) and cell.paper
    ]
    head = ["data", "method", "ours", "n", "paper", "difference", "within the paper's deviation"]
    return markdown([head, *rows])


def detection_markdown(records: Iterable[Mapping[str, Any]]) -> str:
    """How well each method's score tells flipped from original labels: mean AUROC and average precision."""
    values: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for record in records:
        if "auroc" in record:
            values[record["data"], record["method"]].append((record["auroc"], record["average_precision"]))
    data = [name for name in DATA if any(name == found for found, _ in values)]
    rows = [["AUROC / average precision", *(DATA[name] for name in data)]]
    for method in METHODS:
        row = [
            " / ".join(f"{statistics.fmean(column):.4f}" for column in zip(*found, strict=True))
            if (found := values.get((name, method)))
            else ""
            for name in data
        ]
        rows.append([_title(method), *row])
    return markdown(rows)


def methods_rows(records: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """A row for each method of an experiment that the paper has no table of: accuracies, AUROC, trials."""
    last, best = table1(records), table1(records, "best")
    rows = [["method", "last iteration", "best validation", "AUROC", "n"]]
    for key, cell in last.items():
        found = [r["auroc"] for r in records if (r["data"], r["method"]) == key and "auroc" in r]
        auroc = f"{statistics.fmean(found):.4f}" if found else ""
        rows.append([_title(key[1]), own(cell), own(best.get(key)), auroc, str(cell.n)])
    return rows


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; the first row is its head."""
    head, *body = rows
    return "".join(f"| {' | '.join(row)} |\n" for row in [head, ["---"] * len(head), *body])


def _both(cells: Mapping[tuple[str, str], Cell], data: str, method: str, gap: str) -> str:
    cell = cells.get((data, method))
    paper = papers(TABLE1.get((data, method)))
    return f"{own(cell) if cell else 'not measured here'}{gap}*{paper}*" if paper and gap else own(cell)


def own(cell: Cell | None) -> str:
    """Our part of a cell, bold as tested; empty where there is none."""
    if cell is None:
        return ""
    text = f"{cell.mean:.2f}" + (f" ({cell.deviation:.2f})" if cell.deviation is not None else "")
    return f"**{text}**" if cell.bold else text


def papers(paper: tuple[float, float] | None) -> str:
    """The paper's part of a cell; empty where there is none."""
    return "" if paper is None else f"{paper[0]:.2f} ({paper[1]:.2f})"


def _title(method: str) -> str:
    """The method as the paper calls it; of a variant, that of its loss and what it adds."""
    loss, plus, added = method.partition("+")
    name = METHODS.get(loss) or _title_of(loss)
    return f"{name} + {added}" if plus else name


def _title_of(loss: str) -> str:
    """The title of a loss that is not in the paper."""
    from icelens.losses import LOSSES

    return LOSSES[loss].title if loss in LOSSES else loss
