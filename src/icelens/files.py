"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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


def is_leftover(path: Path) -> bool:
    """Whether it is what a killed program left of a file that it was writing."""
    return path.name.startswith(".") and path.name.endswith(".part")
