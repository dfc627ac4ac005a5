"""What is kept of each example to be shown and searched: texts, values of a table, images or their paths."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from icelens.auditing.report.cells import VALUE, Cell, unusual_cells
from icelens.auditing.report.foreign import one_line, shown
from icelens.auditing.report.words import number
from icelens.errors import FileError
from icelens.review.png import png
from icelens.review.root import root_of

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from icelens.data.labelled import Labelled

LONGEST_TEXT = 20_000  # characters of a text
VALUES = 40  # of a row of a table
FEWEST_MARKED, MARKED = 500, 20_000  # rows whose unusual values are marked, at least and at most
MARKED_VALUES, MEASURED_VALUES = 200_000, 2_000_000  # and of these, shown and looked at
ROOM = 4 << 30  # bytes of images; beyond it only neighbours of suspects are kept, for as much again

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Kept:
    """What is kept of one example, and the words by which it is found."""

    shown: str | None = None
    path: str | None = None
    image: bytes | None = None
    words: str = ""


@dataclass(frozen=True)
class Contents:
    """How to read what is kept: `take` gives it for some rows; `columns` name plain values of a table."""

    take: Callable[[Rows], Iterator[Kept]]
    columns: tuple[str, ...] = ()
    root: Path | None = None


def contents_of(data: Labelled, order: Rows, near: Rows) -> Contents:
    """The contents of a data set, which are to be taken in this order.

    Args:
        data: what was audited.
        order: all rows, the least trusted first.
        near: rows that are shown beside suspects.
    """
    if data.kind == "text":
        return Contents(lambda rows: _texts(data.inputs, rows))
    if data.kind == "table":
        return _tables(data, order)
    if isinstance(data.inputs, list):
        root = root_of(data.inputs)
        return Contents(lambda rows: _paths(data.inputs, rows, root), root=root)
    return Contents(_Images(data.inputs, near))


def _texts(texts: Sequence[tuple[str, ...]], rows: Rows) -> Iterator[Kept]:
    for row in rows.tolist():
        parts, longest = [_readable(text) for text in texts[row]], max(map(len, texts[row]))
        kept = {"texts": parts, "longest": longest} if longest > LONGEST_TEXT else parts
        yield Kept(json.dumps(kept, ensure_ascii=False), words=" \n ".join(parts))


def _readable(text: str) -> str:
    # Most texts are fine as they are, which is much faster told than made sure of.
    return text if len(text) <= LONGEST_TEXT and text.isprintable() else shown(text, LONGEST_TEXT)


def _paths(paths: Sequence[Path], rows: Rows, root: Path) -> Iterator[Kept]:
    start = len(os.path.join(root, ""))
    for row in rows.tolist():
        path = os.path.abspath(paths[row])[start:]
        if any("\ud800" <= letter <= "\udfff" for letter in path):
            raise FileError(f"{root}: the name {path!r} is not UTF-8; rename it")
        yield Kept(path=path)


class _Images:
    """Images that are not files of their own; taken as long as there is room."""

    def __init__(self, images: Any, near: Rows) -> None:
        self.images, self.near, self.room = images, frozenset(near.tolist()), ROOM

    def __call__(self, rows: Rows) -> Iterator[Kept]:
        for row in rows.tolist():
            if self.room < (-ROOM if row in self.near else 0):
                yield Kept()
                continue
            image = self.images[row]
            content = png(image) if isinstance(image, np.ndarray) else image.read()
            self.room -= len(content)
            yield Kept(image=content)


def _tables(data: Labelled, order: Rows) -> Contents:
    table = data.inputs
    width = table.shape[1]
    most = min(MARKED, MARKED_VALUES // min(width, VALUES), MEASURED_VALUES // width)
    suspects = order[: max(most, FEWEST_MARKED)]
    cells = unusual_cells(table, data.labels, suspects.tolist(), most=VALUES)
    marked = dict(zip(suspects.tolist(), map(_cells, cells), strict=True))
    if hasattr(table, "iloc"):
        columns = tuple(one_line(name) for name in table.columns[:VALUES])
        return Contents(lambda rows: _frame(table, rows, marked), columns)
    columns = tuple(f"feature {place}" for place in range(min(width, VALUES)))
    plain = _sparse if hasattr(table, "tocsr") else _dense
    return Contents(lambda rows: _numbers(plain(table, rows), rows, marked), columns)


def _frame(table: pd.DataFrame, rows: Rows, marked: dict[int, str]) -> Iterator[Kept]:
    from pandas.api.types import is_numeric_dtype

    part = table.iloc[rows, :VALUES]
    texts, categories = [], []
    for place in range(part.shape[1]):
        series = part.iloc[:, place]
        if is_numeric_dtype(series.dtype):
            texts.append([number(value) for value in series.to_numpy(float, na_value=np.nan).tolist()])
        else:
            texts.append(_names(series))
            categories.append(texts[-1])
    words = (
        [" \n ".join(names) for names in zip(*categories, strict=True)] if categories else [""] * len(rows)
    )
    for row, values, found in zip(rows.tolist(), zip(*texts, strict=True), words, strict=True):
        yield Kept(marked.get(row) or _json(values), words=found)


def _names(series: pd.Series[Any]) -> list[str]:
    """The values of a column as text; each different one is made readable once."""
    known: dict[Any, str] = {}
    missing = series.isna().to_numpy()
    return [
        "missing" if gone else known.get(value) or known.setdefault(value, one_line(value, VALUE))
        for value, gone in zip(series.tolist(), missing, strict=True)
    ]


def _numbers(plain: Iterator[str], rows: Rows, marked: dict[int, str]) -> Iterator[Kept]:
    for row, values in zip(rows.tolist(), plain, strict=True):
        yield Kept(marked.get(row) or values)


def _dense(table: NDArray[Any], rows: Rows) -> Iterator[str]:
    for values in table[rows, :VALUES].astype(float).tolist():
        yield _json([number(value) for value in values])


def _sparse(table: Any, rows: Rows) -> Iterator[str]:
    """Of each row the first values that are not 0."""
    part = table[rows]
    for start, end in zip(part.indptr[:-1], part.indptr[1:], strict=True):
        held = slice(start, min(end, start + VALUES))
        pairs = zip(part.indices[held].tolist(), part.data[held].tolist(), strict=True)
        yield _cells([Cell(f"feature {place}", number(value), "", "") for place, value in pairs])


def _cells(cells: Sequence[Cell]) -> str:
    return _json([(cell.column, cell.value, cell.usual, cell.mark) for cell in cells])


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
