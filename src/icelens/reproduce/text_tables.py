"""From finished trials to tables: scores beside the paper's, the least trusted texts, the paper's rows."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from icelens.data import Examples, load
from icelens.data.glue import TASKS
from icelens.errors import FileError, InputError, MissingFileError, unknown
from icelens.reproduce.paper_text import LISTED, TABLE2, TITLES
from icelens.reproduce.tables import markdown
from icelens.reproduce.text_recipe import METHODS

if TYPE_CHECKING:
    from rich.table import Table

_PAPER_COLUMN = {"cross_entropy": 0, "ice_power": 1}  # the paper's ICE on text is the power transformation


@dataclass(frozen=True)
class Suspect:
    """A training row of low confidence, in words."""

    index: int
    label: str
    guess: str
    confidence: float
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Cell:
    """A cell of Table 2, in percent: one measure of one method on one task.

    `deviation` is that of the sample, None for one trial; `paper` is the paper's number, where it has one;
    `difference` is the mean less that of cross entropy, where there is one.
    """

    data: str
    measure: str
    method: str
    mean: float
    deviation: float | None
    n: int
    paper: float | None
    difference: float | None


def summary(records: Iterable[dict[str, Any]]) -> list[Cell]:
    """The cells of Table 2 from the records of its trials, in the paper's order."""
    values: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for record in records:
        for measure, value in record["scores"].items():
            values[record["data"], measure, record["method"]].append(100 * value)
    return [
        _cell(values, data, measure, method)
        for data, measures in TABLE2.items()
        for measure in measures
        for method in METHODS
        if (data, measure, method) in values
    ]


def _cell(values: dict[tuple[str, str, str], list[float]], data: str, measure: str, method: str) -> Cell:
    found, baseline = values[data, measure, method], values.get((data, measure, "cross_entropy"))
    mean = statistics.mean(found)
    return Cell(
        data=data,
        measure=measure,
        method=method,
        mean=mean,
        deviation=statistics.stdev(found) if len(found) > 1 else None,
        n=len(found),
        paper=TABLE2[data][measure][_PAPER_COLUMN[method]] if method in _PAPER_COLUMN else None,
        difference=mean - statistics.mean(baseline) if baseline and method != "cross_entropy" else None,
    )


def summary_rows(cells: Sequence[Cell]) -> list[Sequence[str]]:
    """Table 2 with its head: mean (deviation) in percent, the number of trials, the paper's cell."""
    head = ("task", "measure", "method", "ours", "n", "less cross entropy", "paper")
    rows = [
        (
            TITLES[cell.data],
            cell.measure.replace("_", ", "),
            cell.method,
            f"{cell.mean:.2f}" + (f" ({cell.deviation:.2f})" if cell.deviation is not None else ""),
            str(cell.n),
            "" if cell.difference is None else f"{cell.difference:+.2f}",
            "" if cell.paper is None else f"{cell.paper:.2f}",
        )
        for cell in cells
    ]
    return [head, *rows]


def lowest(data: str, npz: Path | str, root: Path | str, n: int = 20) -> list[Suspect]:
    """The rows of a task's training set with the lowest confidence, lowest first.

    Args:
        data: a task of GLUE.
        npz: the file of a trial's rows, `results/table2/<data>-<method>-0.npz`.
        root: the folder that holds `glue`.
        n: how many.
    """
    examples, rows = load(_known(data), root).train, _rows(npz)
    _check_length(npz, rows["confidence"], examples)
    order = np.argsort(rows["confidence"], kind="stable")[:n]
    return [
        Suspect(
            index=int(row),
            label=examples.classes[int(examples.labels[row])],
            guess=examples.classes[int(rows["guess"][row])],
            confidence=float(rows["confidence"][row]),
            texts=tuple(str(text).strip() for text in examples.inputs[row]),
        )
        for row in order
    ]


def percentiles(data: str, npz: Path | str) -> dict[int, float]:
    """Where the rows that the paper lists stand by our confidence: the percent of all rows that are below.

    Rows of equal confidence count half. A row drawn at random stands at 50, the most suspicious at 0.
    """
    confidence = _rows(npz)["confidence"]
    listed = LISTED[_known(data)]
    if max(listed) >= len(confidence):
        raise InputError(
            f"{npz}: has {len(confidence)} rows, but the paper lists row {max(listed)} of {data}"
        )
    return {row: _percentile(confidence, confidence[row]) for row in listed}


def _percentile(values: NDArray[np.float32], value: np.float32) -> float:
    return 100 * float((values < value).mean() + (values == value).mean() / 2)


def percentiles_markdown(found: dict[str, dict[int, float]]) -> str:
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


def suspects_markdown(suspects: Sequence[Suspect]) -> str:
    """The least trusted texts in Markdown."""
    rows = [
        (str(s.index), s.label, s.guess, f"{s.confidence:.3g}", "<br>".join(_escaped(t) for t in s.texts))
        for s in suspects
    ]
    return markdown([("index", "label", "guess", "confidence", "text"), *rows])


def suspects_coloured(data: str, suspects: Sequence[Suspect]) -> Table:
    """The least trusted texts for the terminal: the label in red, the guess in blue where it differs."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"{TITLES[data]}: the {len(suspects)} least trusted labels", show_lines=True)
    for name in ("index", "label", "guess", "confidence"):
        table.add_column(name, justify="right" if name in ("index", "confidence") else "left", no_wrap=True)
    table.add_column("text", ratio=1)
    for suspect in suspects:
        agrees = suspect.guess == suspect.label
        table.add_row(
            str(suspect.index),
            Text(suspect.label, style="red"),
            Text(suspect.guess, style="red" if agrees else "blue"),
            f"{suspect.confidence:.3g}",
            Text("\n".join(suspect.texts)),  # as it is: brackets in a text are not markup
        )
    return table


def _rows(npz: Path | str) -> dict[str, NDArray[Any]]:
    try:
        with np.load(npz, allow_pickle=False) as file:
            rows = {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise MissingFileError(f"{npz}: no such file; the trial with seed 0 writes it") from None
    except (OSError, ValueError) as error:
        raise FileError(f"{npz}: not the rows of a trial: {error}") from None
    if "confidence" not in rows:
        raise InputError(f"{npz}: holds no confidences; cross entropy has none")
    return rows


def _check_length(npz: Path | str, confidence: NDArray[Any], examples: Examples) -> None:
    if len(confidence) != len(examples):
        raise InputError(f"{npz}: has {len(confidence)} rows, but the training file has {len(examples)}")


def _known(data: str) -> str:
    if data not in TASKS:
        raise unknown("data", data, TASKS)
    return data


def _escaped(text: str) -> str:
    for character in "\\`*_<>|":
        text = text.replace(character, f"\\{character}")
    return text
