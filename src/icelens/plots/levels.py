"""A function of two variables by the colours between its levels, and the bar that says what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from icelens.plots.arrays import as_array
from icelens.plots.style import filling

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure


def contours(ax: Axes, x: Any, y: Any, values: Any, levels: Sequence[float]) -> Axes:
    """Fill between levels of a function, with thin white lines at the levels.

    Args:
        ax: where to draw.
        x: (columns,).
        y: (rows,).
        values: (rows, columns), the function there; −inf is below every level.
        levels: increasing; what lies below the first has the darkest colour.
    """
    x, y = as_array(x), as_array(y)
    z = as_array(values).clip(2 * levels[0] - levels[-1])
    ax.contourf(x, y, z, **filling(levels))
    ax.contour(x, y, z, levels=levels, colors="white", linewidths=0.4, linestyles="solid")
    ax.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
    return ax


def level_bar(figure: Figure, axes: Any, levels: Sequence[float], *, label: str) -> Colorbar:
    """Add one colour bar at the right of those Axes, which were all filled between these levels."""
    from matplotlib.cm import ScalarMappable

    look = filling(levels)
    colours = ScalarMappable(norm=look["norm"], cmap=look["cmap"])
    bar = figure.colorbar(colours, ax=axes, label=label, extend="min", aspect=30, fraction=0.03, pad=0.02)
    bar.outline.set_visible(False)
    return bar
