"""JSON Lines: an object on each line; also a .json file that is one list of objects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from icelens.data.own.origin import Origin, brief, sound
from icelens.data.own.table import Table
from icelens.data.own.textfile import look_through, opened

# Numbers over 4,300 digits are a ValueError that is no JSONDecodeError; deep brackets exhaust the stack.
JSON_ERRORS = (ValueError, RecursionError)


def read_jsonlines(path: Path) -> Table:
    """The objects of a file as rows; a key that an object lacks, and null, are missing cells."""
    if look_through(path).empty:
        raise Origin(path).damaged("empty file, no rows")
    columns: dict[str, list[Any]] = {}
    count = 0
    for count, record in enumerate(_records(path), 1):
        for name, value in record.items():
            column = columns.setdefault(name, [])
            column.extend([None] * (count - 1 - len(column)))
            column.append(value)
    if not columns:
        raise Origin(path).damaged("no rows" if not count else "objects without a single key")
    arrays = {sound(name): _array(column, count) for name, column in columns.items()}
    return Table(pa.table(arrays), path)


def _records(path: Path) -> Iterator[dict[str, Any]]:
    with opened(path) as file:
        if path.name.lower().removesuffix(".gz").endswith(".json") and _starts_a_list(path):
            yield from _list(path, file.read())
            return
        for line, raw in enumerate(file, 1):
            if raw := raw.removeprefix(b"\xef\xbb\xbf").strip():
                yield _object(path, f"line {line:,}", _parse(path, raw, line))


def _starts_a_list(path: Path) -> bool:
    with opened(path) as file:
        return file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"["


def _list(path: Path, raw: bytes) -> Iterator[dict[str, Any]]:
    for row, value in enumerate(_parse(path, raw.removeprefix(b"\xef\xbb\xbf"), 1)):
        yield _object(path, f"row {row:,}", value)


def _parse(path: Path, raw: bytes, line: int) -> Any:
    try:
        return json.loads(raw)
    except JSON_ERRORS as error:
        line += getattr(error, "lineno", 1) - 1
        cause = brief(getattr(error, "msg", "") or error or "nested too deeply")[1:-1]
        raise Origin(path).damaged(f"line {line:,} is not JSON ({cause}); is the file whole?") from None


def _object(path: Path, where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Origin(path).damaged(
            f'{where} is a {type(value).__name__}, expected an object such as {{"text": …, "label": …}}'
        )
    return value


def _array(column: list[Any], rows: int) -> Any:
    """A column of one type, or of strings where the types are mixed."""
    column.extend([None] * (rows - len(column)))
    try:
        return pa.array(column)
    except (pa.ArrowException, UnicodeError, OverflowError):
        return pa.array([value if value is None else _text(value) for value in column], pa.string())


def _text(value: Any) -> str:
    return sound(value) if isinstance(value, str) else json.dumps(value)
