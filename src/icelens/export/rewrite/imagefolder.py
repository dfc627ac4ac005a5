"""Folders of images: each goes into the folder of its class; the originals are not touched."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from icelens.data.own.imagefolder import read_imagefolder
from icelens.data.own.origin import Origin, brief
from icelens.export.changes import Changes


def rewrite_imagefolder(source: Path, changes: Changes, out: Path, *, link: bool = False) -> int:
    """Copy a folder of images, or link its files, with the changes; returns the number of images.

    Whatever else lies in the folder comes along.
    """
    paths, _, _, _ = read_imagefolder(source)
    for name in changes.new_classes:
        _check_name(name, source)
    moved = {paths[row]: name for row, name in changes.relabelled.items()}
    left_out = {paths[row] for row in changes.dropped}
    put = os.link if link else shutil.copy2

    def copy(old: str, new: str) -> None:
        if Path(old) not in moved and Path(old) not in left_out:
            _put(old, new, put)

    shutil.copytree(source, out, copy_function=copy)
    for path, name in moved.items():
        (out / name).mkdir(exist_ok=True)
        _put(str(path), str(_free(out / name, path)), put)
    return len(paths) - len(left_out)


def _put(old: str, new: str, put: Callable[[str, str], object]) -> None:
    """Copy a file, or link it; a link to nothing, which is no image, comes along as it is."""
    try:
        if os.path.exists(old):
            put(os.path.realpath(old), new)
        else:
            shutil.copy2(old, new, follow_symlinks=False)
    except OSError as error:  # copytree would go on to the last file, and then tell of all that failed
        raise Origin(Path(old)).damaged(f"cannot be copied or linked: {error.strerror or error}") from None


def _free(folder: Path, path: Path) -> Path:
    """A name that no other image of the class has: its own, or with the class it comes from before it."""
    name = path.name
    number = 1
    while os.path.lexists(folder / name):  # a link to nothing too: it would be written through
        name = (
            f"{path.parent.name}_{path.name}" if number == 1 else f"{path.parent.name}_{number}_{path.name}"
        )
        number += 1
    return folder / name


def _check_name(name: str, source: Path) -> None:
    """Raise where a class that a reviewer typed cannot be the name of a folder."""
    parts = {os.sep, os.altsep or os.sep, "\0", "\\"}
    if name.startswith(".") or any(part in name for part in parts) or len(name.encode()) > 200:
        raise Origin(source).error(
            f"class {brief(name)} cannot be the name of a folder; relabel by another name"
        )
