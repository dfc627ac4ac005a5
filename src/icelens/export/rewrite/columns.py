"""A column of labels as Arrow holds it, with the changes in it, in the type that it had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from icelens.data.own.labels import INTEGER
from icelens.data.own.origin import Origin, brief
from icelens.data.own.table import is_string, type_name
from icelens.export.changes import Changes


def relabelled_column(column: Any, changes: Changes, names: Sequence[str] | None, origin: Origin) -> Any:
    """The column with the new labels, all rows still in it.

    A class that some row has is copied from there, so that whatever type the column has, it is kept.

    Args:
        column: the labels of all rows, a pyarrow ChunkedArray.
        changes: what to do.
        names: what the codes in the column stand for, where they are codes.
        origin: what errors start with.
    """
    names = None if names is None else with_names(names, changes)
    values = [_value(name, column.type, names, origin) for name in changes.new_classes]
    place = {name: len(column) + number for number, name in enumerate(changes.new_classes)} | changes.known
    taken = np.arange(len(column))
    for row, name in changes.relabelled.items():
        taken[row] = place[name]
    chunks = [*column.chunks, *([pa.array(values, column.type)] if values else [])]
    whole = pa.chunked_array(chunks, column.type).unify_dictionaries().combine_chunks()
    return pa.chunked_array([whole.take(pa.array(taken))])


def kept_rows(gone: NDArray[np.int64], first: int, count: int) -> NDArray[np.int64]:
    """Which of `count` rows from the `first` on are not `gone`, a sorted array; counted from the first."""
    start, stop = np.searchsorted(gone, (first, first + count))
    return np.delete(np.arange(count), gone[start:stop] - first)


def gone_rows(changes: Changes) -> NDArray[np.int64]:
    """The rows that are left out, sorted."""
    return np.array(sorted(changes.dropped), dtype=np.int64)


def with_names(names: Sequence[str], changes: Changes) -> list[str]:
    """The names that codes stand for, with the classes that came with the review at their end."""
    return [*names, *(name for name in changes.new_classes if name not in names)]


def _value(name: str, kind: Any, names: Sequence[str] | None, origin: Origin) -> Any:
    """A class that no row has, as a value of the column's type."""
    kind = kind.value_type if types.is_dictionary(kind) else kind
    if is_string(kind):
        return name
    if names is not None:
        return list(names).index(name)
    if types.is_integer(kind) and INTEGER.fullmatch(name):
        return int(name)
    if types.is_floating(kind) and INTEGER.fullmatch(name):
        return float(name)
    if types.is_boolean(kind) and name in ("True", "False"):
        return name == "True"
    raise origin.error(f"labels are of type {type_name(kind)}, which class {brief(name)} cannot be")
