"""The trusted examples that are most like a suspect, for a person to compare it with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

NEAREST = 3
POOL, POOL_OF_CLASS = 20_000, 1000  # trusted examples that are compared with, in all and of a class
CHUNK = 1024


def trusted_pool(
    labels: NDArray[np.int64], trust: NDArray[np.float64], fit: NDArray[np.bool_], classes: int, seed: int = 0
) -> NDArray[np.int64]:
    """Rows of trusted examples, sorted: drawn from the better half of those of each class that are fit.

    Args:
        labels: (N,), the given classes.
        trust: (N,).
        fit: (N,), which examples may be drawn.
        classes: K.
        seed: of the draw.
    """
    most = max(NEAREST, min(POOL_OF_CLASS, POOL // classes))
    generator = np.random.default_rng(seed)
    rows = np.flatnonzero(fit)
    rows = rows[np.argsort(labels[rows], kind="stable")]
    parts = np.split(rows, np.searchsorted(labels[rows], np.arange(1, classes)))
    drawn = []
    for part in parts:
        better = part[np.argsort(-trust[part], kind="stable")[: max(NEAREST, -(-len(part) // 2))]]
        drawn.append(generator.permutation(better)[:most])
    return np.sort(np.concatenate(drawn))


def nearest(
    suspects: Any, pool: Any, same: tuple[NDArray[np.int64], NDArray[np.int64]], wanted: NDArray[np.int64],
    pool_labels: NDArray[np.int64],
) -> NDArray[np.int64]:  # fmt: skip
    """Positions in the pool of the NEAREST of the wanted class by cosine, (suspects, NEAREST); −1: none.

    Args:
        suspects: (suspects, width), of unit length, dense or sparse.
        pool: (pool, width), likewise.
        same: rows of the suspects and of the pool in the data: an example is no neighbour of its own.
        wanted: (suspects,), the class to look among; −1 for none.
        pool_labels: (pool,).
    """
    found = np.full((len(wanted), NEAREST), -1, dtype=np.int64)
    for label in np.unique(wanted[wanted >= 0]):
        members = np.flatnonzero(pool_labels == label)
        if not len(members):
            continue
        asking = np.flatnonzero(wanted == label)
        of_class = pool[members]
        for start in range(0, len(asking), CHUNK):
            part = asking[start : start + CHUNK]
            likeness = _cosine(suspects[part], of_class)
            likeness[same[0][part][:, None] == same[1][members][None]] = -np.inf
            found[part] = _best(likeness, members)
    return found


def _cosine(left: Any, right: Any) -> NDArray[np.float32]:
    product = left @ right.T
    return np.asarray(product.toarray() if hasattr(product, "toarray") else product)


def _best(likeness: NDArray[np.float32], members: NDArray[np.int64]) -> NDArray[np.int64]:
    """The members that are most alike, best first, (rows, NEAREST)."""
    width = min(NEAREST, likeness.shape[1])
    top = np.argpartition(-likeness, width - 1, axis=1)[:, :width]
    values = np.take_along_axis(likeness, top, 1)
    order = np.argsort(-values, axis=1, kind="stable")
    top, values = np.take_along_axis(top, order, 1), np.take_along_axis(values, order, 1)
    best = np.full((len(likeness), NEAREST), -1, dtype=np.int64)
    best[:, :width] = np.where(np.isfinite(values), members[top], -1)
    return best
