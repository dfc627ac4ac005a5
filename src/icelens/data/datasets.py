"""What to do with the name of a known data set: load it from files, or get the files."""

from __future__ import annotations

from pathlib import Path

from icelens.data.archive import is_archive, unpack
from icelens.data.catalog import DATASETS
from icelens.data.download import fetch, mirrored
from icelens.data.examples import Split
from icelens.data.source import Remote, Source
from icelens.errors import IcelensError, InputError, MissingFileError, unknown


def load(name: str, root: Path | str) -> Split:
    """Read a data set by its name from the files under a root folder; nothing is downloaded.

    Args:
        name: a key of `DATASETS`.
        root: the folder that holds `mnist`, `cifar-10-batches-bin`, `glue` and so on.
    """
    source, root = find(name), Path(root)
    layout = source.layout(root)
    if layout is None:
        fetch_it = f"run `icelens data get {name} --root {root}`, or " if source.remotes else ""
        hint = f"{fetch_it}see {source.home}"
        raise MissingFileError(f"{source.first_missing(root)}: no such file; {hint}")
    return layout.read(root / layout.folder)


def get(name: str, root: Path | str, *, mirror: str | None = None) -> dict[Path, str]:
    """Download a data set into a root folder, unless it is complete there.

    Args:
        name: a key of `DATASETS`.
        root: the folder to put it in; made where it is missing.
        mirror: takes the place of the scheme and host of every address, "https://mirror.example/data".

    Returns:
        Where each file or folder that was fetched now is, and its checksum; empty if all was there.
    """
    source, root = find(name), Path(root)
    if source.layout(root):
        return {}
    if not source.remotes:
        raise InputError(f"{name} is not fetched by icelens: see {source.home}, then docs/data.md")
    try:
        return dict(_get_one(remote, root, mirror) for remote in source.remotes)
    except IcelensError:
        raise
    except OSError as error:  # no permission, a full disk, a file where a folder should be
        raise InputError(f"cannot write under {root}: {error}") from None


def find(name: str) -> Source:
    """The source of a name, or an error with the nearest name."""
    if name not in DATASETS:
        raise unknown("data set", name, DATASETS)
    return DATASETS[name]


def _get_one(remote: Remote, root: Path, mirror: str | None) -> tuple[Path, str]:
    folder, file = root / remote.folder, remote.url.rsplit("/", 1)[-1]
    place = folder.parent if is_archive(file) else folder
    checksum = fetch(mirrored(remote.url, mirror), place / file, remote.checksum, size=remote.size)
    if not is_archive(file):
        return place / file, checksum
    unpack(place / file, folder)
    (place / file).unlink()
    return folder, checksum
