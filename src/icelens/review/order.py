"""Today's order of the list: the audit's, with its first places set anew by what verdicts taught."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icelens.errors import InputError


@dataclass(frozen=True, eq=False)
class Order:
    """Of the places below `reach`, the rank and the trust that each has now; beyond, rank = place.

    Ranks are a permutation of those places, so the list is: first these by rank, then the rest as it was.
    """

    version: int = 0
    ranks: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    trust: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    @property
    def reach(self) -> int:
        """How many places at the head of the list have an order of their own."""
        return len(self.ranks)

    @cached_property
    def by_rank(self) -> NDArray[np.int64]:
        """The places in their order of today."""
        return np.argsort(self.ranks)

    def rank(self, place: int) -> int:
        """Where the example at this place of the audit's order stands now."""
        return int(self.ranks[place]) if place < self.reach else place

    def trust_of(self, place: int, audited: float) -> float:
        """How far its label is trusted now."""
        return float(self.trust[place]) if place < self.reach else audited

    def extended(self, audited: NDArray[np.float64]) -> Order:
        """The same order with a reach of at least as many places; `audited` is the audit's trust of them."""
        if len(audited) <= self.reach:
            return self
        ranks = np.arange(len(audited), dtype=np.int32)
        ranks[: self.reach] = self.ranks
        return Order(self.version, ranks, np.concatenate([self.trust, audited[self.reach :]]))

    def changed(self, places: NDArray[np.int64], trust: NDArray[np.float64]) -> Order:
        """These places in this order, on the ranks that they hold between them; all others stay."""
        ranks, newer = self.ranks.copy(), self.trust.copy()
        ranks[places] = np.sort(ranks[places])
        newer[places] = trust
        return Order(self.version, ranks, newer)


def stored_version(connection: sqlite3.Connection) -> int:
    """The number of the newest order; 0 where it is still the audit's."""
    version: int = connection.execute("SELECT coalesce(max(version), 0) FROM orders").fetchone()[0]
    return version


def stored_reach(connection: sqlite3.Connection) -> int:
    """How many places the newest order has."""
    query = "SELECT length(ranks) / 4 FROM orders ORDER BY version DESC LIMIT 1"
    row = connection.execute(query).fetchone()
    return row[0] if row else 0


def load_order(connection: sqlite3.Connection) -> Order:
    """The newest order."""
    query = "SELECT version, ranks, trust FROM orders ORDER BY version DESC LIMIT 1"
    row = connection.execute(query).fetchone()
    if row is None:
        return Order()
    return Order(row[0], np.frombuffer(row[1], "<i4"), np.frombuffer(row[2], "<f8"))


def save_order(connection: sqlite3.Connection, order: Order) -> None:
    """Keep this order as the newest and forget the others."""
    blobs = (order.ranks.astype("<i4").tobytes(), order.trust.astype("<f8").tobytes())
    number = connection.execute("INSERT INTO orders (ranks, trust) VALUES (?, ?)", blobs).lastrowid
    connection.execute("DELETE FROM orders WHERE version < ?", (number,))


def checked_order(index: Any, trust: Any, examples: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """An order that was handed in: rows of the data set, each once, and a trust from 0 to 1 for each."""
    rows, values = np.asarray(index), np.asarray(trust, dtype=np.float64)
    if rows.ndim != 1 or rows.shape != values.shape or (len(rows) and rows.dtype.kind not in "iu"):
        raise InputError(
            f"an order is rows and a trust for each, got {rows.dtype} {rows.shape} and {values.shape}"
        )
    rows = rows.astype(np.int64)
    if len(rows) and (rows.min() < 0 or rows.max() >= examples):
        raise InputError(f"rows must lie from 0 to {examples - 1}, got {rows.min()} to {rows.max()}")
    if len(np.unique(rows)) < len(rows):
        raise InputError("an order names a row twice")
    if not np.all((values >= 0) & (values <= 1)):  # NaN is neither
        raise InputError("trust must lie in [0, 1]")
    return rows, values


def places_of(connection: sqlite3.Connection, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places of these rows of the data set in the audit's order."""
    query = 'SELECT e.place FROM json_each(?) j CROSS JOIN examples e ON e."index" = j.value ORDER BY j.key'
    found = connection.execute(query, (json.dumps(rows.tolist()),)).fetchall()
    return np.array(found, dtype=np.int64).reshape(-1)


def head_of(connection: sqlite3.Connection, reach: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The audit's trust and the tally of each of the first places."""
    query = "SELECT trust, tally FROM examples WHERE place < ? ORDER BY place"
    found = np.array(connection.execute(query, (reach,)).fetchall(), dtype=np.float64).reshape(-1, 2)
    return found[:, 0].copy(), found[:, 1].astype(np.int64)


def count_doubt(connection: sqlite3.Connection, tally: NDArray[np.int64], more: NDArray[np.float64]) -> None:
    """Add to the tallies what the doubt of the first places has grown by, of those without a verdict."""
    query = "SELECT place FROM standing WHERE place < ?"
    reviewed = [place for (place,) in connection.execute(query, (len(tally),))]
    left = more.copy()
    left[reviewed] = 0
    sums = np.bincount(tally, weights=left)
    changes = [(float(sums[number]), int(number)) for number in np.flatnonzero(sums)]
    connection.executemany("UPDATE tallies SET doubt = doubt + ? WHERE number = ?", changes)
