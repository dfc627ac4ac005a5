"""Columns of numbers brought to one scale, learned from training rows and applied to any others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icelens.auditing.features import FARTHEST

CELLS = 2**22  # that are in float64 at a time
CONSTANT = 1e-12  # of the largest entry: what rounding alone may spread a column by

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scaling:
    """(x / size − middle) / spread, at most `FARTHEST` away from 0.

    Dividing by the size first keeps the squares of numbers near the end of float64 finite.

    Args:
        size: (width,), the largest absolute value of each column.
        middle: (width,), its mean, in sizes.
        spread: (width,), its standard deviation, in sizes; 1 where it is constant.
    """

    size: Array
    middle: Array
    spread: Array

    @classmethod
    def learn(cls, X: Any) -> Scaling:
        """From training rows, (rows, width), an array or a sparse matrix."""
        size = abs(X).max(axis=0)
        size = (size.toarray().ravel() if hasattr(size, "toarray") else np.asarray(size)).astype(np.float64)
        size[size == 0] = 1
        total, squares = np.zeros(len(size)), np.zeros(len(size))
        for rows in blocks(X):
            total += (_dense(X, rows) / size).sum(0)
        middle = total / X.shape[0]
        for rows in blocks(X):
            squares += ((_dense(X, rows) / size - middle) ** 2).sum(0)
        spread = np.sqrt(squares / X.shape[0])
        return cls(size, middle, np.where(spread > CONSTANT, spread, 1.0))

    def __call__(self, X: Any, rows: slice) -> Array:
        """These rows of X, scaled."""
        with np.errstate(over="ignore"):  # farther out than float64 can tell is no more than far out
            scaled = (_dense(X, rows) / self.size - self.middle) / self.spread
        return np.clip(scaled, -FARTHEST, FARTHEST)

    def all(self, X: Any) -> NDArray[np.float32]:
        """All rows, for a network."""
        values = np.empty(X.shape, dtype=np.float32)
        for rows in blocks(X):
            values[rows] = self(X, rows)
        return values


def blocks(X: Any) -> list[slice]:
    """All rows of a matrix, some at a time.

    >>> blocks(np.empty((10, 2**20)))
    [slice(0, 4, None), slice(4, 8, None), slice(8, 10, None)]
    """
    count, step = X.shape[0], max(1, CELLS // max(1, X.shape[1]))
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


def _dense(X: Any, rows: slice) -> Array:
    part = X[rows]
    # In one order of memory, so that sums do not depend on the form that numbers are handed in.
    return np.array(part.toarray() if hasattr(part, "toarray") else part, dtype=np.float64, order="C")
