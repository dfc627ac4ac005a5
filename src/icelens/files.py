"""Files that are written whole or not at all."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pandas as pd


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A name beside `path` to write to; it takes the place of `path` when the block ends without an error.

    A reader sees the old file or the new one, never a part.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        # Some writers make files that only their owner may read, whatever the user's umask says.
        umask = os.umask(0)
        os.umask(umask)
        part.chmod(0o666 & ~umask)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """A table as CSV, in UTF-8 and six digits.

    Python's `csv` leaves a carriage return without quotes where lines end in a newline alone, and it would be
    read as the end of a row; in a table that holds one all strings are quoted, and numbers with a fraction.
    """
    words = table.select_dtypes(exclude=["number", "bool"])
    returns = any("\r" in str(cell) for name in words for cell in words[name].unique())
    quoting: Literal[0, 2] = csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL
    table.to_csv(path, index=False, float_format="%.6g", encoding="utf-8", quoting=quoting)


def is_leftover(path: Path) -> bool:
    """Whether it is what a killed program left of a file that it was writing."""
    return path.name.startswith(".") and path.name.endswith(".part")
