"""Text files, plain or gzipped: opened as bytes, and checked for what no text may hold."""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from icelens.data.own.origin import Origin, reading
from icelens.errors import FileError

PIECE = 1 << 22
# What people rename: the first bytes of formats that are not text.
NOT_TEXT = {
    b"PK\x03\x04": "a zip archive or Excel file; save the sheet as CSV",
    b"\x1f\x8b": "gzipped; let its name end in .gz",
    b"PAR1": "a Parquet file; let its name end in .parquet",
    b"ARROW1": "an Arrow file; let its name end in .arrow",
    b"\xff\xfe": "UTF-16 text; save the file as UTF-8",
    b"\xfe\xff": "UTF-16 text; save the file as UTF-8",
}


@dataclass(frozen=True)
class Look:
    """What one pass over a text file found."""

    empty: bool
    quotes: bool


def open_bytes(path: Path) -> IO[bytes]:
    """The bytes of a file; a name that ends in .gz is unzipped on the way."""
    return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The same, with errors that name the file."""
    what = "a gzip file" if path.suffix.lower() == ".gz" else "a text file"
    with reading(Origin(path), what, (EOFError, zlib.error)), open_bytes(path) as file:
        yield file


def look_through(path: Path) -> Look:
    """Read a file once in pieces, and raise where it is not UTF-8 text or holds a NUL byte."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    position, lines, start, quotes, blank = 0, 1, b"", False, True
    with opened(path) as file:
        while True:
            piece = file.read(PIECE)
            start = start or piece[:8]
            pending = len(decoder.getstate()[0])
            try:
                decoder.decode(piece, final=not piece)
            except UnicodeDecodeError as error:
                at = error.start - pending
                raise _not_utf8(
                    path, start, position + at, lines + piece[: max(at, 0)].count(b"\n")
                ) from None
            if (nul := piece.find(b"\0")) >= 0:
                raise _nul(path, start, position + nul, lines + piece[:nul].count(b"\n"))
            if not piece:
                return Look(blank, quotes)
            position, lines = position + len(piece), lines + piece.count(b"\n")
            quotes = quotes or b'"' in piece
            blank = blank and not piece.removeprefix(codecs.BOM_UTF8).strip()


def _not_utf8(path: Path, start: bytes, position: int, line: int) -> FileError:
    known = _known(start)
    return Origin(path).damaged(
        f"{known}"
        if known
        else f"not UTF-8 text at byte {position:,} (line {line:,}); save the file as UTF-8"
    )


def _nul(path: Path, start: bytes, position: int, line: int) -> FileError:
    return Origin(path).damaged(
        _known(start)
        or f"a NUL byte at byte {position:,} (line {line:,}), which no text has; save the file as UTF-8 text"
    )


def _known(start: bytes) -> str:
    return next((f"this is {what}" for magic, what in NOT_TEXT.items() if start.startswith(magic)), "")
