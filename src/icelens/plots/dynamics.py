"""What training did to each example: the data map, and how AUM is spread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from icelens.errors import InputError
from icelens.plots.arrays import as_array, as_flags
from icelens.plots.style import BLUE, GREY, INK, VERMILLION

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import ListedColormap

Array = NDArray[Any]

MOST_POINTS = 25_000  # more only cover each other
BINS = 60
MANY = 100  # examples in a bar


def data_map(ax: Axes, variability: Any, p_label: Any, correctness: Any) -> Axes:
    """Draw a data map (Swayamdipta et al., 2020): one point per example, coloured by correctness.

    Top left are examples that are easy to learn, bottom left those that are hard to learn, wrong labels
    among them, at the right those that the network changes its mind about. Of more than 25,000 examples
    so many are drawn, at random.

    Args:
        ax: where to draw; a bar for the colours is added at its right.
        variability: (examples,), standard deviation of the given label's probability; NaN is left out.
        p_label: (examples,), its mean.
        correctness: (examples,), the share of visits with a right guess.
    """
    x, y, colour = _columns(variability, p_label, correctness)
    total, drawn = len(x), _sampled(len(x))
    # The suspicious are drawn last, on top: they are few.
    drawn = drawn[np.argsort(-colour[drawn], kind="stable")]
    points = ax.scatter(
        x[drawn], y[drawn], c=colour[drawn], cmap=_colours(), vmin=0, vmax=1, s=7, linewidth=0
    )
    points.set_rasterized(True)
    ax.set(xlabel="variability of p(label)", ylabel="mean p(label)", ylim=(-0.03, 1.03))
    ax.set_xlim(-0.012, 0.545)
    bar = ax.figure.colorbar(points, ax=ax, label="correctness", aspect=30, fraction=0.04, pad=0.02)
    bar.outline.set_visible(False)
    ax.set_title(f"{total:,} examples" if len(drawn) == total else f"{len(drawn):,} of {total:,} examples")
    _name_regions(ax)
    return ax


def aum_histogram(
    ax: Axes,
    aum: Any,
    flipped: Any = None,
    *,
    labels: tuple[str, str] = ("flipped labels", "original labels"),
) -> Axes:
    """Draw how AUM, the mean margin of the given label, is spread (Pleiss et al., 2020).

    Below zero another class was above the given label on average. Where a bar has more than a hundred
    examples, the scale is logarithmic above ten: the suspicious are few beside the others.

    Args:
        ax: where to draw.
        aum: (examples,); NaN is left out.
        flipped: (examples,), True where the label is known to be wrong; None where nothing is known, and then
            what is below zero has another colour.
        labels: names of the two groups.
    """
    values = as_array(aum)
    if values.ndim != 1:
        raise InputError(f"aum must have shape (examples,), got {values.shape}")
    known = np.isfinite(values)
    flags = None if flipped is None else as_flags(flipped, len(values))[known]
    values = values[known]
    if not len(values):
        raise InputError("aum holds no finite value")
    groups = _groups(values, flags, labels)
    edges = _edges(values).tolist()
    for members, colour, name in groups:
        ax.hist(values[members], bins=edges, color=colour, alpha=0.75, label=name, linewidth=0)
    _scale_counts(ax)
    ax.axvline(0, color=INK, linewidth=0.6)
    ax.set(xlabel="AUM: mean margin of the given label", ylabel="examples")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0.2)
    return ax


def _columns(*columns: Any) -> list[Array]:
    """The columns of one length, of the examples that all of them know."""
    arrays = [as_array(column) for column in columns]
    if any(array.ndim != 1 or len(array) != len(arrays[0]) for array in arrays):
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise InputError(f"variability, p_label and correctness must be of one length, got shapes {shapes}")
    known = np.all([np.isfinite(array) for array in arrays], axis=0)
    return [array[known] for array in arrays]


def _colours() -> ListedColormap:
    """viridis without its brightest end, which is hard to see on white."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    return ListedColormap(colormaps["viridis"](np.linspace(0, 0.88, 256)))


def _sampled(count: int) -> Array:
    if count <= MOST_POINTS:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, MOST_POINTS, replace=False))


def _name_regions(ax: Axes) -> None:
    """Name the regions where no point can be: of mean m, variability is at most sqrt(m·(1 − m))."""
    look: dict[str, Any] = {"color": GREY, "va": "center"}
    ax.text(0.19, 1.0, "← easy to learn", **look)
    ax.text(0.19, 0.0, "← hard to learn", **look)
    ax.text(0.525, 0.5, "ambiguous", rotation=270, ha="center", **look)


def _groups(values: Array, flags: Array | None, labels: tuple[str, str]) -> list[tuple[Array, str, str]]:
    if flags is None:
        below = values < 0
        return [
            (~below, GREY, f"0 and above: {(~below).sum():,}"),
            (below, VERMILLION, f"below 0: {below.sum():,}"),
        ]
    # The flipped are fewer as a rule, so they are drawn in front.
    return [
        (~flags, BLUE, f"{labels[1]}: {(~flags).sum():,}"),
        (flags, VERMILLION, f"{labels[0]}: {flags.sum():,}"),
    ]


def _edges(values: Array) -> Array:
    """Bins of one width of which zero is an edge, so that no bar holds both signs."""
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    width = (high - low) / BINS or 1.0
    return width * np.arange(np.floor(low / width), np.ceil(high / width) + 1.5)


def _scale_counts(ax: Axes) -> None:
    """Many examples: powers of ten, linear below ten, so that a bar of a few is still seen."""
    from matplotlib.ticker import MaxNLocator

    top = ax.get_ylim()[1]
    if top < MANY:
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
        return
    ax.set_yscale("symlog", linthresh=10)
    ticks = [0, *(10**power for power in range(1, 12) if 10**power <= top)]
    ax.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
    ax.minorticks_off()
