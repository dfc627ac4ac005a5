"""Verdicts teach the ranking: after some of them the rest of the list gets a new order, in a thread."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from icelens.auditing.report.words import count, rate
from icelens.counts import one_or_more
from icelens.errors import IcelensError
from icelens.review.rerank import Evidence, Left, Reranked, read_evidence, rerank
from icelens.review.store import Store
from icelens.review.told import Teller

BATCH = 10  # verdicts between two orders
REST = 2.0  # seconds, however fast they come: the pages need the processor too
WORTH = 0.05  # share of errors among the next from which on a review pays
SURE = 0.1  # and what their interval must stay below, to say that it does not
FEWEST = 20  # verdicts before anything is said against going on


class Teacher:
    """Puts the list into a new order after every few verdicts; one thread, and never two at it.

    Args:
        folder: of the audit.
        teller: is told what is to be expected of the rest.
    """

    def __init__(self, folder: Path, teller: Teller) -> None:
        self.folder, self.teller = folder, teller
        self._pool, self._lock, self._ended = ThreadPoolExecutor(1), threading.Lock(), threading.Event()
        self._untaught, self._busy = 0, False
        self._evidence: Evidence | None = None

    def learn(self, *, at_once: bool = False) -> None:
        """Count a verdict, and learn if there are enough new ones, or `at_once`."""
        with self._lock:
            self._untaught += 1
            if self._busy or (self._untaught < BATCH and not at_once):
                return
            self._busy, self._untaught = True, 0
        self._pool.submit(self._work)

    def _work(self) -> None:
        try:
            with Store(self.folder) as store:
                self.teach(store)
        except IcelensError as error:
            # An audit of an older icelens has nothing to learn from; the list stays as it is.
            logging.getLogger(__name__).warning("the list keeps its order: %s", error)
        except Exception:
            logging.getLogger(__name__).exception("the list keeps its order")
        finally:
            self._ended.wait(REST)
            with self._lock:
                self._busy = False
                again = self._untaught >= BATCH
            if again and not self._ended.is_set():
                self.learn(at_once=True)

    def teach(self, store: Store) -> None:
        """Order what is left by all verdicts that stand."""
        self._evidence = self._evidence or read_evidence(self.folder)
        given = sorted(store.verdicts(), key=lambda one: one.number)
        early = len(given) < BATCH and not store.order_version  # as after a start: one verdict says little
        sure = [] if early else [one for one in given if one.verdict != "unsure"]
        unsure = np.array([one.index for one in given if early or one.verdict == "unsure"], dtype=np.int64)
        rows = np.array([one.index for one in sure], dtype=np.int64)
        wrong = np.array([one.verdict != "keep" for one in sure], dtype=bool)
        codes = {name: code for code, name in enumerate(store.classes)}
        # What a kept label teaches is in `wrong`; a new class is none that the evidence knows.
        truth = np.array([codes.get(one.label or "", -1) for one in sure], dtype=np.int64)
        found = rerank(self._evidence, rows, wrong, truth=truth, unsure=unsure)
        if len(rows) or store.order_version:  # verdicts that were all taken back leave the audit's order
            store.set_order(found.rows, np.clip(found.trust, 0.0, 1.0))
            self.teller.look(store)
        self.teller.worth, self.teller.enough = worth(found, len(rows))
        self.teller.taught = len(given)

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        self._pool.shutdown(wait=True, cancel_futures=True)


def worth(found: Reranked, verdicts: int) -> tuple[str, bool]:
    """What is to be expected of the rest, in words, and whether that is too little to go on."""
    ahead, rest = found.ahead, found.rest
    if not ahead.examples:
        return "All suspects of the list are reviewed.", True
    enough = verdicts >= FEWEST and ahead.rate < WORTH and ahead.high <= SURE * ahead.examples
    are = one_or_more(round(ahead.errors), "is", "are")
    said = f"Of the next {count(ahead.examples)}, about {count(ahead.errors)} {are} wrong {_interval(ahead)}."
    if not enough:
        return said, False
    share = f"{rate(rest.rate)} ({rate(rest.low / rest.examples)} to {rate(rest.high / rest.examples)})"
    return f"It is hardly worth going on. {said} Of all {count(rest.examples)} left: {share}.", True


def _interval(left: Left) -> str:
    return f"(90 % interval {count(left.low)} to {count(left.high)})"
