"""What is finished, for the terminal: tables beside the paper's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icelens.errors import InputError, MissingFileError, unknown
from icelens.reproduce.experiment import Experiment, names, read_experiment
from icelens.reproduce.paper import DATA
from icelens.reproduce.store import read_trials
from icelens.reproduce.tables import methods_rows, table1, table1_rows
from icelens.reproduce.text_listed import percentiles, percentiles_markdown
from icelens.reproduce.text_rows import lowest, rows_path, suspects_coloured
from icelens.reproduce.text_tables import summary, summary_rows

if TYPE_CHECKING:
    from rich.console import Group, RenderableType


def parts(name: str, results: Path, *, root: Path, best: bool, method: str) -> Iterator[RenderableType]:
    """The tables to print for "table1", "table2" or an experiment."""
    if name in ("table1", "table2"):
        found = read_trials(results, name)
        _require(found, name, results)
        yield _image_table(found, list(DATA), best) if name == "table1" else _text_table(found)
        return
    if not name.endswith(".toml") and name not in names():
        raise unknown("experiment", name, ["table1", "table2", *names()])
    experiment = read_experiment(name)
    found = [r for r in read_trials(results, experiment.table) if r["data"] == experiment.data]
    _require(found, name, results)
    if experiment.kind == "text":
        yield _text_table(found)
        yield from _texts(experiment, results, root, method)
    elif any("lowest_pairs" in record for record in found):
        yield from (_words(record) for record in found if "lowest_pairs" in record)
    elif experiment.table == "table1":
        yield _image_table(found, [experiment.data], best)
    else:
        yield _table(f"{experiment.title}: accuracy in %, mean (standard deviation)", methods_rows(found))


def _image_table(found: Sequence[Mapping[str, Any]], data: Sequence[str], best: bool) -> Group:
    if best:
        measured = table1(found, "best")
        title = "Accuracy at the best one on the noisy validation set, %: mean (standard deviation)"
        there = [name for name in data if any(name == of for of, _ in measured)]
        return _table(title, table1_rows(measured, there, paper=False))
    title = "Accuracy of the last iteration, %: mean (standard deviation); below it the paper's"
    return _table(title, table1_rows(table1(found), data, gap="\n"))


def _text_table(found: Sequence[Mapping[str, Any]]) -> Group:
    rows = summary_rows(summary(dict(record) for record in found))
    return _table("GLUE, %: mean (standard deviation) on the dev set; the paper's encoder is BERT-base", rows)


def _texts(experiment: Experiment, results: Path, root: Path, method: str) -> Iterator[RenderableType]:
    rows = rows_path(experiment, results, method)
    try:
        yield suspects_coloured(experiment.data, lowest(experiment.data, rows, root))
        yield percentiles_markdown({experiment.data: percentiles(experiment.data, rows)})
    except MissingFileError as error:
        yield f"No list of texts: {error}"


def confused(record: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Pairs of label and guess, where they differ, among the least confident; the most frequent first."""
    counts: Counter[str] = Counter()
    for label, guess, count in record["lowest_pairs"]:
        if label != guess:
            counts[" – ".join(sorted((label, guess)))] += count
    return counts.most_common()


def _words(record: Mapping[str, Any]) -> Group:
    """Mean confidence by class, and what the least confident are taken for."""
    by_class = sorted(record["confidence_by_class"].items(), key=lambda item: item[1])
    pairs = [f"{pair}: {count}" for pair, count in confused(record)]
    rows = [["class", "mean confidence", f"label and other guess of the {record['lowest']} least confident"]]
    for number in range(max(len(by_class), len(pairs))):
        name, mean = by_class[number] if number < len(by_class) else ("", None)
        pair = pairs[number] if number < len(pairs) else ""
        rows.append([name, "" if mean is None else f"{mean:.4f}", pair])
    return _table(f"{record['data']}, {record['method']}", rows)


def _table(title: str, rows: Sequence[Sequence[str]]) -> Group:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(show_lines="\n" in "".join(map("".join, rows)))
    for name in rows[0]:
        table.add_column(name)
    for row in rows[1:]:
        table.add_row(*(Text.from_markup(_styled(cell)) for cell in row))
    return Group(title, table)  # a table's own title would be wrapped to its width


def _styled(cell: str) -> str:
    """Markdown's stars as the terminal's bold and italics."""
    cell = cell.replace("[", "\\[")
    cell = re.sub(r"\*\*(.+?)\*\*", r"[bold]\1[/bold]", cell)
    return re.sub(r"\*(.+?)\*", r"[italic]\1[/italic]", cell)


def _require(found: Sequence[Any], name: str, results: Path) -> None:
    if not found:
        raise InputError(f"{results}: no finished trial of {name}; icelens reproduce run makes them")
