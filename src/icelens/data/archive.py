"""Unpack a .tar.gz or .zip without letting it write anywhere but into the folder it is meant for."""

from __future__ import annotations

import tarfile
import tempfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from icelens.errors import FileError

# What a damaged archive raises; tarfile's filter errors are TarErrors.
DAMAGED = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, ValueError, NotImplementedError)


def is_archive(name: str) -> bool:
    """Whether a file is unpacked after download; a lone .gz is read as it is.

    >>> is_archive("CoLA.zip"), is_archive("train-images-idx3-ubyte.gz")
    (True, False)
    """
    return name.endswith((".tar.gz", ".tgz", ".zip"))


def unpack(archive: Path, folder: Path) -> None:
    """Put the top-level folder of that name from an archive in its place, complete or not at all.

    Everything is unpacked beside the place first and then renamed. What else the archive holds is
    dropped. Where the folder is there already, its files of the same names are replaced, each whole.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as temporary:
        try:
            _extract(archive, Path(temporary))
        except DAMAGED as error:
            raise FileError(f"{archive}: cannot be unpacked: {error}") from None
        found = Path(temporary) / folder.name
        if not found.is_dir():
            held = ", ".join(sorted(path.name for path in Path(temporary).iterdir())) or "nothing"
            raise FileError(f"{archive}: no folder '{folder.name}' in it; it holds {held}")
        _move(found, folder)


def _extract(archive: Path, into: Path) -> None:
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as content:
            for name in content.namelist():
                _refuse_outside(archive, name)
            content.extractall(into)
    else:
        with tarfile.open(archive) as content:
            # "data" refuses absolute paths, "..", links that lead out, and devices.
            content.extractall(into, filter="data")


def _refuse_outside(archive: Path, name: str) -> None:
    # zipfile would quietly rename such a member; an archive that has one is not what it says it is.
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts:
        raise FileError(f"{archive}: refused, its member '{name}' would be written outside the folder")


def _move(source: Path, target: Path) -> None:
    if source.is_dir() and target.is_dir():
        for child in source.iterdir():
            _move(child, target / child.name)
    elif target.is_dir():
        raise FileError(f"{target}: a folder is in the way of the file to unpack")
    else:
        source.replace(target)
