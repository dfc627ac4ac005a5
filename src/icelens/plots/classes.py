"""Class-posteriors over one input, and the examples they were learned from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from icelens.errors import InputError
from icelens.plots.arrays import as_array, as_flags
from icelens.plots.style import CLASSES, INK, MARKERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def posteriors(ax: Axes, x: Any, p: Any, *, truth: Any = None) -> Axes:
    """Draw the probability of each class as a line over the input; the truth, where given, thin and dashed.

    Args:
        ax: where to draw.
        x: (points,), increasing.
        p: (points, classes), at most three classes.
        truth: as p.
    """
    x, p = as_array(x), as_array(p)
    if p.ndim != 2 or len(p) != len(x) or p.shape[1] > len(CLASSES):
        raise InputError(f"p must be ({len(x)}, at most {len(CLASSES)} classes), got shape {p.shape}")
    for k, colour in enumerate(CLASSES[: p.shape[1]]):
        if truth is not None:
            ax.plot(x, as_array(truth)[:, k], color=colour, linewidth=0.8, linestyle=(0, (4, 2)))
        ax.plot(x, p[:, k], color=colour, linewidth=1.6)
    ax.set(xlim=(x[0], x[-1]), ylim=(-0.04, 1.04), yticks=[0, 0.5, 1])
    return ax


def points_by_class(ax: Axes, x: Any, y: Any, labels: Any, *, flipped: Any) -> Axes:
    """Draw examples in the colour and marker of their given label, with a black edge where it is wrong.

    Args:
        ax: where to draw.
        x: (examples,).
        y: (examples,), the height of each.
        labels: (examples,), classes below three.
        flipped: (examples,), True where the label is known to be wrong; these are drawn on top.
    """
    x, y, labels = as_array(x), as_array(y), as_array(labels)
    flags = as_flags(flipped, len(x))
    for k, (colour, marker) in enumerate(zip(CLASSES, MARKERS, strict=True)):
        for wrong in (False, True):
            rows = np.flatnonzero((labels == k) & (flags == wrong))
            look = (
                {"s": 24, "edgecolor": INK, "linewidth": 1.1}
                if wrong
                else {"s": 11, "alpha": 0.55, "linewidth": 0}
            )
            ax.scatter(
                x[rows], y[rows], facecolor=colour, marker=marker, zorder=4 + wrong, clip_on=False, **look
            )
    return ax
