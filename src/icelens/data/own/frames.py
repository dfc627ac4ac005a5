"""A table that stands in for a DataFrame: its columns are read as what they were in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from icelens.data.labelled import Labelled
from icelens.data.own.arrowfiles import is_saved
from icelens.data.own.asked import Asked
from icelens.data.own.assemble import Let
from icelens.data.own.delimited import read_delimited
from icelens.data.own.read import DELIMITED, from_table, read_table, suffix_of
from icelens.data.own.table import Table, is_string, sort_of, strings

NUMBERS, CATEGORIES = "numbers", "categories"


def kinds_of(inputs: Any) -> dict[str, str]:
    """What each column of `Labelled.inputs` is; empty where they are no DataFrame."""
    if not isinstance(inputs, pd.DataFrame):
        return {}
    return {
        str(name): CATEGORIES if isinstance(kind, pd.CategoricalDtype) else NUMBERS
        for name, kind in inputs.dtypes.items()
    }


def holds_table(path: Path) -> bool:
    """Whether rows and columns can be read from there: not from an .npz file or a folder of images."""
    return is_saved(path) if path.is_dir() else path.is_file() and suffix_of(path) != ".npz"


def read_frame(path: Path, kinds: Mapping[str, str], let: Let) -> Labelled:
    """Read a table with the columns of a DataFrame, each of them a feature, and one of labels.

    In memory a column is learned from even where a file's reader would leave it out: a constant, a date, a
    number that is named like an id. And text has no types: there, numbers may be categories,
    and dates words.

    Args:
        path: the file, or a folder that `save_to_disk` made.
        kinds: of each feature, as `kinds_of` has them; a column of vectors is recorded number by number.
        let: what is let through.
    """
    asked = Asked(features=tuple(kinds))
    table = _table(path, asked, kinds)
    names = dict.fromkeys(name if name in table.names else name.rsplit("[", 1)[0] for name in kinds)
    return from_table(_as_in_memory(table, kinds), replace(asked, features=tuple(names)), let)


def _table(path: Path, asked: Asked, kinds: Mapping[str, str]) -> Table:
    suffix = "" if path.is_dir() else suffix_of(path)
    if suffix not in DELIMITED:
        return read_table(path, asked)
    words = {name for name, kind in kinds.items() if kind == CATEGORIES}
    return read_delimited(
        path, DELIMITED[suffix], named=asked.names, exact=lambda names: asked.exact(names) | words
    )


def _as_in_memory(table: Table, kinds: Mapping[str, str]) -> Table:
    columns = table.columns
    for place, name in enumerate(table.names):
        if name in kinds:
            columns = columns.set_column(place, name, _as_kind(table.column(name), kinds[name]))
    return replace(table, columns=columns)


def _as_kind(column: Any, kind: str) -> Any:
    if kind == CATEGORIES and sort_of(column.type) == "number":
        return strings(column)
    return _as_numbers(column) if kind == NUMBERS and is_string(column.type) else column


def _as_numbers(column: Any) -> Any:
    """Words for true and false, and dates, as what they stand for; other words as they are."""
    if set(column.unique().to_pylist()) <= {"True", "False", None}:
        return pc.equal(column, "True")
    for zone in (None, "UTC"):
        try:
            return column.cast(pa.timestamp("us", zone))
        except pa.ArrowInvalid:
            continue
    return column
