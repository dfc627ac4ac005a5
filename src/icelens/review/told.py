"""How far a review has come, in words, without counting anew after every verdict."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

from icelens.auditing.report.words import count
from icelens.counts import counted
from icelens.review.filters import Filters
from icelens.review.records import Progress, Verdict
from icelens.review.store import Store

FIRST = 500  # suspects that a review is told about
STALE = 20.0  # seconds after which what other programs may have written is read again


def sentence(progress: Progress, left: float, first: int) -> str:
    """What was done and what is left, as a person says it.

    >>> sentence(Progress(9000, 24, 90, 6, 0, 400.0), 275.2, 500)
    '120 reviewed, 96 were wrong, about 275 left in the first 500.'
    """
    where = f"in the first {count(first)}" if first < progress.total else f"in all {count(first)}"
    if not progress.reviewed:
        return f"About {counted(round(left), 'wrong label')} {where}; none reviewed yet."
    wrong = "1 was wrong" if progress.wrong == 1 else f"{count(progress.wrong)} were wrong"
    unsure = f", {count(progress.unsure)} unsure" if progress.unsure else ""
    return f"{count(progress.reviewed)} reviewed, {wrong}{unsure}, about {count(left)} left {where}."


@dataclass
class Head:
    """The first examples of the list: how likely each is wrong, and which of them are still open."""

    doubt: dict[int, float] = field(default_factory=dict)
    is_open: dict[int, bool] = field(default_factory=dict)
    order: int = -1
    read_at: float = -1e9

    @property
    def left(self) -> float:
        """How many errors are to be expected among the open ones."""
        return sum(doubt for index, doubt in self.doubt.items() if self.is_open[index])

    @property
    def share(self) -> float:
        """How much of it is reviewed."""
        return 1 - sum(self.is_open.values()) / len(self.is_open) if self.is_open else 0.0


class Teller:
    """Tells the progress of a review; several threads may ask."""

    def __init__(self) -> None:
        self._head, self._lock = Head(), threading.Lock()
        self.worth, self.enough = "", False
        self.taught = 0  # verdicts that `worth` knows of

    def told(self, store: Store) -> dict[str, Any]:
        """What a page says when it is opened."""
        if self._head.order != store.order_version or time.monotonic() - self._head.read_at > STALE:
            self.look(store)
        return self._told(store)

    def told_after(self, store: Store, index: int, verdict: Verdict | None) -> dict[str, Any]:
        """What it says after an example got or lost its verdict; the list is not read for it."""
        with self._lock:
            if index in self._head.is_open:
                self._head.is_open[index] = verdict is None
        return self._told(store)

    def look(self, store: Store) -> None:
        """Read the head of the list, as it is after verdicts or other programs changed it."""
        order, now = store.order_version, time.monotonic()
        first = store.page(Filters(), limit=min(FIRST, len(store)))
        doubt = {one.index: 1 - one.trust for one in first}
        is_open = {one.index: one.verdict is None for one in first}
        with self._lock:
            self._head = Head(doubt, is_open, order, now)

    def _told(self, store: Store) -> dict[str, Any]:
        progress = store.progress()
        with self._lock:
            left, first, share = self._head.left, len(self._head.doubt), self._head.share
        return {"sentence": sentence(progress, left, first), "share": round(share, 4),
                "worth": self._worth(progress.reviewed), "enough": self.enough,
                "total": progress.total}  # fmt: skip

    def _worth(self, reviewed: int) -> str:
        """What to expect, and of when: it is counted after every few verdicts alone."""
        since = reviewed - self.taught
        if not self.worth or since <= 0:
            return self.worth
        before = "Before the last verdict" if since == 1 else f"Before the last {count(since)} verdicts"
        return f"{before}: {self.worth[0].lower()}{self.worth[1:]}"
