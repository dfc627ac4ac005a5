"""Image files that were moved after the first review: a store is told where they lie."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from icelens.review.audited import read_audited
from icelens.review.contents import contents_of
from icelens.review.database import Database
from icelens.review.root import root_record
from icelens.review.store import NAME

if TYPE_CHECKING:
    from icelens.data.labelled import Labelled


def move_images(folder: str | Path, data: Labelled) -> None:
    """Let the store of an audit show the image files of this data; its verdicts stay.

    Args:
        folder: of a finished audit that has its store.
        data: what was audited, read from where it lies.
    """
    folder = Path(folder)
    audited = read_audited(folder, data)
    if data.kind != "image":  # all that is shown of the others is kept
        return
    contents = contents_of(data, audited.order, np.empty(0, np.int64))
    if contents.root is None:
        return
    root = root_record(contents.root, folder)
    # The table of the files may have been moved and written anew: then their paths are others below it, too.
    paths = [(one.path, place) for place, one in enumerate(contents.take(audited.order))]

    def change(connection: sqlite3.Connection) -> None:
        connection.executemany("INSERT OR REPLACE INTO about (name, value) VALUES (?, ?)", root.items())
        connection.executemany("UPDATE contents SET path = ? WHERE place = ?", paths)

    with closing(Database(folder / NAME)) as database:
        database.write(change)
