"""The confidences of some examples after some epochs: enough for a picture, however long the recording."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icelens.dynamics.stream import Rows

Array = NDArray[Any]

SNAPSHOTS = 20
SAMPLE = 20_000


class History:
    """C of a random sample of examples at the end of evenly spaced epochs.

    Args:
        examples: how many there are.
        epochs: the numbers that a recording has.
    """

    def __init__(self, examples: int, epochs: range) -> None:
        drawn = np.random.default_rng(0).choice(examples, min(SAMPLE, examples), replace=False)
        self.sample: Array = np.sort(drawn)
        count = min(SNAPSHOTS, len(epochs))
        # Back from the last one, which people look at first.
        back = np.linspace(0, len(epochs) - 1, count).round().astype(int) if count else np.zeros(0, int)
        self.epochs: Array = np.sort(epochs.stop - 1 - back)
        self._values = np.full((count, len(self.sample)), np.nan, np.float32)

    def add(self, rows: Rows) -> None:
        """Add rows that follow those before them."""
        place = np.searchsorted(self.sample, rows["index"])
        place[place == len(self.sample)] = 0
        wanted = (self.sample[place] == rows["index"]) & ~np.isnan(rows["confidence"])
        wanted &= rows["epoch"] <= self.epochs[-1]
        # To the first snapshot that is not before the row; a later row of it overwrites.
        snapshot = np.searchsorted(self.epochs, rows["epoch"][wanted])
        self._values[snapshot, place[wanted]] = rows["confidence"][wanted]

    def values(self) -> tuple[Array, Array]:
        """(snapshots, examples), and which examples these are: those known from the first snapshot on."""
        values = self._values.copy()
        for before, row in pairwise(values):
            # A confidence stays as it is until the next visit.
            np.copyto(row, before, where=np.isnan(row))
        known = ~np.isnan(values).any(0) if len(values) else np.zeros(len(self.sample), bool)
        return values[:, known], self.sample[known]
