"""CSV and TSV: every cell as it is written, errors that name the line.

pyarrow's parser is nine times as fast as Python's, but cannot say at which line a row is wrong, nor whether
quotes are closed as they should be: so Python's looks through files with quotes first, and reads what pyarrow
refuses.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv

from icelens.data.own.asked import BY_NUMBER
from icelens.data.own.naming import UNNAMED
from icelens.data.own.numbers import as_numbers, as_row_names, looks_like_numbers, marks_of
from icelens.data.own.origin import Origin, brief, reading
from icelens.data.own.table import Layout, Table
from icelens.data.own.textfile import look_through, opened
from icelens.errors import FileError

DELIMITERS = {",": "','", ";": "';'", "\t": "tabs", "|": "'|'"}
LOOKED_AT = 200  # rows to choose the delimiter and the types from
BATCH = 20_000
BLOCK = 1 << 24
AS_LETTERS = "quotes are read as letters: they do not come in pairs around fields"
Exact = Callable[[list[str]], set[str]]
Record = tuple[int, list[str]]  # the line at which a row starts, and its fields


class QuoteError(FileError):
    """A quote that is not closed as it should be, or no quote at all but a letter."""


@dataclass(frozen=True)
class Header:
    """The columns' names, how many lines they take up, and which of them are only numbers given by us."""

    names: list[str]
    lines: int
    nameless: frozenset[str] = frozenset()

    @property
    def row_names(self) -> frozenset[str]:
        """The columns that may hold ids though nothing is said of them in their names."""
        return self.nameless | ({UNNAMED} & set(self.names))


def read_delimited(path: Path, delimiter: str, *, named: tuple[str, ...], exact: Exact) -> Table:
    """The rows of a CSV or TSV file below its header line.

    Cells are strings; an empty one is missing. Columns that hold numbers alone become numbers, except the
    `exact` ones, in which "01" must stay "01".

    A file without a header line has columns 1, 2, ...: that is how it is read where all the columns that the
    user `named` are such numbers and the first line does not have them all.

    Args:
        path: the file, plain or .gz.
        delimiter: what its suffix promises between fields; another one is taken where that fits and this not.
        named: the columns that the user named.
        exact: given the names of all columns, those whose cells stay as they are written.
    """
    look = look_through(path)
    if look.empty:
        raise Origin(path).damaged("empty file, no rows")
    with any_length():
        found = _delimiter(path, delimiter)
        (rows, header), said = _read(path, found, named=named, exact=exact, quotes=look.quotes)
    if not rows.num_rows:
        raise Origin(path).damaged("a header line but no rows")
    said += () if header.lines else ("no header line: columns are counted from 1",)
    said += () if found == delimiter else (f"fields are separated by {DELIMITERS[found]}",)
    layout = Layout(found, bool(header.lines), quoting=AS_LETTERS not in said)
    table = Table(rows, path, nameless=header.nameless, said=said, layout=layout)
    return _typed(table, exact, header.row_names)


def lines_of(table: Table) -> list[int]:
    """The line of its file at which each row of a table starts."""
    assert table.layout is not None, "a delimited file has a layout"
    quoting = csv.QUOTE_MINIMAL if table.layout.quoting else csv.QUOTE_NONE
    with any_length():
        starts = [line for line, _ in _records(table.path, table.layout.delimiter, quoting)]
    starts = starts[table.layout.header :]
    if len(starts) != len(table):  # two parsers may differ on a file that is written oddly
        raise table.origin.damaged(f"holds {len(starts):,} rows or {len(table):,}; save it as plain CSV")
    return starts


def _read(path: Path, delimiter: str, *, named: tuple[str, ...], exact: Exact,
          quotes: bool) -> tuple[tuple[Any, Header], tuple[str, ...]]:  # fmt: skip
    if not quotes:
        return _rows(path, delimiter, named, exact, csv.QUOTE_NONE), ()
    try:
        # Arrow takes quotes as they come: whether they are closed is seen before.
        _check_rows(path, delimiter, csv.QUOTE_MINIMAL)
        return _rows(path, delimiter, named, exact, csv.QUOTE_MINIMAL), ()
    except FileError as quoted:
        # In many TSV files a quote is a letter like any other.
        try:
            rows = _rows(path, delimiter, named, exact, csv.QUOTE_NONE)
        except FileError as plain:
            raise (plain if delimiter == "\t" and isinstance(quoted, QuoteError) else quoted) from None
        return rows, (AS_LETTERS,)


def _rows(
    path: Path, delimiter: str, named: tuple[str, ...], exact: Exact, quoting: int
) -> tuple[Any, Header]:
    """All rows as columns: by pyarrow, and by Python's parser where that fails."""
    sample = list(islice(_records(path, delimiter, quoting), LOOKED_AT))
    header = _header(path, sample[0], named)
    rows = [row for _, row in sample[bool(header.lines) :] if len(row) == len(header.names)]
    kept = exact(header.names) | header.row_names
    numeric = {
        name for name, column in zip(header.names, zip(*rows, strict=True), strict=False)
        # Where a comma may part fractions, all columns together tell what a point means.
        if name not in kept and delimiter != ";" and looks_like_numbers(column)
    }  # fmt: skip
    for numbers in (numeric, set[str]()):
        try:
            return _fast(path, delimiter, header, numbers, quoting), header
        except pa.ArrowInvalid:
            continue  # a cell further down is no number, or the rows are ragged
    return _slow(path, delimiter, header, quoting), header


def _check_rows(path: Path, delimiter: str, quoting: int) -> None:
    width = 0
    for record in _records(path, delimiter, quoting):
        width = width or len(record[1])
        _whole(path, record, width)


def _fast(path: Path, delimiter: str, header: Header, numbers: set[str], quoting: int) -> Any:
    convert = arrow_csv.ConvertOptions(
        column_types={name: pa.float64() if name in numbers else pa.string() for name in header.names},
        null_values=[""],
        strings_can_be_null=True,
    )
    read = arrow_csv.ReadOptions(
        column_names=header.names, skip_rows_after_names=header.lines, block_size=BLOCK
    )
    quote = False if quoting == csv.QUOTE_NONE else '"'
    parse = arrow_csv.ParseOptions(delimiter=delimiter, quote_char=quote, newlines_in_values=bool(quote))
    # Arrow's own files, never Python's: a thread of Arrow that still holds one of those when the program
    # ends aborts it.
    with reading(Origin(path), "a CSV file"), pa.OSFile(str(path)) as plain:
        file = pa.CompressedInputStream(plain, "gzip") if path.suffix.lower() == ".gz" else plain
        return arrow_csv.read_csv(file, read_options=read, parse_options=parse, convert_options=convert)


def _slow(path: Path, delimiter: str, header: Header, quoting: int) -> Any:
    records = _records(path, delimiter, quoting)
    records = islice(records, 1, None) if header.lines else records
    schema = pa.schema([(name, pa.string()) for name in header.names])
    batches = []
    while batch := [_whole(path, record, len(header.names)) for record in islice(records, BATCH)]:
        columns = [
            pa.array([cell or None for cell in column], pa.string()) for column in zip(*batch, strict=True)
        ]
        batches.append(pa.record_batch(columns, schema))
    return pa.Table.from_batches(batches, schema)


def _records(path: Path, delimiter: str, quoting: int) -> Iterator[Record]:
    """Each row with the line that it starts at; blank lines are no rows."""
    line = 1
    with opened(path) as file:
        lines = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
        rows = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)  # type: ignore[arg-type]
        try:
            for row in rows:
                if row:
                    yield line, row
                line = rows.line_num + 1
        except csv.Error as error:
            raise QuoteError(
                f"{path}: line {line:,}: a quote opens there that is not closed as it should be ({error})"
            ) from None


@contextmanager
def any_length() -> Iterator[None]:
    """Python's parser refuses fields over 128 KiB; a text may be longer."""
    limit = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def _whole(path: Path, record: Record, width: int) -> list[str]:
    line, row = record
    if len(row) != width:
        raise Origin(path).damaged(f"line {line:,} has {len(row)} fields, expected {width}")
    return row


def _header(path: Path, first: Record, named: tuple[str, ...]) -> Header:
    """What the columns are called; one without a name has its number, and so have all without a header."""
    line, cells = first
    if len(cells) <= 2 and cells[0].lower().startswith("sep="):
        raise Origin(path).damaged(f"line {line:,} is a note to Excel ('sep='), no header; remove that line")
    numbers = [str(number) for number in range(1, len(cells) + 1)]
    if named and set(named) <= set(numbers) and not set(named) <= set(cells):
        return Header(numbers, 0)
    names = [name if name.strip() else number for name, number in zip(cells, numbers, strict=True)]
    first_place: dict[str, int] = {}
    for place, name in enumerate(names, 1):
        if (other := first_place.setdefault(name, place)) != place:
            raise Origin(path).damaged(
                f"two columns are called {brief(name)} (columns {other} and {place}); "
                f"rename one, or, if the first line is no header, {BY_NUMBER}"
            )
    nameless = [number for name, number in zip(cells, numbers, strict=True) if not name.strip()]
    return Header(names, line, frozenset(nameless))


def _delimiter(path: Path, expected: str) -> str:
    """The promised delimiter, or the first other one that cuts the rows into equal numbers of fields."""
    for delimiter in (expected, *(other for other in DELIMITERS if other != expected)):
        for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_NONE):
            try:
                widths = {len(row) for _, row in islice(_records(path, delimiter, quoting), LOOKED_AT)}
            except FileError:
                continue
            if len(widths) == 1 and widths != {1}:
                return delimiter
    return expected


def _typed(table: Table, exact: Exact, row_names: frozenset[str]) -> Table:
    """Columns of strings that are numbers all the way down become numbers; the others are marked untyped."""
    assert table.layout is not None, "a delimited file has a layout"
    columns, said, untyped, kept = table.columns, list(table.said), set(), exact(table.names)
    strings = [
        table.column(name) for name in table.names if table.sort(name) == "string" and name not in kept
    ]
    marks = marks_of(strings, comma_is_free=table.layout.delimiter == ";")
    for position, name in enumerate(table.names):
        if table.sort(name) != "string":
            continue
        read = as_row_names if name in row_names else as_numbers
        found = None if name in kept else read(table.column(name), marks)
        if found is None:
            untyped.add(name)
            continue
        columns = columns.set_column(position, name, found.column)
        said += [f"{brief(name)}: {what}" for what in found.said]
    return replace(table, columns=columns, untyped=frozenset(untyped), said=tuple(said))
