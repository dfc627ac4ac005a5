"""A table of verdicts or of corrected labels as verdicts."""

from __future__ import annotations

from pathlib import Path

from icelens.data.own.delimited import lines_of, read_delimited
from icelens.data.own.labels import read_class, read_whole
from icelens.data.own.origin import brief
from icelens.data.own.table import Table
from icelens.errors import InputError
from icelens.export.roles import Roles, roles_of
from icelens.export.said import Known, Said

Cells = list[str | None]


def rows_of(file: Path, delimiter: str, known: Known, who: str) -> list[Said]:
    """The rows of a table that say something; beside a `label_after`, `label` is the given one.

    Where a verdict is empty, a `label_after` that is another than the given label is a verdict all the same.

    Args:
        file: CSV or TSV, read as an audit reads it.
        delimiter: what its suffix promises between fields.
        known: what the rows can speak of.
        who: whose verdicts they are, where the table does not say.
    """
    table = read_delimited(file, delimiter, named=(), exact=set)
    roles = roles_of(table, known)
    index, id, label, verdict, person = (
        _cells(table, name) for name in (roles.index, roles.id, roles.label, roles.verdict, roles.who)
    )
    if roles.doubtful:
        _check_one_reading(table, known, index if roles.index else id)
    found = []
    for row, line in enumerate(lines_of(table)):
        where, said = f"line {line:,}", (verdict[row] or "").strip().lower()
        text = _class(file, where, label[row], roles, known)
        if not said and (text is None or (roles.verdict and not roles.after)):
            continue
        place = _row(file, where, index[row]) if roles.index else _place(file, where, id[row], known)
        if not said and roles.verdict and known.labels[place : place + 1] == [text]:
            continue
        held = id[row] if roles.index else None
        found.append(Said(place, held, said, text, person[row] or who, where))
    return found if roles.verdict else _without_the_same(found, known)


def _cells(table: Table, name: str) -> Cells:
    cells: Cells = table.column(name).to_pylist() if name else [None] * len(table)
    return cells


def _check_one_reading(table: Table, known: Known, cells: Cells) -> None:
    """Raise where a column called index may hold row numbers or ids, and they are not the same."""
    named = [read_whole(cell.strip()) for cell in cells if cell and cell.strip()]
    rows = [int(cell) if cell.isdecimal() else -1 for cell in named]
    ids = [known.places.get(cell) for cell in named]
    if named and None not in ids and min(rows) >= 0 and max(rows) < len(known.ids) and rows != ids:
        raise table.origin.error(
            "column 'index' may hold row numbers or ids, and these are other examples; name examples by "
            "their ids, in a column 'id'"
        )


def _class(file: Path, where: str, cell: str | None, roles: Roles, known: Known) -> str | None:
    """The class that a cell means; an error where it is a class, and in the data the code of another."""
    codes = known.columns.codes
    if cell is None:
        return None
    if roles.copied and codes and cell in known.classes:
        coded = read_class(cell, (), codes)
        if coded not in (cell, None):
            raise InputError(
                f"{file}: {where}: {brief(cell)} is a class, and also the code of {brief(coded)}; write "
                "names of classes into a column label_after"
            )
    return read_class(cell, known.classes, codes)


def _without_the_same(found: list[Said], known: Known) -> list[Said]:
    """Of a file that holds most examples, as a corrected copy of the data does, those that differ.

    Nobody has looked at all the others; in a list of a few a label that is the given one keeps it.
    """
    if len({one.index for one in found}) <= len(known.ids) / 2:
        return found
    return [one for one in found if one.label != known.labels[one.index]]


def _row(file: Path, where: str, cell: str | None) -> int:
    whole = read_whole((cell or "").strip())
    if not whole.isdecimal():
        raise InputError(f"{file}: {where}: index must be a row number, got {brief(cell or '')}")
    return int(whole)


def _place(file: Path, where: str, cell: str | None, known: Known) -> int:
    """The index of the example with an id; an integer may have got a fraction on its way."""
    name = cell or ""
    found = known.places.get(name, known.places.get(read_whole(name)))
    if found is None:
        raise InputError(f"{file}: {where}: no example has the id '{name}'")
    return found
