"""What the pages are made from: the store, read and written by threads of their own."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from icelens.review.store import Store

READERS, WRITERS = 2, 8

Result = TypeVar("Result")


class Desk:
    """Runs work on the store away from the loop that answers requests.

    Verdicts that come at the same time are written by threads of their own, and so in one commit. Pictures
    are decoded one at a time, which bounds what they take of memory.

    Args:
        folder: of the audit, with its `review.sqlite`.
        who: whose verdicts are stored.
    """

    def __init__(self, folder: Path, who: str) -> None:
        self.folder, self.who = folder, who
        self.store = Store(folder)  # for what never changes
        self.codes = {name: code for code, name in enumerate(self.store.classes)}
        place = f"{folder.resolve()}\0{self.store.fingerprint}".encode("utf-8", "surrogatepass")
        # Another review may later be served at the same address: a page says which one it belongs to.
        self.run = hashlib.sha256(place).hexdigest()[:16]
        self._local, self._opened = threading.local(), [self.store]
        self._pools = {"read": ThreadPoolExecutor(READERS), "write": ThreadPoolExecutor(WRITERS),
                       "picture": ThreadPoolExecutor(1)}  # fmt: skip

    async def read(self, work: Callable[[Store], Result]) -> Result:
        """What the work reads."""
        return await self._in("read", lambda: work(self._own()))

    async def write(self, work: Callable[[Store], Result]) -> Result:
        """What the work returns when all that it wrote is on the disk."""
        return await self._in("write", lambda: work(self._own()))

    async def draw(self, work: Callable[[Store], Result]) -> Result:
        """What is made of a picture."""
        return await self._in("picture", lambda: work(self._own()))

    async def _in(self, pool: str, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._pools[pool], work)

    def _own(self) -> Store:
        if not hasattr(self._local, "store"):
            self._local.store = Store(self.folder)
            self._opened.append(self._local.store)
        own: Store = self._local.store
        return own

    def close(self) -> None:
        """End the threads and close the file."""
        for pool in self._pools.values():
            pool.shutdown(wait=True, cancel_futures=True)
        for store in self._opened:
            store.close()
