"""The connection to review.sqlite: transactions that wait their turn, and errors in plain words."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from icelens.errors import FileError, IcelensError, MissingFileError
from icelens.review.commits import Write, queue_of
from icelens.review.schema import check_version, migrate

PATIENCE = 30.0  # seconds that a write waits for others
PAUSE = 0.001  # seconds between attempts; SQLite's own pauses grow to a tenth of a second
CACHE = 16_000  # KiB of pages that a connection keeps

Result = TypeVar("Result")


class Database:
    """A connection that several threads may use in turn, beside other connections and processes.

    What `write` did is on the disk when it returns, or was not done at all.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise MissingFileError(f"{self.path}: no such file; run icelens review on the audit's folder")
        self._turn, self._queue = threading.RLock(), queue_of(self.path)
        self.connection = sqlite3.connect(
            self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
        )
        try:
            with self._plainly():
                self._set_up()
        except BaseException:
            self.connection.close()
            raise

    def _set_up(self) -> None:
        # Before anything that would write to a file that is not ours.
        current = check_version(self.connection, str(self.path))
        for pragma in (f"cache_size = -{CACHE}", "foreign_keys = ON", "journal_mode = WAL",
                       "synchronous = FULL", "trusted_schema = OFF"):  # fmt: skip
            self.connection.execute(f"PRAGMA {pragma}")
        if not current:
            with self._writing():
                migrate(self.connection)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """All that the block reads is of one moment, whatever is written meanwhile."""
        with self._turn, self._plainly():
            if self.connection.in_transaction:  # within another block of this thread
                yield self.connection
                return
            self.connection.execute("BEGIN")
            try:
                yield self.connection
            finally:
                self.connection.execute("ROLLBACK")

    def write(self, action: Callable[[sqlite3.Connection], Result]) -> Result:
        """Do something within a transaction; an error takes all of it back.

        Other threads may wait with writes of their own: one of them does all in one transaction. So the
        action may run in another thread, on the connection to the same file that it is handed.
        """
        mine = Write(action)
        self._queue.put(mine, self._commit)
        if mine.error is not None:
            with self._plainly():
                raise mine.error
        result: Result = mine.result
        return result

    def _commit(self, writes: list[Write]) -> None:
        try:
            with self._writing():
                for write in writes:
                    write.attempt(self.connection)
        except Exception as error:
            for write in writes:
                write.error = error
        except BaseException:  # the user stopped the thread that wrote for all
            for write in writes:
                write.error = FileError(f"{self.path}: stopped before it was written")
            raise

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One writer at a time, of all processes."""
        with self._turn, self._plainly():
            self._begin()
            try:
                yield
                self.connection.execute("COMMIT")
            except BaseException:
                # SQLite has rolled back by itself after some errors, such as a full disk.
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    def _begin(self) -> None:
        until = time.monotonic() + PATIENCE
        self.connection.execute("PRAGMA busy_timeout = 0")
        try:
            while True:
                try:
                    self.connection.execute("BEGIN IMMEDIATE")
                    return
                except sqlite3.OperationalError as error:
                    if not _is_busy(error) or time.monotonic() > until:
                        raise
                time.sleep(PAUSE * (0.5 + random.random()))
        finally:
            self.connection.execute(f"PRAGMA busy_timeout = {int(1000 * PATIENCE)}")

    @contextmanager
    def _plainly(self) -> Iterator[None]:
        try:
            yield
        except IcelensError:
            raise
        except sqlite3.Error as error:
            raise explained(self.path, error) from error

    def close(self) -> None:
        """Close the connection; a second time does nothing."""
        with self._turn:
            self.connection.close()


def explained(path: Path, error: sqlite3.Error) -> Exception:
    """What went wrong with the file, in terms of what to do."""
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return FileError(f"{path}: damaged ({error}); put back a copy, or remove it to review anew")
    if name.startswith("SQLITE_FULL"):
        return FileError(f"{path}: the disk is full; make room and try again; nothing was written")
    if name.startswith("SQLITE_READONLY"):
        return FileError(f"{path}: cannot be written to; check the rights of the file and of its folder")
    if _is_busy(error):
        return FileError(f"{path}: another program has kept it locked for {PATIENCE:.0f} seconds")
    return FileError(f"{path}: {error}")


def _is_busy(error: Any) -> bool:
    return str(getattr(error, "sqlite_errorname", "")).startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))
