"""Numbers that are written as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icelens.counts import counted
from icelens.data.own.origin import brief, listed

# A zero in front of other digits marks a code, such as a postal code; "1_000" and "0x1f" are Python's alone.
_PATTERN = r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?i:inf(?:inity)?)"
NUMBER = re.compile(_PATTERN)
CODE = "^0[0-9]+$"
# What tables and Excel write where a number is missing, in lower case.
NO_NUMBER = (
    "na", "n/a", "n.a.", "n/v", "k.a.", "nan", "null", "none", "?", "-", "--", ".", "#n/a", "#n/v", "#nv",
    "#null!", "#div/0!", "#value!", "#wert!", "#ref!", "#bezug!", "#name?", "#num!", "#zahl!",
)  # fmt: skip
MOSTLY = 0.5  # of the cells that are filled: numbers, so that the others are slips
HEAD = 1_000  # cells by which most columns of words are told


@dataclass(frozen=True)
class Marks:
    """How a file writes numbers.

    Args:
        decimal_commas: whether "1,5" is a number, as well as "1.5".
        thousands: what may stand between thousands: a comma, a point, or "" for nothing. A column that has a
            cell with both marks is read by what that shows.
    """

    decimal_commas: bool = False
    thousands: str = ","


PLAIN, COMMAS = Marks(thousands=""), Marks(decimal_commas=True, thousands="")
GERMAN, ENGLISH = Marks(decimal_commas=True, thousands="."), Marks()


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column of float64, or of int64, and in words what was taken as missing or as a mark of thousands."""

    column: Any
    said: tuple[str, ...] = ()


def looks_like_numbers(cells: Iterable[str]) -> bool:
    """Whether the cells that are not empty, at least one, are numbers.

    >>> looks_like_numbers(["1.5", "", "-2e3"]), looks_like_numbers(["01234"]), looks_like_numbers([""])
    (True, False, False)
    """
    filled = [cell for cell in cells if cell]
    return bool(filled) and all(NUMBER.fullmatch(cell.strip()) for cell in filled)


def as_numbers(column: Any, marks: Marks = PLAIN) -> Numbers | None:
    """A column of strings as float64, or None if it is something else.

    Words such as NA and ? stand for missing numbers where all other cells are numbers. A cell with marks
    between thousands is one where all cells of the column that hold the mark hold it so.
    """
    head = column.slice(0, HEAD)
    if _holds_words(head, _is_number(_plain(head, marks)[0])):
        return None
    plain, said = _plain(column, marks)
    is_number = _is_number(plain)
    if not pc.any(is_number).as_py() or _holds_words(column, is_number):
        return None
    words = pc.filter(column, pc.invert(is_number)).drop_null()
    counts = {item["values"]: item["counts"] for item in pc.value_counts(words).to_pylist()}
    if counts:
        cells = counted(sum(counts.values()), "cell")
        said = (f"{listed(list(counts))} ({cells}) taken as missing numbers", *said)
    return Numbers(pc.if_else(is_number, plain, pa.scalar(None, column.type)).cast(pa.float64()), said)


def marks_of(columns: Sequence[Any], *, comma_is_free: bool) -> Marks:
    """How the numbers in the columns of strings of a file are written, which all of them tell together.

    Args:
        columns: those that may hold numbers.
        comma_is_free: whether no comma parts fields, so that one can part fractions.
    """
    unread = [column for column in columns if as_numbers(column, PLAIN if comma_is_free else ENGLISH) is None]
    told = any(_shown(column) == GERMAN for column in columns)
    if not told and not any(as_numbers(column, COMMAS) for column in unread):
        return ENGLISH
    if not comma_is_free:
        return PLAIN  # here "1,250" may be one and a quarter
    return COMMAS if any(map(_holds_fractions, columns)) else GERMAN


def as_row_names(column: Any, marks: Marks = PLAIN) -> Numbers | None:
    """The same for a column that may hold ids: integers stay whole, and strings where 64 bits are too few.

    A float64 merges neighbouring integers over 2^53, and ids that are numbers are often larger.
    """
    whole = pc.match_substring_regex(column.drop_null(), "^(?:0|-?[1-9][0-9]*)$")
    if not len(whole) or not pc.all(whole).as_py():
        return as_numbers(column, marks)
    try:
        return Numbers(column.cast(pa.int64()))
    except pa.ArrowInvalid:
        return None


def slips(column: Any) -> str:
    """Why a column of strings that mostly holds numbers does not hold numbers alone, or nothing.

    >>> slips(pa.array(["1", "2", "3", "4 EUR"])), slips(pa.array(["red", "blue", "7"]))
    ("3 of 4 cells are numbers, but row 3 holds '4 EUR'", '')
    """
    if pc.any(pc.match_substring_regex(column, CODE)).as_py():
        return ""
    is_number = _is_number(pc.utf8_trim_whitespace(column))
    numbers, filled = pc.sum(is_number).as_py() or 0, len(column) - column.null_count
    other = pc.fill_null(pc.invert(pc.or_(is_number, _is_missing(column))), False)
    row = pc.index(other, True).as_py()
    if numbers <= MOSTLY * filled or row < 0:
        return ""
    return f"{numbers:,} of {filled:,} cells are numbers, but row {row:,} holds {brief(column[row].as_py())}"


def _holds_words(column: Any, is_number: Any) -> bool:
    """Whether there is a cell that is no number and says nothing of one that is missing."""
    return not pc.all(pc.or_(is_number, _is_missing(column))).as_py()


def _holds_fractions(column: Any) -> bool:
    """Whether it holds numbers, of which one has a point that does not stand before three digits."""
    marked = pc.filter(column, pc.fill_null(pc.match_substring(column, "."), False))
    if not len(marked) or as_numbers(column, COMMAS) is None:
        return False
    return not pc.all(pc.or_(_is_grouped(marked, "."), _is_missing(marked))).as_py()


def _plain(column: Any, marks: Marks) -> tuple[Any, tuple[str, ...]]:
    """Cells as Python writes numbers, where they are some; and what was done with marks between thousands."""
    marks = _shown(column) or marks
    cells, said = _ungrouped(pc.utf8_trim_whitespace(column), marks.thousands)
    if marks.decimal_commas:
        cells = pc.replace_substring_regex(cells, r"^([^,.]*),([^,.]*)$", r"\1.\2")
    return cells, said


def _shown(column: Any) -> Marks | None:
    """How a column is written that has a cell with both marks, such as 1.234,5 or 1,234.5."""
    both = pc.and_(pc.match_substring(column, ","), pc.match_substring(column, "."))
    cells = pc.utf8_trim_whitespace(pc.filter(column, pc.fill_null(both, False)))
    found = (marks for marks in (GERMAN, ENGLISH) if pc.any(_is_grouped(cells, marks.thousands)).as_py())
    return next(found, None)


def _ungrouped(cells: Any, mark: str) -> tuple[Any, tuple[str, ...]]:
    """Cells without marks between thousands, if all that hold the mark hold it there; and what was done."""
    if not mark:
        return cells, ()
    marked = pc.filter(cells, pc.fill_null(pc.match_substring(cells, mark), False))
    grouped = _is_grouped(marked, mark)
    if not pc.any(grouped).as_py() or not pc.all(pc.or_(grouped, _is_missing(marked))).as_py():
        return cells, ()
    first = pc.filter(marked, grouped)[0].as_py()
    plain = pc.if_else(_is_grouped(cells, mark), pc.replace_substring(cells, mark, ""), cells)
    number = first.replace(mark, "").replace(",", ".")
    return plain, (f"{brief(first)} and the like read as {number}",)


def _is_grouped(cells: Any, mark: str) -> Any:
    fraction = "," if mark == "." else "."
    return pc.match_substring_regex(
        cells, rf"^[+-]?[1-9][0-9]{{0,2}}(?:\{mark}[0-9]{{3}})+(?:\{fraction}[0-9]*)?$"
    )


def _is_number(cells: Any) -> Any:
    return pc.match_substring_regex(cells, f"^(?:{_PATTERN})$")


def _is_missing(cells: Any) -> Any:
    """Of every cell, whether it says that there is no number."""
    lower = pc.utf8_lower(pc.utf8_trim_whitespace(cells))
    return pc.is_in(lower, pa.array([*NO_NUMBER, ""], cells.type))
