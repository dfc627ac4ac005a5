"""Table: what every reader of rows and columns returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import types

from icelens.data.own.origin import Origin, brief


@dataclass(frozen=True)
class Layout:
    """How a delimited file is written.

    Args:
        delimiter: between fields.
        header: whether the first row holds the names of the columns.
        quoting: whether quotes around a field are no part of it; in some TSV files they are letters.
    """

    delimiter: str
    header: bool
    quoting: bool


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of one file.

    Args:
        columns: a pyarrow Table.
        path: the file or folder it was read from.
        untyped: columns of strings that nobody called strings: cells of a CSV file.
        nameless: columns that have their number for a name, since their file has none for them.
        class_names: for a column of codes the name of code 0, 1, ...
        said: what was decided in reading, a line each.
        layout: of a delimited file.
    """

    columns: Any
    path: Path
    untyped: frozenset[str] = frozenset()
    nameless: frozenset[str] = frozenset()
    class_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    said: tuple[str, ...] = ()
    layout: Layout | None = None

    def __len__(self) -> int:
        return int(self.columns.num_rows)

    @property
    def origin(self) -> Origin:
        """What errors start with."""
        return Origin(self.path)

    @property
    def names(self) -> list[str]:
        """The columns in their order."""
        return list(self.columns.column_names)

    @property
    def folder(self) -> Path:
        """What the paths in a column are relative to."""
        return self.path if self.path.is_dir() else self.path.parent

    def column(self, name: str) -> Any:
        """One column, a pyarrow ChunkedArray."""
        return self.columns.column(name)

    def sort(self, name: str) -> str:
        """What a column holds: number, string, category, vector, image, bytes, date, nothing or other."""
        return sort_of(self.column(name).type)


def sort_of(kind: Any) -> str:
    """What a pyarrow type is to us.

    >>> sort_of(pa.int8()), sort_of(pa.string()), sort_of(pa.list_(pa.float32(), 3)), sort_of(pa.null())
    ('number', 'string', 'vector', 'nothing')
    """
    tests = {
        "number": is_number,
        "string": is_string,
        "category": lambda kind: (
            types.is_dictionary(kind) and (is_string(kind.value_type) or is_number(kind.value_type))
        ),
        "vector": lambda kind: is_list(kind) and is_number(kind.value_type),
        "image": _is_image,
        "bytes": lambda kind: types.is_binary(kind) or types.is_large_binary(kind),
        "date": types.is_temporal,
        "nothing": types.is_null,
    }
    return next((sort for sort, fits in tests.items() if fits(kind)), "other")


def type_name(kind: Any) -> str:
    """A pyarrow type as people may read it: an object with many keys is cut."""
    return brief(kind)[1:-1]


def plain(column: Any) -> Any:
    """The same column; of types that few functions of pyarrow know, as the common type."""
    kind = column.type
    if types.is_decimal(kind):
        return _whole(column) if kind.scale <= 0 else column.cast(pa.float64(), safe=False)
    if types.is_dictionary(kind) and str(kind.value_type) == "string_view":
        return column.cast(pa.dictionary(kind.index_type, pa.large_string()))
    common = {"halffloat": pa.float32(), "string_view": pa.large_string(), "binary_view": pa.large_binary()}
    return column.cast(common[str(kind)]) if str(kind) in common else column


def _whole(column: Any) -> Any:
    """Decimals without a fraction as integers; where 64 bits are too few, as they are: they may be ids."""
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column


def is_string(kind: Any) -> bool:
    """Whether a pyarrow type is one of its three kinds of strings."""
    return str(kind) in ("string", "large_string", "string_view")


def is_number(kind: Any) -> bool:
    """Whether a pyarrow type holds numbers; booleans are 0 and 1."""
    return bool(
        types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)
    )


def is_list(kind: Any) -> bool:
    """Whether each cell of a pyarrow type is a list."""
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_image(kind: Any) -> bool:
    # How Hugging Face's `datasets` stores an image: the file's bytes, or the path to it.
    return bool(types.is_struct(kind)) and {field.name for field in kind} == {"bytes", "path"}


def strings(column: Any) -> Any:
    """A column of strings, categories or others as pyarrow's plain strings."""
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.large_string() if types.is_large_string(column.type) else pa.string())
