"""A table of verdicts or of corrected labels as verdicts."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from icelens.auditing.source import Source
from icelens.data.own import naming
from icelens.errors import InputError
from icelens.export.said import Known, Said


@dataclass(frozen=True)
class Columns:
    """Which column of a table says what; "" where none does."""

    index: str
    id: str
    label: str
    verdict: str


def rows_of(file: Path, known: Known, who: str) -> list[Said]:
    """The rows of a CSV file that say something; beside a `label_after`, `label` is the given one."""
    with file.open(encoding="utf-8-sig", newline="") as lines:
        rows = csv.DictReader(lines)
        columns = _columns(file, [name for name in rows.fieldnames or [] if name], known.source)
        places = {} if columns.index else {id: place for place, id in enumerate(known.ids)}
        found = []
        for row in rows:
            where = f"line {rows.line_num:,}"
            row.pop("", None)  # which pandas calls its column of row numbers
            text, verdict = row.get(columns.label) or None, (row.get(columns.verdict) or "").strip().lower()
            if not verdict and (columns.verdict or text is None):
                continue
            index = _index(file, where, row, columns, places)
            found.append(Said(index, row.get(columns.id), verdict, text, row.get("who") or who, where))
    return found if columns.verdict else _without_the_same(found, known)


def _columns(file: Path, names: list[str], source: Source | None) -> Columns:
    """By our own names or, where nothing else tells, by those of the audited data.

    Beside a verdict the data's own column holds the label as it was, which is none to relabel by.
    """
    index, verdict = _first(names, "index"), _first(names, "verdict")
    own_id = (source.id if source else None) or next(filter(naming.like_id, names), None)
    own_label = (source.label if source else None) or naming.label_column(names)
    found = Columns(
        index=index,
        id=_first(names, "id", None if index else own_id),
        label=_first(names, "label_after", "label", None if verdict else own_label),
        verdict=verdict,
    )
    if not (found.index or found.id) or not (found.verdict or found.label):
        raise InputError(
            f"{file}: columns must be id or index (a row number from 0), and verdict or label; "
            f"they are {', '.join(names)}"
        )
    return found


def _first(names: list[str], *wanted: str | None) -> str:
    return next((name for name in wanted if name is not None and name in names), "")


def _without_the_same(found: list[Said], known: Known) -> list[Said]:
    """Of a file that holds every example, as a corrected copy of the data does, those that differ.

    Nobody has looked at all the others; in a list of some examples a label that is the given one keeps it.
    """
    if {one.index for one in found} != set(range(len(known.ids))):
        return found
    return [one for one in found if one.label != known.labels[one.index]]


def _index(file: Path, where: str, row: dict[str, str], columns: Columns, places: dict[str, int]) -> int:
    if columns.index:
        if not (row["index"] or "").strip().isdecimal():
            raise InputError(f"{file}: {where}: index must be a row number, got '{row['index']}'")
        return int(row["index"])
    name = row[columns.id]
    if name not in places:
        raise InputError(f"{file}: {where}: no example has the id '{name}'")
    return places[name]
