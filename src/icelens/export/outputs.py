"""Places that are written to: never the source, nothing else unasked, and whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from icelens.errors import InputError
from icelens.files import replacing

LOG = ".changes.csv"
# Names of files that mean the same format.
FAMILIES = (
    (".csv",), (".tsv", ".tab"), (".jsonl", ".ndjson"), (".json",), (".parquet", ".pq"), (".arrow",),
    (".feather",), (".npz",),
)  # fmt: skip
SUFFIXES = tuple(suffix for family in FAMILIES for suffix in family)


def log_of(out: Path) -> Path:
    """Where the log of changes to a file or folder lies.

    >>> log_of(Path("a/cleaned.csv.gz")).name, log_of(Path("a/v1.2")).name
    ('cleaned.changes.csv', 'v1.2.changes.csv')
    """
    name = out.name.removesuffix(".gz")
    known = next((suffix for suffix in SUFFIXES if name.lower().endswith(suffix)), "")
    return out.with_name(name[: len(name) - len(known)] + LOG)


def check_apart(out: Path, source: Path) -> None:
    """Raise where writing to `out` would touch the source."""
    real, origin = Path(os.path.realpath(out)), Path(os.path.realpath(source))
    if real == origin or (out.exists() and source.exists() and os.path.samefile(out, source)):
        raise InputError(
            f"{out} is the data that was audited; give another name (--out), it is never overwritten"
        )
    if origin.is_dir() and origin in real.parents:
        raise InputError(f"{out} lies within {source}, the data that was audited; give another place (--out)")
    if real in origin.parents:
        raise InputError(f"{out} holds {source}, the data that was audited; give another place (--out)")


def check_free(out: Path, *, force: bool, ours: bool = True) -> None:
    """Raise where something lies there, unless it may be replaced.

    Args:
        out: the place.
        force: whether the user said so.
        ours: whether a folder that lies there is known to be one that icelens wrote.
    """
    if out.is_dir() and not out.is_symlink():
        if not any(out.iterdir()):
            return
        if force and not ours:
            raise InputError(
                f"{out}: a folder that icelens did not write; remove it yourself, or give another (--out)"
            )
    if os.path.lexists(out) and not force:
        log = f" (the log of changes of {out.name.removesuffix(LOG)})" if out.name.endswith(LOG) else ""
        raise InputError(f"{out}{log} exists; give another name (--out), or replace it (--force)")


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """A folder beside `path` to write into; it takes its place when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    old = path.with_name(f".{path.name}.{os.getpid()}.old")
    shutil.rmtree(part, ignore_errors=True)
    try:
        yield part
        if os.path.lexists(path):
            path.rename(old)
        try:
            part.rename(path)
        except OSError:
            if os.path.lexists(old):
                old.rename(path)
            raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
    if old.is_dir():
        shutil.rmtree(old, ignore_errors=True)
    else:
        old.unlink(missing_ok=True)


@contextmanager
def replacing_either(path: Path, *, folder: bool) -> Iterator[Path]:
    """A place beside `path` to write a file or a folder to, that takes its place at the end."""
    with (replacing_folder if folder else replacing)(path) as part:
        yield part
