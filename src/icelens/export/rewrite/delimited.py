"""CSV and TSV: what does not change is the same to the byte."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from typing import IO, Any

from icelens.data.own.delimited import any_length
from icelens.data.own.origin import Origin, brief
from icelens.data.own.table import Layout, Table
from icelens.data.own.textfile import opened
from icelens.export.changes import Changes

BOM = "\ufeff"
_END = re.compile(r"(?:\r\n|\r|\n)?\Z")


def rewrite_delimited(
    table: Table, label: str, changes: Changes, file: IO[bytes], *, before: str | None = None
) -> int:
    """Write the rows of a file again; returns how many.

    Args:
        table: what was read, with its path.
        label: the column of labels.
        changes: what to do.
        file: where to write to.
        before: the name of a last column to add, which holds the labels as they were.
    """
    layout, given = table.layout, table.column(label).to_pylist()
    assert layout is not None, "a delimited file has a layout"
    cell = _Labels(table, label, given, changes)
    row, kept = -1 - layout.header, 0  # a header is the row before the first
    with any_length(), opened(table.path) as source:
        for raw, cells in _records(source, layout):
            row += bool(cells)  # a blank line is no row, but stays
            if cells and row in changes.dropped:
                continue
            text = cell.changed(raw, row, cells) if cells and row >= 0 else raw
            if before is not None and cells:
                text = _with_last(table, text, before if row < 0 else given[row] or "")
            file.write(text.encode())
            kept += bool(cells) and row >= 0
    if row + 1 != len(given):
        raise _unlike(table, f"{row + 1:,} rows, not {len(given):,}")
    return kept


class _Labels:
    """The cells of one column: what they hold, and what they are to hold."""

    def __init__(self, table: Table, label: str, given: list[str | None], changes: Changes) -> None:
        self.table, self.place, self.given = table, table.names.index(label), given
        self.new = {
            row: given[changes.known[name]] or name if name in changes.known else name
            for row, name in changes.relabelled.items()
        }

    def changed(self, raw: str, row: int, cells: list[str]) -> str:
        """The text of a row with its new label in it, if it has one; else as it is."""
        # Two parsers may differ on a file that is written oddly.
        if row >= len(self.given) or (cells[self.place] or None) != self.given[row]:
            raise _unlike(self.table, f"row {row:,} otherwise")
        return _with_cell(self.table, raw, self.place, self.new[row]) if row in self.new else raw


def _records(file: IO[bytes], layout: Layout) -> Iterator[tuple[str, list[str]]]:
    """Each row as it is written, line end and all, and its cells; the mark of UTF-8 comes by itself."""
    taken: list[str] = []

    def lines() -> Iterator[str]:
        with io.TextIOWrapper(file, encoding="utf-8", newline="") as text:
            for number, line in enumerate(text):
                taken.append(line)
                yield line.removeprefix(BOM) if number == 0 else line

    quoting: Any = csv.QUOTE_MINIMAL if layout.quoting else csv.QUOTE_NONE
    first = True
    # The parser asks for no line beyond the row that it returns, so those taken are that row's.
    for cells in csv.reader(lines(), delimiter=layout.delimiter, quoting=quoting, strict=True):
        raw = "".join(taken)
        taken.clear()
        if first and raw.startswith(BOM):
            yield BOM, []
            raw = raw.removeprefix(BOM)
        first = False
        yield raw, cells


def _with_cell(table: Table, raw: str, place: int, text: str) -> str:
    """The row with another text in one of its cells; one that was quoted stays so."""
    assert table.layout is not None
    body, end = _parted(raw)
    start, stop = spans(body, table.layout)[place]
    quoted = table.layout.quoting and body[start:stop].startswith('"')
    return body[:start] + _cell(table, text, quoted=quoted) + body[stop:] + end


def _with_last(table: Table, raw: str, text: str) -> str:
    assert table.layout is not None
    body, end = _parted(raw)
    return body + table.layout.delimiter + _cell(table, text, quoted=False) + end


def _parted(raw: str) -> tuple[str, str]:
    """A row and its line end."""
    end = _END.search(raw)
    assert end is not None, "the pattern fits the empty end too"
    return raw[: end.start()], end.group()


def spans(body: str, layout: Layout) -> list[tuple[int, int]]:
    """Where each cell of a row starts and ends, quotes included.

    >>> spans('a,"b,""c"",",', Layout(",", True, True))
    [(0, 1), (2, 12), (13, 13)]
    """
    found, start = [], 0
    while True:
        if layout.quoting and body.startswith('"', start):
            end = _closing(body, start) + 1
        else:
            end = body.find(layout.delimiter, start)
            end = len(body) if end < 0 else end
        found.append((start, end))
        if end == len(body):
            return found
        start = end + 1


def _closing(body: str, start: int) -> int:
    """The quote that closes the one at the start; two in a row are a letter."""
    end = body.index('"', start + 1)
    while body.startswith('""', end):
        end = body.index('"', end + 2)
    return end


def _cell(table: Table, text: str, *, quoted: bool) -> str:
    layout = table.layout
    assert layout is not None
    special = any(letter in text for letter in (layout.delimiter, "\r", "\n"))
    if not layout.quoting:
        if special:
            raise table.origin.error(
                f"class {brief(text)} holds what separates cells, and quotes are letters in this file; "
                "choose another name for it"
            )
        return text
    return '"' + text.replace('"', '""') + '"' if quoted or special or '"' in text else text


def _unlike(table: Table, how: str) -> Exception:
    return Origin(table.path).damaged(f"read again, it holds {how}; save it as plain CSV and audit it again")
