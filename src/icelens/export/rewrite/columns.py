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

VIEWS = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}


def relabelled_column(column: Any, changes: Changes, names: Sequence[str] | None, origin: Origin) -> Any:
    """The column with the new labels, all rows still in it.

    A class that some row has is copied from there, so that whatever type the column has, it is kept.

    Args:
        column: the labels of all rows, a pyarrow ChunkedArray.
        changes: what to do.
        names: what the codes in the column stand for, where they are codes.
        origin: what errors start with.
    """
    given, column = column.type, _cast(column, without_views(column.type))
    names = None if names is None else with_names(names, changes)
    values = [_value(name, column.type, names, origin) for name in changes.new_classes]
    place = {name: len(column) + number for number, name in enumerate(changes.new_classes)} | changes.known
    taken = np.arange(len(column))
    for row, name in changes.relabelled.items():
        taken[row] = place[name]
    chunks = [*column.chunks, *([pa.array(values, column.type)] if values else [])]
    whole = pa.chunked_array(chunks, column.type).unify_dictionaries().combine_chunks()
    return _cast(pa.chunked_array([whole.take(pa.array(taken))]), given)


def taken_rows(column: Any, rows: NDArray[np.int64]) -> Any:
    """Some rows of a column, in the type that it has."""
    return _cast(_cast(column, without_views(column.type)).take(pa.array(rows)), column.type)


def _cast(column: Any, kind: Any) -> Any:
    # Some types cannot be cast, not even to themselves.
    return column if column.type == kind else column.cast(kind)


def without_views(kind: Any) -> Any:
    """The type with common strings and bytes where it holds views of them, of which pyarrow takes no rows."""
    if types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, without_views(kind.value_type), kind.ordered)
    if types.is_struct(kind):
        return pa.struct([_plain(field) for field in kind])
    if types.is_map(kind):
        return pa.map_(_plain(kind.key_field), _plain(kind.item_field), kind.keys_sorted)
    if types.is_fixed_size_list(kind):
        return pa.list_(_plain(kind.value_field), kind.list_size)
    if types.is_list(kind) or types.is_large_list(kind):
        return (pa.list_ if types.is_list(kind) else pa.large_list)(_plain(kind.value_field))
    return VIEWS.get(str(kind), kind)


def _plain(field: Any) -> Any:
    return field.with_type(without_views(field.type))


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
    if INTEGER.fullmatch(name) and _holds(kind, int(name)):
        return int(name)
    if types.is_boolean(kind) and name in ("True", "False"):
        return name == "True"
    raise origin.error(f"labels are of type {type_name(kind)}, which class {brief(name)} cannot be")


def _holds(kind: Any, number: int) -> bool:
    """Whether a type has this number: one that it has no room for, or rounds, would be another class."""
    if not (types.is_integer(kind) or types.is_floating(kind)):
        return False
    try:
        return bool(pa.scalar(number, kind).as_py() == number)
    except (pa.ArrowInvalid, OverflowError):
        return False
