"""Which epoch a step belongs to, told by the examples themselves where nobody says it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icelens.dynamics.parts import Part, rows_before

NOTHING = -1, -1  # step and epoch, where there are no rows


class Epochs:
    """Numbers epochs from 0: a step that brings back an example of the same epoch begins the next one.

    With a sampler that draws each example once an epoch that is exact. One that draws with replacement
    repeats examples early, and then only the user knows where an epoch ends.
    """

    def __init__(self, examples: int) -> None:
        self.examples = examples
        self.current = -1  # nothing was recorded
        self._seen: NDArray[np.bool_] | None = None

    def of(self, index: NDArray[Any], told: int | None) -> int:
        """The epoch of a step with these examples, or the one that the user told."""
        if told is not None:
            self.current = told
            return told
        if self._seen is None:
            self._seen = np.zeros(self.examples, dtype=bool)
        if self.current < 0 or self._seen[index].any():
            self.current += 1
            self._seen[:] = False
        self._seen[index] = True
        return self.current

    def go_on(self, parts: Sequence[Part], step: int) -> None:
        """Go on at a step after these parts, by rank and step, in the epoch that the rows before it end in.

        Of several ranks the one that came furthest says which that is.
        """
        ends = [_end(list(of_rank), step) for _, of_rank in groupby(parts, lambda part: part.rank)]
        _, self.current = max(ends, default=NOTHING)
        self._seen = np.zeros(self.examples, dtype=bool)
        for part in parts:
            if self.current in part.epochs:
                for rows in rows_before(part, step, ["epoch", "index"]):
                    self._seen[rows["index"][rows["epoch"] == self.current]] = True


def _end(parts: Sequence[Part], step: int) -> tuple[int, int]:
    """The last step before this one of which a rank has rows, and its epoch."""
    for part in reversed(parts):
        ends = [
            (int(rows["step"][-1]), int(rows["epoch"][-1]))
            for rows in rows_before(part, step, ["epoch"])
            if len(rows["step"])
        ]
        if ends:
            return ends[-1]
    return NOTHING
