"""Where the image files of a data set lie, and that nothing outside of it is read."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from icelens.errors import FileError, MissingFileError


def root_of(paths: Sequence[Path]) -> Path:
    """The deepest folder that all of these files are in."""
    folders = {os.path.dirname(os.path.abspath(path)) for path in paths}
    return Path(os.path.commonpath(folders))


def root_record(root: Path, folder: Path) -> dict[str, str]:
    """What is kept of the root: where it lies, and where it lies seen from the audit's folder."""
    try:
        relative = os.path.relpath(root, folder.resolve())
    except ValueError:  # on another drive
        relative = ""
    return {"data_root": str(root), "data_root_relative": relative}


def moved_root(about: Mapping[str, str], folder: Path) -> Path | None:
    """The root where it was or, if data and audit were moved together, where it is now."""
    if not about.get("data_root"):
        return None
    root, relative = Path(about["data_root"]), about.get("data_root_relative", "")
    moved = Path(os.path.normpath(folder.resolve() / relative))
    return moved if relative and not root.is_dir() and moved.is_dir() else root


def image_below(root: Path | None, path: str) -> Path:
    """The file of an image; one that a link leads out of the data's folder is refused."""
    if root is None:
        raise FileError(f"{path}: the store names no folder of images; remove it to have it built anew")
    file, home = (root / path).resolve(), root.resolve()
    if not file.is_relative_to(home):
        raise FileError(f"{root / path}: leads out of {root}; images are shown from there alone")
    if not file.is_file():
        raise MissingFileError(f"{root / path}: no such file; was the data moved?")
    return file
