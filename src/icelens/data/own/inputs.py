"""The columns to learn from become texts, images or features; the column of ids becomes ids."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icelens.counts import counted
from icelens.data.own.columns import Inputs
from icelens.data.own.features import build_features
from icelens.data.own.images import StoredImages
from icelens.data.own.origin import Origin, brief
from icelens.data.own.table import Table, sort_of, strings, type_name


def build_inputs(table: Table, inputs: Inputs) -> tuple[Any, tuple[str, ...]]:
    """What `Labelled.inputs` holds, and what was decided."""
    if inputs.kind == "text":
        return _texts(table, inputs.columns)
    if inputs.kind == "image":
        return _images(table, inputs.columns[0]), ()
    return build_features(inputs.columns, table.column, table.origin), ()


def build_ids(column: Any, origin: Origin, what: str) -> NDArray[np.object_]:
    """Ids as strings or integers: one for every row, each once.

    Args:
        column: a pyarrow column.
        origin: what errors start with.
        what: what the column is called in them.
    """
    values = _values(column, origin, what).to_pylist()
    missing = [row for row, value in enumerate(values) if value is None or value == "" or value != value]  # noqa: PLR0124
    if missing:
        raise origin.error(
            f"{what} is empty in {len(missing):,} of {counted(len(values), 'row')}, first in row "
            f"{missing[0]:,}; fill them in, or name others"
        )
    ids = [_id(value) for value in values]
    seen: dict[str | int, int] = {}
    for row, value in enumerate(ids):
        if (first := seen.setdefault(value, row)) != row:
            raise origin.error(
                f"{what} holds {brief(value)} twice, in rows {first:,} and {row:,}; ids must differ"
            )
    return np.array(ids, dtype=object)


def _values(column: Any, origin: Origin, what: str) -> Any:
    sort = sort_of(column.type)
    if sort not in ("string", "number", "category", "date", "bytes", "nothing"):
        raise origin.error(f"{what} holds {type_name(column.type)}; ids are strings or integers")
    return strings(column) if sort in ("category", "date") else column


def _id(value: Any) -> str | int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value.hex() if isinstance(value, bytes) else str(value)


def _texts(table: Table, names: tuple[str, ...]) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    columns, said = [], []
    for name in names:
        if table.sort(name) not in ("string", "category", "nothing"):
            held = type_name(table.column(name).type)
            raise table.origin.error(f"column {brief(name)} holds {held}, not text")
        column = pc.fill_null(strings(table.column(name)), "")
        empty = pc.sum(pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(column)), 0)).as_py()
        if empty == len(column):
            raise table.origin.error(f"text column {brief(name)} is empty in every row")
        said += [f"{counted(empty, 'row')} of {brief(name)} without text"] if empty else []
        columns.append(column.to_pylist())
    return list(zip(*columns, strict=True)), tuple(said)


def _images(table: Table, name: str) -> Any:
    column, sort = table.column(name), table.sort(name)
    if sort == "bytes":
        return StoredImages(column)
    if sort == "image":
        return _stored(table, column)
    if sort not in ("string", "category"):
        raise table.origin.error(
            f"column {brief(name)} holds {type_name(column.type)}; images are paths relative to the table, "
            "or bytes"
        )
    return _paths(table, strings(column).to_pylist())


def _stored(table: Table, column: Any) -> Any:
    """The images of a `datasets` column: bytes, or, where they are not in it, paths."""
    cells = pc.struct_field(column, "bytes")
    if not cells.null_count:
        return StoredImages(cells)
    paths = strings(pc.struct_field(column, "path")).to_pylist()
    if cells.null_count == len(column):
        return _paths(table, paths)
    read = [
        cell if cell is not None else _bytes(table.folder / (path or ""))
        for cell, path in zip(cells.to_pylist(), paths, strict=True)
    ]
    return StoredImages(pa.chunked_array([read], pa.large_binary()))


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if os.path.isfile(path) else b""


def _paths(table: Table, paths: list[str | None]) -> list[Path]:
    return [table.folder / (path or "") for path in paths]
