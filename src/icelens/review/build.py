"""From the folder of an audit and its data to review.sqlite."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from icelens import progress
from icelens.files import replacing
from icelens.review.audited import COLUMNS, Audited, Beside, read_audited, read_beside
from icelens.review.contents import Contents, Kept, contents_of
from icelens.review.database import explained
from icelens.review.moved import move_images
from icelens.review.root import root_record
from icelens.review.schema import migrate
from icelens.review.search import facets_of, spaced
from icelens.review.store import NAME

if TYPE_CHECKING:
    from icelens.data.labelled import Labelled

CHUNK = 5000  # examples at a time
INDEX_MEMORY = 32 << 20  # bytes of words that are gathered before they are written

Rows = NDArray[np.int64]


class _ThereAlreadyError(Exception):
    """Another program was faster."""


def build_from_source(folder: str | Path, data: str | Path | None = None) -> Path:
    """Build the store of an audit from the file or folder that was audited.

    Args:
        folder: of the audit.
        data: where the data lies, if it was moved; a store that is there already is told so.
    """
    from icelens.auditing.source import no_audit, source_data

    if not (Path(folder) / "audit.json").exists():
        raise no_audit(folder)
    path = Path(folder) / NAME
    if not path.exists():
        return build_store(folder, source_data(folder, data))
    if data is not None:
        move_images(folder, source_data(folder, data))
    return path


def build_store(folder: str | Path, data: Labelled) -> Path:
    """Build the store of an audit, whole or not at all; one that is there already is left as it is.

    Args:
        folder: of a finished audit.
        data: what was audited.
    """
    folder = Path(folder)
    path = folder / NAME
    if path.exists():
        return path
    audited, beside = read_audited(folder, data), read_beside(folder)
    try:
        with replacing(path) as part:
            part.unlink(missing_ok=True)  # of a program of the same number that was killed
            _write(part, folder, data, audited, beside)
            if path.exists():
                raise _ThereAlreadyError  # and may hold verdicts by now
            for left in (f"{path}-wal", f"{path}-shm"):  # of a store that was removed: not of this one
                Path(left).unlink(missing_ok=True)
    except _ThereAlreadyError:
        return path
    except sqlite3.Error as error:
        raise explained(path, error) from error
    return path


def _write(part: Path, folder: Path, data: Labelled, audited: Audited, beside: Beside) -> None:
    """Fill a new file, and see it on the disk."""
    contents = contents_of(data, audited.order, beside.near)
    with closing(sqlite3.connect(part, isolation_level=None)) as connection:
        # Nobody reads this file before it is whole, so it needs no journal.
        for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -65536"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("BEGIN IMMEDIATE")
        migrate(connection)
        later = _without_indices(connection)
        _fill_about(connection, _about(folder, data, audited, contents), data.classes)
        _fill_tallies(connection, audited)
        _fill_examples(connection, audited, contents)
        _fill_evidence(connection, audited, beside)
        for statement in later:
            connection.execute(statement)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
    with part.open("rb") as file:
        os.fsync(file.fileno())


def _without_indices(connection: sqlite3.Connection) -> list[str]:
    """Remove the indices of examples and return how to make them: at once, from all rows, is far faster."""
    query = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'examples'"
    indices = connection.execute(query).fetchall()
    for name, _ in indices:
        connection.execute(f"DROP INDEX {name}")
    return [statement for _, statement in indices]


def _about(folder: Path, data: Labelled, audited: Audited, contents: Contents) -> dict[str, str]:
    return {
        "name": data.name,
        "kind": data.kind,
        "examples": str(len(data)),
        "issues": str(int(audited.is_issue.sum())),
        "columns": json.dumps(contents.columns),
        "fingerprint": audited.fingerprint,
        **({} if contents.root is None else root_record(contents.root, folder)),
    }


def _fill_about(connection: sqlite3.Connection, about: dict[str, str], classes: tuple[str, ...]) -> None:
    connection.executemany("INSERT INTO about (name, value) VALUES (?, ?)", about.items())
    connection.executemany("INSERT INTO classes (code, name) VALUES (?, ?)", enumerate(classes))


def _fill_tallies(connection: sqlite3.Connection, audited: Audited) -> None:
    first, count, doubt, _ = audited.tallies
    columns = (audited.label[first], audited.guess[first], _kinds(audited, first), audited.is_issue[first])
    rows = zip(range(len(first)), *_lists(*columns, count, doubt), strict=True)
    connection.executemany(
        "INSERT INTO tallies (number, label, guess, kind, is_issue, examples, doubt) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        rows,
    )


def _fill_examples(connection: sqlite3.Connection, audited: Audited, contents: Contents) -> None:
    connection.execute(f"INSERT INTO search (search, rank) VALUES ('hashsize', {INDEX_MEMORY})")
    total = len(audited.order)
    with progress.bar("preparing the review", total) as advance:
        for start in range(0, total, CHUNK):
            rows = audited.order[start : start + CHUNK]
            _fill_chunk(connection, audited, contents, start, rows)
            advance(len(rows))
    connection.execute("INSERT INTO search (search) VALUES ('optimize')")


def _fill_chunk(
    connection: sqlite3.Connection, audited: Audited, contents: Contents, start: int, rows: Rows
) -> None:
    places = range(start, start + len(rows))
    ids = [_name(value) for value in audited.ids.take(rows).to_pylist()]
    connection.executemany(
        'INSERT INTO examples (place, "index", id, label, guess, trust, confidence, p_label, p_guess, kind, '
        "is_issue, tally) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        zip(places, rows.tolist(), ids, *_columns(audited, rows), strict=True),
    )
    words: list[str] = []
    connection.executemany(
        "INSERT INTO contents (place, shown, path, image) VALUES (?, ?, ?, ?)",
        _kept(places, contents.take(rows), words),
    )
    connection.executemany(
        "INSERT INTO search (rowid, words, facets) VALUES (?, ?, ?)",
        zip(places, map(_searched, ids, words), _facets(audited, rows), strict=True),
    )


def _kept(places: range, contents: Iterator[Kept], words: list[str]) -> Iterator[tuple[Any, ...]]:
    """Rows of contents, one at a time, as images are large; their words are put by."""
    for place, one in zip(places, contents, strict=True):
        words.append(one.words)
        yield place, one.shown, one.path, one.image


def _searched(name: str, words: str) -> str:
    return spaced(f"{name} \n {words}")


def _columns(audited: Audited, rows: Rows) -> list[list[Any]]:
    numbers = (audited.numbers[name][rows] for name in COLUMNS)  # SQLite keeps NaN as NULL
    return _lists(
        audited.label[rows], audited.guess[rows], audited.trust[rows], *numbers, _kinds(audited, rows),
        audited.is_issue[rows].astype(int), audited.tallies[3][rows],
    )  # fmt: skip


def _facets(audited: Audited, rows: Rows) -> list[str]:
    """Of each row its facets; all of a tally have the same."""
    known: dict[int, str] = {}
    for number, row in zip(audited.tallies[3][rows].tolist(), rows.tolist(), strict=True):
        if number not in known:
            known[number] = " ".join(facets_of(_static(audited, row)))
    return [known[number] for number in audited.tallies[3][rows].tolist()]


def _static(audited: Audited, row: int) -> dict[str, Any]:
    """What a row is filtered by."""
    return {
        "label": audited.label[row],
        "guess": audited.guess[row],
        "kind": audited.kinds[audited.kind[row]],
        "is_issue": audited.is_issue[row],
    }


def _kinds(audited: Audited, rows: Rows) -> NDArray[np.object_]:
    return audited.kinds[audited.kind[rows]]


def _fill_evidence(connection: sqlite3.Connection, audited: Audited, beside: Beside) -> None:
    place = np.empty(len(audited.order), np.int64)
    place[audited.order] = np.arange(len(audited.order))
    columns = (beside.top, beside.top_p.astype(np.float64).round(6), beside.near_label, beside.near_guess)
    rows = zip(place[beside.rows].tolist(), *_lists(*columns), strict=True)
    connection.executemany(
        "INSERT INTO evidence (place, top, near_label, near_guess) VALUES (?, ?, ?, ?)",
        ((at, _top(*top), _near(one), _near(other)) for at, *top, one, other in rows),
    )


def _top(classes: list[int], p: list[float]) -> str:
    return json.dumps([pair for pair in zip(classes, p, strict=True) if pair[0] >= 0])


def _near(rows: list[int]) -> str:
    return json.dumps([row for row in rows if row >= 0])


def _name(value: Any) -> str:
    return str(value).encode("utf-8", "replace").decode()


def _lists(*columns: NDArray[Any]) -> list[list[Any]]:
    return [column.tolist() for column in columns]
