"""Which epoch a step belongs to, told by the examples themselves where nobody says it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icelens.dynamics.parts import Part, part_rows


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

    def go_on(self, parts: Sequence[Part]) -> None:
        """Go on after the last of these parts of one rank, in the epoch that it ends in."""
        parts = [part for part in parts if part.rows]
        if not parts:
            return
        for rows in part_rows(parts[-1], ["epoch"]):
            self.current = int(rows["epoch"][-1])
        self._seen = np.zeros(self.examples, dtype=bool)
        for part in parts:
            if self.current in part.epochs:
                for rows in part_rows(part, ["epoch", "index"]):
                    self._seen[rows["index"][rows["epoch"] == self.current]] = True
