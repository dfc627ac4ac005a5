"""The rows of all ranks in the order of their steps, a bounded number at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icelens.dynamics.parts import Part, part_rows

Rows = dict[str, NDArray[Any]]

AT_ONCE = 1 << 18  # rows in memory, shared by the ranks
LEAST = 1 << 10


def in_order(parts: Sequence[Part], columns: Sequence[str]) -> Iterator[Rows]:
    """Yield the rows of parts that are sorted by rank and step, in the order of steps over all ranks."""
    ranks = [list(group) for _, group in groupby(parts, lambda part: part.rank)]
    most = max(AT_ONCE // max(len(ranks), 1), LEAST)
    heads = [head for head in (_Head(rank, columns, most) for rank in ranks) if head.more()]
    while heads:
        # Up to here every rank has its rows at hand.
        last = min(head.last() for head in heads)
        rows = _joined([head.take(last) for head in heads])
        yield rows
        heads = [head for head in heads if head.more()]


class _Head:
    """Where reading has come to in the parts of one rank."""

    def __init__(self, parts: Sequence[Part], columns: Sequence[str], most: int) -> None:
        self._batches = (rows for part in parts for rows in part_rows(part, columns, most=most))
        self._rows: Rows = {}

    def more(self) -> bool:
        """Have rows at hand; False where there are no more."""
        while not self._rows or not len(self._rows["step"]):
            try:
                self._rows = next(self._batches)
            except StopIteration:
                return False
        return True

    def last(self) -> int:
        """The step of the last row at hand."""
        return int(self._rows["step"][-1])

    def take(self, last: int) -> Rows:
        """The rows at hand up to this step, which are then no more at hand."""
        end = int(np.searchsorted(self._rows["step"], last, side="right"))
        taken = {name: column[:end] for name, column in self._rows.items()}
        self._rows = {name: column[end:] for name, column in self._rows.items()}
        return taken


def _joined(taken: list[Rows]) -> Rows:
    if len(taken) == 1:
        return taken[0]
    rows = {name: np.concatenate([one[name] for one in taken]) for name in taken[0]}
    order = np.argsort(rows["step"], kind="stable")
    return {name: column[order] for name, column in rows.items()}
