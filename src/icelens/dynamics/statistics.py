"""What a recording says of each example, gathered row by row: a few numbers an example are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from icelens.dynamics.stream import Rows

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[Any]


class Statistics:
    """Sums over the visits of each example, 59 bytes an example.

    AUM is the mean margin (Pleiss et al., 2020); mean and standard deviation of the given label's probability
    are the data map's confidence and variability (Swayamdipta et al., 2020); an example is forgotten when a
    wrong guess follows a right one (Toneva et al., 2019).
    """

    def __init__(self, examples: int) -> None:
        self.skipped = 0
        self._sums = {name: np.zeros(examples) for name in ("margin", "p_label", "p_squared", "loss")}
        self._counts = {name: np.zeros(examples, np.int32) for name in ("visits", "correct", "forgotten")}
        self._last = {"label": np.full(examples, -1, np.int32), "guess": np.full(examples, -1, np.int32)}
        self._confidence = np.full(examples, np.nan, np.float32)
        self._was_correct = np.zeros(examples, dtype=bool)
        self._relabelled = np.zeros(examples, dtype=bool)

    def add(self, rows: Rows) -> None:
        """Add rows that follow those before them; a row that is not finite counts for nothing."""
        sound = np.isfinite(rows["margin"]) & np.isfinite(rows["p_label"])
        self.skipped += int(len(sound) - sound.sum())
        if not sound.any():
            return
        # By example and, within one, by time: the visits of an example lie side by side.
        order = np.flatnonzero(sound)
        order = order[np.argsort(rows["index"][order], kind="stable")]
        rows = {name: column[order] for name, column in rows.items()}
        index = rows["index"]
        starts = np.flatnonzero(np.r_[True, index[1:] != index[:-1]])
        self._add_sums(rows, index[starts], starts)
        self._compare(rows, index[starts], starts)
        self._keep_last(rows, index)

    def table(self) -> pd.DataFrame:
        """One row per example, in the order of the data set; NaN where it was never visited.

        Ends the gathering: sums are given up as their means are taken, so both are never in memory together.
        """
        import pandas as pd

        p, squared = self._mean("p_label"), self._mean("p_squared")
        np.subtract(squared, p * p, out=squared)
        # Rounding can take a variance of nothing below zero.
        variability = np.sqrt(np.maximum(squared, 0, out=squared), out=squared).astype(np.float32)
        columns = {
            "index": np.arange(len(p), dtype=np.int32), **self._last, "visits": self._counts["visits"],
            "aum": self._mean("margin").astype(np.float32), "p_label": p.astype(np.float32),
            "variability": variability, "correctness": self._mean("correct").astype(np.float32),
            "forgotten": self._counts["forgotten"], "loss": self._mean("loss").astype(np.float32),
            "confidence": self._confidence,
        }  # fmt: skip
        return pd.DataFrame(columns, copy=False)

    def _mean(self, name: str) -> Array:
        sums = self._sums.pop(name) if name in self._sums else self._counts.pop(name).astype(np.float64)
        with np.errstate(invalid="ignore"):
            return np.divide(sums, self._counts["visits"], out=sums)

    @property
    def relabelled(self) -> int:
        """How many examples came with more than one label, which an unstable index does."""
        return int(self._relabelled.sum())

    def _add_sums(self, rows: Rows, examples: Array, starts: Array) -> None:
        p = rows["p_label"].astype(np.float64)
        values = {"margin": rows["margin"], "p_label": p, "p_squared": p * p, "loss": rows["loss"]}
        for name, column in values.items():
            self._sums[name][examples] += np.add.reduceat(column.astype(np.float64), starts)
        self._counts["visits"][examples] += np.diff(np.r_[starts, len(p)])
        self._counts["correct"][examples] += np.add.reduceat(rows["correct"].astype(np.int32), starts)

    def _compare(self, rows: Rows, examples: Array, starts: Array) -> None:
        """Compare each visit with the one before it."""
        was_correct = np.r_[False, rows["correct"][:-1]]
        was_correct[starts] = self._was_correct[examples]
        forgotten = was_correct & ~rows["correct"]
        self._counts["forgotten"][examples] += np.add.reduceat(forgotten.astype(np.int32), starts)
        label_before = np.r_[-1, rows["label"][:-1]]
        label_before[starts] = self._last["label"][examples]
        other = (label_before != rows["label"]) & (label_before >= 0)
        self._relabelled[examples] |= np.logical_or.reduceat(other, starts)

    def _keep_last(self, rows: Rows, index: Array) -> None:
        # Of an index that stands several times on the left, the last assignment holds.
        self._was_correct[index] = rows["correct"]
        for name, kept in self._last.items():
            kept[index] = rows[name]
        known = ~np.isnan(rows["confidence"])
        self._confidence[index[known]] = rows["confidence"][known]
