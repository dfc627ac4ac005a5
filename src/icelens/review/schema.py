"""The schema of review.sqlite, and how an older file is brought up to it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import cache
from importlib import resources

from icelens.errors import FileError

APPLICATION = int.from_bytes(b"icel", "big")  # by which a file is known to be ours


@cache
def migrations() -> tuple[str, ...]:
    """The scripts that lead from an empty file to today's schema, one per version."""
    folder = resources.files("icelens.review") / "migrations"
    scripts = sorted((file.name, file) for file in folder.iterdir() if file.name.endswith(".sql"))
    return tuple(file.read_text(encoding="utf-8") for _, file in scripts)


def version_of(connection: sqlite3.Connection) -> int:
    """How many of the migrations a file has had."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the file up to today's schema, within the transaction that the caller began.

    SQLite's schema and its version are part of the transaction: it is the old file or the new one.
    """
    version = version_of(connection)
    for number, script in enumerate(migrations()[version:], version + 1):
        for statement in statements(script):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {number}")


def check_version(connection: sqlite3.Connection, name: str) -> bool:
    """Whether the file has today's schema; an error where it has a later one, or none at all."""
    version, known = version_of(connection), len(migrations())
    if version == 0 or connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
        raise FileError(f"{name}: not a store of reviews; remove it to have it built anew")
    if version > known:
        raise FileError(
            f"{name}: written by a newer icelens (format {version}, this one knows {known}); update icelens"
        )
    return version == known


def statements(script: str) -> Iterator[str]:
    """The statements of a script one by one: sqlite3's own way to run a script ends the transaction first."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
