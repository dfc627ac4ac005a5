"""A folder of images in folders that are named as their classes."""

from __future__ import annotations

import os
from pathlib import Path

from icelens.counts import counted
from icelens.data.own.origin import Origin, brief, listed, reading
from icelens.data.own.profile import SUFFIXES


def class_folders(folder: Path) -> dict[str, list[str]]:
    """The images of each folder one level down, by the folder's name; hidden ones are skipped."""
    with reading(Origin(folder), "a folder that can be read"):
        return {name: _images(folder / name) for name in _visible(folder) if (folder / name).is_dir()}


def read_imagefolder(folder: Path) -> tuple[list[Path], list[str], list[str], tuple[str, ...]]:
    """Paths of the images, the class of each, their paths below the folder, and what was decided.

    Images are in order of class and name. Exactly one level is searched.
    """
    found = class_folders(folder)
    _check_names(folder, found)
    empty = [name for name, images in found.items() if not images]
    beside = len(_images(folder))
    said = [f"folders without images left out: {listed(empty)}"] if empty else []
    said += [f"{counted(beside, 'image')} beside the class folders left out"] if beside else []
    below = sum(_below(folder / name) for name in found)
    said += [f"{counted(below, 'image')} in folders further down left out"] if below else []
    pairs = [(name, image) for name, images in found.items() for image in images]
    paths = [folder / name / image for name, image in pairs]
    ids = [f"{name}/{image}" for name, image in pairs]
    return paths, [name for name, _ in pairs], ids, tuple(said)


def no_known_folder(folder: Path) -> Exception:
    """The error for a folder that holds no data set of a known kind."""
    known = "a folder that is audited holds images in class-named folders, or a data set by `save_to_disk`"
    for name in _visible(folder):
        if (folder / name).is_dir() and any(class_folders(folder / name).values()):
            return Origin(folder).damaged(f"images are one level further down; give {folder / name} itself")
    if _images(folder):
        return Origin(folder).damaged(f"images, but no folders that name their classes; {known}")
    held = listed(_visible(folder), 5) or "nothing"
    return Origin(folder).damaged(f"not a data set; {known}, this one holds {held}")


def _images(folder: Path) -> list[str]:
    return [
        name for name in _visible(folder)
        if name.lower().endswith(SUFFIXES) and (folder / name).is_file()
    ]  # fmt: skip


def _below(folder: Path) -> int:
    """How many images lie in folders of this one, and in theirs."""
    inner = [folder / name for name in _visible(folder) if (folder / name).is_dir()]
    return sum(len(_images(path)) + _below(path) for path in inner)


def _visible(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if not name.startswith("."))


def _check_names(folder: Path, found: dict[str, list[str]]) -> None:
    for name, images in found.items():
        for part in (name, *images):
            if any("\ud800" <= letter <= "\udfff" for letter in part):
                raise Origin(folder).damaged(f"the name {brief(part)} is not UTF-8; rename it")
