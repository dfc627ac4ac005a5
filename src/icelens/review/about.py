"""What a store says of the whole: the data set, its classes, how contents are to be read."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from icelens.errors import FileError
from icelens.review.root import moved_root


@dataclass(frozen=True)
class About:
    """Nothing of it changes once the store is built, but `root` when image files were moved.

    Args:
        name: of the data set.
        kind: "text", "image" or "table".
        examples: how many.
        issues: how many of them the audit lists.
        fingerprint: of the data, as `recipe.json` has it.
        columns: names of the values of a table row.
        classes: the name of class 0, 1, ...
        root: the folder that image files lie below.
    """

    name: str
    kind: str
    examples: int
    issues: int
    fingerprint: str
    columns: tuple[str, ...]
    classes: tuple[str, ...]
    root: Path | None

    @cached_property
    def codes(self) -> dict[str, int]:
        """The code of each class."""
        return {name: code for code, name in enumerate(self.classes)}


def read_about(connection: sqlite3.Connection, path: Path) -> About:
    """What the file at this path says of itself."""
    said = dict(connection.execute("SELECT name, value FROM about"))
    names = connection.execute("SELECT name FROM classes ORDER BY code")
    try:
        return About(
            said["name"],
            said["kind"],
            int(said["examples"]),
            int(said["issues"]),
            said["fingerprint"],
            tuple(json.loads(said["columns"])),
            tuple(name for (name,) in names),
            moved_root(said, path.parent),
        )
    except (KeyError, ValueError):
        raise FileError(f"{path}: not a store of reviews; remove it to have it built anew") from None
