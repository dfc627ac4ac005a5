"""The confidence of all examples while training goes on, one density above the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from icelens.errors import InputError
from icelens.plots.arrays import as_array, as_flags
from icelens.plots.style import BLUE, FAINT, GREY, INK, VERMILLION

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[Any]

BINS = 400
NARROWEST = 0.012  # bandwidth of values that are all equal, such as C = 1/2 at the start
MOST_TICKS = 16


def ridgeline(
    ax: Axes,
    history: Any,
    flipped: Any = None,
    *,
    steps: Sequence[float] | None = None,
    labels: tuple[str, str] = ("flipped labels", "original labels"),
) -> Axes:
    """Draw how the confidences of flipped and original labels part during training; time runs downwards.

    Each ridge is scaled to its own highest peak, since a ridge of equal values would flatten all others.
    Within a ridge both densities have the same area whatever the number of examples behind them.

    Args:
        ax: where to draw.
        history: (snapshots, examples), confidences in [0, 1].
        flipped: (examples,), True where the label is known to be wrong; None where nothing is known,
            which gives one grey density.
        steps: (snapshots,), the epoch or iteration of each snapshot, written at the left; 1, 2, ...
            where left out.
        labels: names of the two groups.
    """
    history = _checked(as_array(history))
    groups = _groups(history, flipped, labels)
    # The height of a ridge in distances between two: many ridges need more overlap to show any shape.
    peak = max(2.2, len(history) / 9)
    for row, snapshot in enumerate(history):
        _ridge(ax, -row, peak, [(snapshot[members], colour) for members, colour, _ in groups])
    _name_groups(ax, [(colour, name) for _, colour, name in groups if name])
    _frame(ax, _steps(steps, len(history)), peak)
    return ax


def density(values: Array) -> Array:
    """Gaussian kernel density at `BINS` points of [0, 1], reflected at 0 and 1 so that none leaks out.

    Smoothing a fine histogram is the same to the eye as a sum over the examples, and as quick for a
    million of them as for a hundred.
    """
    from scipy.ndimage import gaussian_filter1d

    counts, _ = np.histogram(values, bins=BINS, range=(0, 1))
    # Scott's rule, with two limits: it takes two far modes for one wide one and would smear both, and
    # beyond some thousands of examples it follows ripples that mean nothing.
    bandwidth = max(min(float(values.std()), 0.25) * min(len(values), 5000) ** -0.2, NARROWEST)
    smooth: Array = gaussian_filter1d(counts * (BINS / len(values)), bandwidth * BINS, mode="reflect")
    return smooth


def _ridge(ax: Axes, base: float, peak: float, groups: list[tuple[Array, str]]) -> None:
    """Fill one density per group that has members, standing on the line y = base."""
    x = (np.arange(BINS) + 0.5) / BINS
    heights = [(density(values), colour) for values, colour in groups if len(values)]
    scale = peak / max(height.max() for height, _ in heights)
    # A ridge lies in front of those before it, and white under its colours keeps them from shining through.
    layer = 2 - base
    outline = base + scale * np.max([height for height, _ in heights], axis=0)
    ax.fill_between(x, base, outline, facecolor="white", linewidth=0, zorder=layer)
    for height, colour in heights:
        ax.fill_between(
            x, base, base + scale * height, facecolor=colour, alpha=0.75, linewidth=0, zorder=layer
        )
    # After the fills, so that each outline shows where it crosses the other group.
    for height, _ in heights:
        ax.plot(x, base + scale * height, color="white", linewidth=0.8, zorder=layer)
    ax.plot([0, 1], [base, base], color=FAINT, linewidth=0.5, zorder=layer)


def _groups(history: Array, flipped: Any, labels: tuple[str, str]) -> list[tuple[Array, str, str]]:
    if flipped is None:
        return [(np.ones(history.shape[1], dtype=bool), GREY, "")]
    flags = as_flags(flipped, history.shape[1])
    # The flipped are fewer as a rule, so they are drawn in front.
    return [(~flags, BLUE, labels[1]), (flags, VERMILLION, labels[0])]


def _name_groups(ax: Axes, names: list[tuple[str, str]]) -> None:
    """Write the names in their colours on the side where the group ends up, in place of a legend."""
    for (colour, name), (x, side) in zip(names, [(1, "right"), (0, "left")], strict=False):
        ax.text(x, 1, name, color=colour, ha=side, va="top", weight="bold", transform=ax.transAxes)


def _frame(ax: Axes, steps: Array, peak: float) -> None:
    ax.spines[:].set_visible(False)
    ax.set_xlim(-0.01, 1.01)
    ax.set_ylim(-len(steps) + 0.7, peak * 1.05)
    ax.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
    ax.set_xlabel("confidence C")
    # Many ridges: name every k-th, counted from the last one, which people look at first.
    shown = range(len(steps) - 1, -1, -len(steps) // MOST_TICKS)
    ax.set_yticks([-row for row in shown], [f"{steps[row]:,.10g}" for row in shown], color=INK)
    ax.tick_params(axis="y", length=0)


def _checked(history: Array) -> Array:
    if history.ndim != 2 or 0 in history.shape:
        raise InputError(f"history must have shape (snapshots, examples), got {history.shape}")
    history = history.astype(float)
    outside = ~((history >= 0) & (history <= 1))
    if outside.any():
        row, column = (int(position[0]) for position in np.nonzero(outside))
        value = history[row, column]
        raise InputError(f"confidences must lie in [0, 1], got {value} in snapshot {row} of example {column}")
    return history


def _steps(steps: Sequence[float] | None, count: int) -> Array:
    array = np.arange(1, count + 1) if steps is None else as_array(steps)
    if array.shape != (count,):
        raise InputError(f"steps must name each of {count} snapshots, got shape {array.shape}")
    return array
