"""Verdicts in the file: rows that are added and never changed, and what they come to."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime

from icelens.errors import InputError
from icelens.review.records import Entry, Verdict

JOINERS = "\u200c\u200d"  # that Persian, Hindi and emoji are written with
LONGEST = {"label": 200, "who": 200, "key": 200}  # characters
_COLUMNS = 'v.number, v."index", v.verdict, v.label, v.who, v.at'
_LEFT = "v.verdict != 'undo' AND NOT EXISTS (SELECT 1 FROM verdicts u WHERE u.takes_back = v.number)"


def check_text(name: str, value: object) -> str:
    """A name or key that a client sent: text of a sensible length that a file can hold."""
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST[name]:
        raise InputError(f"{name} must be a text of 1 to {LONGEST[name]} characters, got {value!r:.60}")
    if not all(letter.isprintable() or letter in JOINERS for letter in value):
        raise InputError(f"{name} must be one line of readable characters, got {value!r:.60}")
    return value


def by_key(connection: sqlite3.Connection, key: str) -> tuple[Verdict, int | None] | None:
    """What was written under a client's key, and which verdict it took back, if it is an undo."""
    query = f"SELECT {_COLUMNS}, v.takes_back FROM verdicts v WHERE v.key = ?"
    row = connection.execute(query, (key,)).fetchone()
    return row and (Verdict(*row[:6]), row[6])


def by_number(connection: sqlite3.Connection, number: int) -> Verdict:
    """One verdict."""
    query = f"SELECT {_COLUMNS} FROM verdicts v WHERE v.number = ?"
    return Verdict(*connection.execute(query, (number,)).fetchone())


def add(connection: sqlite3.Connection, index: int, verdict: str, *, label: str | None = None, who: str,
        key: str, takes_back: int | None = None) -> Verdict:  # fmt: skip
    """Write a row; what stands is settled by `settle`."""
    at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    columns = '"index", verdict, label, takes_back, who, at, key'
    values = (index, verdict, label, takes_back, who, at, key)
    cursor = connection.execute(f"INSERT INTO verdicts ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", values)
    return Verdict(cursor.lastrowid or 0, index, verdict, label, who, at)


def standing_by_key(connection: sqlite3.Connection, key: str) -> Verdict | None:
    """The verdict that was written under a client's key, if it was not taken back."""
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM verdicts v WHERE v.key = ? AND {_LEFT}", (key,)
    ).fetchone()
    return row and Verdict(*row)


def newest(
    connection: sqlite3.Connection, *, who: str | None = None, index: int | None = None
) -> Verdict | None:
    """The newest verdict, of a person or of an example, that was not taken back."""
    column, value = ("who", who) if index is None else ('"index"', index)
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM verdicts v WHERE v.{column} = ? AND {_LEFT} ORDER BY v.number DESC LIMIT 1",
        (value,),
    ).fetchone()
    return row and Verdict(*row)


def settle(connection: sqlite3.Connection, index: int, place: int, doubt: float) -> None:
    """Bring what stands of an example, and the tally that it is counted in, up to its rows."""
    query = "SELECT number, verdict FROM standing WHERE place = ?"
    before = connection.execute(query, (place,)).fetchone()
    after = newest(connection, index=index)
    if after is None:
        connection.execute("DELETE FROM standing WHERE place = ?", (place,))
    else:
        row = (place, after.number, after.verdict)
        connection.execute("INSERT OR REPLACE INTO standing (place, number, verdict) VALUES (?, ?, ?)", row)
    changes = [f'"{before[1]}" = "{before[1]}" - 1'] if before else []
    left = (before is not None) - (after is not None)  # 1: open again, -1: open no longer
    if after is not None and not (before and before[1] == after.verdict):
        changes.append(f'"{after.verdict}" = "{after.verdict}" + 1')
    elif after is not None:
        changes = []
    sets = ", ".join([*changes, "doubt = doubt + ?"])
    connection.execute(
        f"UPDATE tallies SET {sets} WHERE number = (SELECT tally FROM examples WHERE place = ?)",
        (left * doubt, place),
    )


def standing(connection: sqlite3.Connection) -> list[Verdict]:
    """The verdict that counts, of each example that has one, by index."""
    query = f'SELECT {_COLUMNS} FROM standing s JOIN verdicts v ON v.number = s.number ORDER BY v."index"'
    return [Verdict(*row) for row in connection.execute(query)]


def history(connection: sqlite3.Connection, index: int | None) -> list[Entry]:
    """All rows of an example, or of all, the oldest first."""
    where, values = ("", ()) if index is None else ('WHERE v."index" = ?', (index,))
    query = f"SELECT {_COLUMNS}, v.takes_back FROM verdicts v {where} ORDER BY v.number"
    return [Entry(*row) for row in connection.execute(query, values)]
