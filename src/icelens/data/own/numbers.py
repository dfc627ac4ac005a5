"""Numbers that are written as text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icelens.counts import counted
from icelens.data.own.origin import brief, listed

# A zero in front of other digits marks a code, such as a postal code; "1_000" and "0x1f" are Python's alone.
_PATTERN = r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?i:inf(?:inity)?)"
NUMBER = re.compile(_PATTERN)
# What tables and Excel write where a number is missing, in lower case.
NO_NUMBER = (
    "na", "n/a", "n.a.", "n/v", "k.a.", "nan", "null", "none", "?", "-", "--", ".", "#n/a", "#n/v", "#nv",
    "#null!", "#div/0!", "#value!", "#wert!", "#ref!", "#bezug!", "#name?", "#num!", "#zahl!",
)  # fmt: skip
MOSTLY = 0.5  # of the cells that are filled: numbers, so that the others are slips


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


def as_numbers(column: Any, *, decimal_commas: bool = False) -> Numbers | None:
    """A column of strings as float64, or None if it is something else.

    Words such as NA and ? stand for missing numbers where all other cells are numbers. "1,234,567.5" is one
    where all commas of the column stand so; with `decimal_commas` that is "1.234.567,5", and "1,5" another.
    """
    plain, grouped = _ungrouped(pc.utf8_trim_whitespace(column), "." if decimal_commas else ",")
    if decimal_commas:
        plain = pc.replace_substring_regex(plain, r"^([^,.]*),([^,.]*)$", r"\1.\2")
    is_number = _is_number(plain)
    if not pc.any(is_number).as_py():
        return None
    words = pc.filter(column, pc.invert(is_number))
    if len(words) > words.null_count and not pc.all(_is_missing(words)).as_py():
        return None
    numbers = pc.if_else(is_number, plain, pa.scalar(None, column.type)).cast(pa.float64())
    counts = {item["values"]: item["counts"] for item in pc.value_counts(words.drop_null()).to_pylist()}
    missing = f"{listed(list(counts))} ({counted(sum(counts.values()), 'cell')}) taken as missing numbers"
    return Numbers(numbers, ((missing,) if counts else ()) + grouped)


def uses_decimal_commas(column: Any) -> bool:
    """Whether a column of strings holds numbers only if commas part their fractions."""
    return as_numbers(column) is None and as_numbers(column, decimal_commas=True) is not None


def as_row_names(column: Any, *, decimal_commas: bool = False) -> Numbers | None:
    """The same for a column that may hold ids: integers stay whole, and strings where 64 bits are too few.

    A float64 merges neighbouring integers over 2^53, and ids that are numbers are often larger.
    """
    whole = pc.match_substring_regex(column.drop_null(), "^(?:0|-?[1-9][0-9]*)$")
    if not len(whole) or not pc.all(whole).as_py():
        return as_numbers(column, decimal_commas=decimal_commas)
    try:
        return Numbers(column.cast(pa.int64()))
    except pa.ArrowInvalid:
        return None


def slips(column: Any) -> str:
    """Why a column of strings that mostly holds numbers does not hold numbers alone, or nothing.

    >>> slips(pa.array(["1", "2", "3", "4 EUR"])), slips(pa.array(["red", "blue", "7"]))
    ("3 of 4 cells are numbers, but row 3 holds '4 EUR'", '')
    """
    trimmed = pc.utf8_trim_whitespace(column)
    is_number, other = _is_number(trimmed), pc.invert(pc.or_(_is_number(trimmed), _is_missing(column)))
    numbers, filled = pc.sum(is_number).as_py() or 0, len(column) - column.null_count
    if numbers <= MOSTLY * filled or not pc.any(other).as_py():
        return ""
    row = pc.index(pc.fill_null(other, False), True).as_py()
    return f"{numbers:,} of {filled:,} cells are numbers, but row {row:,} holds {brief(column[row].as_py())}"


def _ungrouped(cells: Any, mark: str) -> tuple[Any, tuple[str, ...]]:
    """Cells without marks between thousands, if all that hold the mark hold it there; and what was done."""
    fraction = "," if mark == "." else "."
    pattern = rf"^[+-]?[1-9][0-9]{{0,2}}(?:\{mark}[0-9]{{3}})+(?:\{fraction}[0-9]*)?$"
    marked = pc.filter(cells, pc.fill_null(pc.match_substring(cells, mark), False))
    is_grouped = pc.match_substring_regex(marked, pattern)
    if not len(marked) or not pc.all(pc.or_(is_grouped, _is_missing(marked))).as_py():
        return cells, ()
    first = pc.filter(marked, is_grouped)
    if not len(first):
        return cells, ()
    plain = pc.if_else(pc.match_substring_regex(cells, pattern), pc.replace_substring(cells, mark, ""), cells)
    said = f"{brief(first[0].as_py())} and the like read as {first[0].as_py().replace(mark, '')}"
    return plain, (said,)


def _is_number(cells: Any) -> Any:
    return pc.match_substring_regex(cells, f"^(?:{_PATTERN})$")


def _is_missing(cells: Any) -> Any:
    """Of every cell, whether it says that there is no number."""
    lower = pc.utf8_lower(pc.utf8_trim_whitespace(cells))
    return pc.is_in(lower, pa.array([*NO_NUMBER, ""], cells.type))
