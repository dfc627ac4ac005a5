"""Distributions over three classes as points of a triangle: class 1 on top, 2 at the left, 3 at the right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from icelens.errors import InputError
from icelens.plots.arrays import as_array
from icelens.plots.style import FAINT, GREY, INK, filling

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[Any]

CORNERS = np.array([[0.5, np.sqrt(0.75)], [0.0, 0.0], [1.0, 0.0]])
STEPS = 60  # points along a grid line, which some maps bend


def place(p: Any) -> Array:
    """Where distributions lie:  xy = Σ_k p_k · corner_k.

    Args:
        p: (..., 3).

    Returns:
        (..., 2), with the corners (½, √¾), (0, 0) and (1, 0).

    >>> place([0.0, 0.5, 0.5])
    array([0.5, 0. ])
    """
    p = as_array(p)
    if p.shape[-1:] != (3,):
        raise InputError(f"a simplex is drawn for 3 classes, got shape {p.shape}")
    xy: Array = p @ CORNERS
    return xy


def simplex(ax: Axes, *, names: Sequence[str] = ("1", "2", "3")) -> Axes:
    """Draw the outline of the simplex with a name at each corner, and nothing else around it."""
    triangle(ax, np.eye(3), edgecolor=GREY, linewidth=0.9)
    for name, (x, y) in zip(names, CORNERS, strict=True):
        ax.annotate(name, (x, y), xytext=(0, 3 if y else -3), textcoords="offset points", color=GREY,
                    ha="center", va="bottom" if y else "top", annotation_clip=False)  # fmt: skip
    ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 0.9), aspect="equal")
    ax.set_axis_off()
    return ax


def triangle(ax: Axes, vertices: Any, **look: Any) -> Axes:
    """Draw a triangle whose vertices are distributions, such as the rows of a transition matrix."""
    from matplotlib.patches import Polygon

    ax.add_patch(
        Polygon(place(vertices), **{"closed": True, "facecolor": "none", "joinstyle": "round", **look})
    )
    return ax


def mesh(ax: Axes, change: Callable[[Array], Array] = np.asarray, *, lines: int = 10, **look: Any) -> Axes:
    """Draw what a map makes of the simplex: of the lines p_k = 1/lines, 2/lines, ... of each class k.

    Args:
        ax: where to draw.
        change: the map, which takes and returns distributions, (n, 3); left out, the grid is drawn as it is.
        lines: how many steps there are from an edge to its corner.
        look: of the lines, as `ax.plot` has it.
    """
    share = np.linspace(0, 1, STEPS + 1)[:, None]
    for level in np.arange(1, lines) / lines:
        for k in range(3):
            rest = (1 - level) * np.hstack([share, 1 - share])
            x, y = place(change(np.insert(rest, k, level, axis=1))).T
            ax.plot(x, y, **{"color": FAINT, "linewidth": 0.5, "zorder": 0.5, **look})
    return ax


def mark(ax: Axes, p: Any, marker: str, colour: str = INK, *, hollow: bool = False, **look: Any) -> Axes:
    """Mark distributions, (3,) or (n, 3), by a filled or a hollow marker; `look` is as `ax.plot` has it."""
    x, y = np.atleast_2d(place(p)).T
    face = "white" if hollow else colour
    settings = {"markersize": 6, "markeredgewidth": 1.0, "zorder": 4, "linestyle": "none", **look}
    ax.plot(x, y, marker=marker, markerfacecolor=face, markeredgecolor=colour, **settings)
    return ax


def arrow(ax: Axes, start: Any, end: Any, *, bend: float = 0.0, gap: float = 4.5, **look: Any) -> Axes:
    """Draw an arrow from one distribution to another that ends `gap` points short of both."""
    from matplotlib.patches import FancyArrowPatch

    settings = {"color": INK, "linewidth": 0.9, "zorder": 3, **look}
    ax.add_patch(
        FancyArrowPatch(
            tuple(place(start)),
            tuple(place(end)),
            arrowstyle="-|>,head_length=0.4,head_width=0.18",
            connectionstyle=f"arc3,rad={bend}",
            mutation_scale=8,
            shrinkA=gap,
            shrinkB=gap,
            **settings,
        )
    )
    return ax


def simplex_points(steps: int) -> Array:
    """All distributions over three classes whose entries are multiples of 1/steps.

    >>> simplex_points(1)
    array([[0., 0., 1.],
           [0., 1., 0.],
           [1., 0., 0.]])
    """
    first, second = np.mgrid[: steps + 1, : steps + 1].reshape(2, -1)
    inside = first + second <= steps
    first, second = first[inside], second[inside]
    points: Array = np.stack([first, second, steps - first - second], axis=1) / steps
    return points


def simplex_contours(ax: Axes, p: Any, values: Any, levels: Sequence[float]) -> Axes:
    """Fill the simplex between levels of a function, with thin white lines at the levels.

    Args:
        ax: where to draw.
        p: (n, 3), distributions that cover the simplex, as `simplex_points` gives them.
        values: (n,), the function there; −inf is below every level.
        levels: increasing; what lies below the first has the darkest colour.
    """
    from matplotlib.tri import Triangulation

    cells = Triangulation(*place(p).T)
    # A triangle with a corner at −inf has no contours at all, so it gets a number below the levels.
    z = np.maximum(as_array(values), 2 * levels[0] - levels[-1])
    ax.tricontourf(cells, z, **filling(levels))
    ax.tricontour(cells, z, levels=levels, colors="white", linewidths=0.4, linestyles="solid")
    return ax
