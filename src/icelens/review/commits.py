"""Writes of several threads in one commit.

A commit waits for the disk, often some thousandths of a second. Were each writer to wait for those before
it, the eighth would wait eight times as long; together they all wait for one or two commits.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary


@dataclass(eq=False)
class Write:
    """Something to be done within a transaction, and what came of it."""

    action: Callable[[sqlite3.Connection], Any]
    result: Any = None
    error: BaseException | None = None
    done: bool = False

    def attempt(self, connection: sqlite3.Connection) -> None:
        """Do it, or nothing of it, whatever else the transaction holds."""
        connection.execute("SAVEPOINT one")
        try:
            self.result = self.action(connection)
        except Exception as error:
            if not connection.in_transaction:
                raise  # SQLite gave up the whole of it
            connection.execute("ROLLBACK TO one")
            self.error = error
        connection.execute("RELEASE one")


class Queue:
    """The writes to one file that wait in this process; whoever finds nobody at it does all of them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[Write] = deque()
        self._busy = False

    def put(self, mine: Write, commit: Callable[[list[Write]], None]) -> None:
        """Return once a write is done, by this thread or another.

        Args:
            mine: the write.
            commit: does several in one transaction, and says of each what came of it.
        """
        with self._changed:
            self._waiting.append(mine)
            self._changed.wait_for(lambda: mine.done or not self._busy)
            if mine.done:
                return
            self._busy = True
            writes = [self._waiting.popleft() for _ in range(len(self._waiting))]
        try:
            commit(writes)
        finally:
            with self._changed:
                for write in writes:
                    write.done = True
                self._busy = False
                self._changed.notify_all()


_queues: WeakValueDictionary[Path, Queue] = WeakValueDictionary()
_registry = threading.Lock()


def queue_of(path: Path) -> Queue:
    """The queue that all connections of this process to one file share."""
    with _registry:
        return _queues.setdefault(path.resolve(), Queue())
