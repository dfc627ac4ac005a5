"""Feature columns become a DataFrame of floats and categories, or an array where all are one vector."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types

from icelens.data.own.origin import Origin, brief, listed
from icelens.data.own.profile import constant
from icelens.data.own.table import sort_of, strings, type_name

EXACT = 2.0**24  # a float32 merges neighbouring integers beyond
APART = 2.0**12  # times as large as its numbers lie apart, a column has 4,096 steps left in float32
CHUNK = 1 << 22
FEATURES = ("number", "vector", "date", "string", "category")
ColumnOf = Callable[[str], Any]


def build_features(
    names: Sequence[str], column: ColumnOf, origin: Origin
) -> pd.DataFrame | NDArray[np.float32]:
    """Numbers as floats with NaN where they are missing, strings as categories, vectors as a number each.

    Args:
        names: the columns, in order.
        column: gives the pyarrow column of a name. It is asked for one at a time, so that there is never
            a second copy of them all.
        origin: what errors start with.
    """
    sorts = {name: sort_of(column(name).type) for name in names}
    for name, sort in sorts.items():
        if sort not in FEATURES:
            raise origin.error(
                f"column {brief(name)} holds {type_name(column(name).type)}; features are numbers, strings "
                "or lists of numbers"
            )
    if all(sorts[name] != "vector" and constant(column(name)) for name in names):
        raise origin.error(f"features hold only constants: {listed(names, 5)}")
    if list(sorts.values()) == ["vector"]:
        return _matrix(names[0], column(names[0]), origin)
    parts = (part for name in names for part in _parts(name, column(name), origin))
    # Each column stays where it is: one matrix for all would be a second copy of them.
    return pd.DataFrame({name: _as_float(part) for name, part in parts}, copy=False)


def finite(array: NDArray[Any], origin: Origin, what: str = "") -> NDArray[Any]:
    """The same matrix, or an error that names the first row and column with NaN or an infinite number."""
    step = max(1, CHUNK // max(1, array.shape[1]))
    for start in range(0, len(array), step):
        wrong = ~np.isfinite(array[start : start + step])
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise origin.error(
                f"{what}row {start + row:,}, column {column:,} is {array[start + row, column]}; "
                "every number must be there and finite"
            )
    return array


def _parts(name: str, column: Any, origin: Origin) -> Iterator[tuple[str, Any]]:
    """A column as arrays of numbers, or as categories."""
    sort = sort_of(column.type)
    if sort == "vector":
        matrix = _matrix(name, column, origin)
        yield from ((f"{name}[{place}]", matrix[:, place]) for place in range(matrix.shape[1]))
    elif sort in ("number", "date"):
        yield name, _numbers(name, column, origin)
    else:
        yield name, pd.Categorical(strings(column).dictionary_encode().to_pandas())


def _numbers(name: str, column: Any, origin: Origin) -> NDArray[Any]:
    values: NDArray[Any] = _plain(column).to_numpy()
    if values.dtype.kind == "f" and np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values))[0])
        raise origin.error(f"column {brief(name)}, row {row:,} is {values[row]}; every number must be finite")
    return values


def _plain(column: Any) -> Any:
    """Numbers of any type as integers without gaps, or as floats; dates as seconds."""
    kind = column.type
    if types.is_temporal(kind):
        column = pc.divide(_microseconds(column).cast(pa.float64(), safe=False), 1e6)
    elif types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif types.is_decimal(kind):
        column = column.cast(pa.float64(), safe=False)
    if types.is_integer(column.type) and column.null_count:
        column = column.cast(pa.float64(), safe=False)
    return column


def _microseconds(column: Any) -> Any:
    if types.is_timestamp(column.type) or types.is_date(column.type):
        column = column.cast(pa.timestamp("us"), safe=False)
    elif types.is_time(column.type):
        column = column.cast(pa.time64("us"), safe=False)
    else:
        column = column.cast(pa.duration("us"), safe=False)
    return column.cast(pa.int64())


def _lengths(name: str, column: Any, origin: Origin) -> int:
    """How many numbers each list of a column has; the same everywhere."""
    lengths = pc.list_value_length(column).fill_null(-1).to_numpy()
    odd = np.flatnonzero(lengths != lengths[0])
    if len(odd) or lengths[0] < 1:
        row = int(odd[0]) if len(odd) else 0
        found = "no list" if lengths[row] < 0 else f"{lengths[row]} numbers"
        raise origin.error(
            f"column {brief(name)}, row {row:,} has {found}; every list must be as long as the first"
        )
    return int(lengths[0])


def _matrix(name: str, column: Any, origin: Origin) -> NDArray[np.float32]:
    width = _lengths(name, column, origin)
    # Not `values`, which ignores where a slice of a column begins.
    flat = pa.chunked_array([chunk.flatten() for chunk in column.chunks])
    flat = flat.cast(pa.uint8()) if types.is_boolean(flat.type) else flat
    numbers = flat.cast(pa.float32(), safe=False).to_numpy()
    return finite(numbers.reshape(len(column), width), origin, f"column {brief(name)}, ")


def _as_float(part: Any) -> Any:
    """Numbers as float32, or float64 where that says too little of them; categories as they are."""
    return narrowed(part) if isinstance(part, np.ndarray) else part


def narrowed(numbers: NDArray[Any]) -> NDArray[Any]:
    """As float32, or as float64 where a column lies so far from 0 that float32 would merge its numbers.

    Seconds since 1970 are such: neighbours in float32 are two minutes apart.
    """
    if numbers.dtype == np.float32 or not len(numbers):
        return numbers.astype(np.float32, copy=False)
    least, most = (extreme.reduce(numbers, axis=0).astype(np.float64) for extreme in (np.fmin, np.fmax))
    size = np.maximum(most, -least)
    with np.errstate(invalid="ignore"):  # infinite numbers are told elsewhere
        coarse = (most > least) & (size > np.minimum(EXACT, APART * (most - least)))
    return numbers.astype(np.float64 if coarse.any() else np.float32, copy=False)
