"""The mark that an export leaves in a folder, by which it knows later what it may replace.

Names tell nothing: many people have a folder that holds `images` alone, and a small data set that they saved
by `save_to_disk` has exactly the files of ours.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

MARK = ".icelens"  # hidden: what reads the folder asks for its own files by name


def mark(folder: Path) -> None:
    """Write down that icelens wrote this folder, as it is."""
    (folder / MARK).write_text(_line(folder), encoding="utf-8")


def is_marked(folder: Path) -> bool:
    """Whether icelens wrote this folder, and nothing came, went or changed its size since."""
    path = folder / MARK
    return path.is_file() and path.read_bytes() == _line(folder).encode()


def _line(folder: Path) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name, size in sorted(_sizes(folder).items()):
        digest.update(f"{name}\0{size}\0".encode("utf-8", "surrogatepass"))
    return f"icelens export wrote this folder: {digest.hexdigest()}\n"


def _sizes(folder: Path) -> dict[str, int]:
    """The size of each file by its path below the folder; a folder has none."""
    found: dict[str, int] = {}
    for place, folders, files in os.walk(folder):
        below = os.path.relpath(place, folder)
        found |= {os.path.join(below, name): 0 for name in folders}
        found |= {os.path.join(below, name): os.lstat(os.path.join(place, name)).st_size for name in files}
    found.pop(os.path.join(os.curdir, MARK), None)
    return found
