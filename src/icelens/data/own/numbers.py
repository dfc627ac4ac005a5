"""Numbers that are written as text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icelens.counts import counted
from icelens.data.own.origin import listed

# A zero in front of other digits marks a code, such as a postal code; "1_000" and "0x1f" are Python's alone.
_PATTERN = r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?i:inf(?:inity)?)"
NUMBER = re.compile(_PATTERN)
# What tables write where a number is missing.
NO_NUMBER = ("NA", "N/A", "NaN", "nan", "NULL", "null", "None", "none", "?", "-")


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column of float64, or of int64, and in words what was taken as missing."""

    column: Any
    missing: str


def looks_like_numbers(cells: Iterable[str]) -> bool:
    """Whether the cells that are not empty, at least one, are numbers.

    >>> looks_like_numbers(["1.5", "", "-2e3"]), looks_like_numbers(["01234"]), looks_like_numbers([""])
    (True, False, False)
    """
    filled = [cell for cell in cells if cell]
    return bool(filled) and all(NUMBER.fullmatch(cell.strip()) for cell in filled)


def as_numbers(column: Any, *, decimal_commas: bool = False) -> Numbers | None:
    """A column of strings as float64, or None if it is something else.

    Words such as NA and ? stand for missing numbers where all other cells are numbers. With `decimal_commas`
    "1,5" is a number too.
    """
    trimmed = pc.utf8_trim_whitespace(column)
    if decimal_commas:
        trimmed = pc.replace_substring_regex(trimmed, r"^([^,.]*),([^,.]*)$", r"\1.\2")
    is_number = pc.match_substring_regex(trimmed, f"^(?:{_PATTERN})$")
    if not pc.any(is_number).as_py():
        return None
    words = pc.filter(column, pc.invert(is_number))
    if len(words) > words.null_count and not _all_missing(words):
        return None
    numbers = pc.if_else(is_number, trimmed, pa.scalar(None, column.type)).cast(pa.float64())
    counts = {item["values"]: item["counts"] for item in pc.value_counts(words.drop_null()).to_pylist()}
    return Numbers(
        numbers, f"{listed(list(counts))} ({counted(sum(counts.values()), 'cell')})" if counts else ""
    )


def as_row_names(column: Any, *, decimal_commas: bool = False) -> Numbers | None:
    """The same for a column that may hold ids: integers stay whole, and strings where 64 bits are too few.

    A float64 merges neighbouring integers over 2^53, and ids that are numbers are often larger.
    """
    whole = pc.match_substring_regex(column.drop_null(), "^(?:0|-?[1-9][0-9]*)$")
    if not len(whole) or not pc.all(whole).as_py():
        return as_numbers(column, decimal_commas=decimal_commas)
    try:
        return Numbers(column.cast(pa.int64()), "")
    except pa.ArrowInvalid:
        return None


def _all_missing(words: Any) -> bool:
    return bool(
        pc.all(pc.is_in(pc.utf8_trim_whitespace(words), pa.array([*NO_NUMBER, ""], words.type))).as_py()
    )
