"""Accuracy against time, each line named at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from icelens.errors import InputError
from icelens.plots.arrays import as_array
from icelens.plots.style import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

Array = NDArray[Any]


def accuracy_curves(ax: Axes, curves: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> Axes:
    """Draw one line per name, each named at its right end; a legend only where those names would overlap.

    Args:
        ax: where to draw.
        curves: name -> (steps, values), in the order of the colours.
    """
    lines = []
    for number, (name, (steps, values)) in enumerate(curves.items()):
        x, y = _checked(name, steps, values)
        lines += ax.plot(x, y, color=PALETTE[number % len(PALETTE)], label=name)
    ax.set(xlabel="step", ylabel="accuracy")
    ax.margins(x=0)
    if _ends_apart(ax, lines):
        _name_ends(ax, lines)
    elif lines:
        ax.legend(loc="best")
    return ax


def _checked(name: str, steps: Any, values: Any) -> tuple[Array, Array]:
    x, y = as_array(steps), as_array(values)
    if x.ndim != 1 or x.shape != y.shape or not len(x):
        raise InputError(
            f"curve '{name}': steps and values must be of one length, got shapes {x.shape} and {y.shape}"
        )
    return x, y


def _ends_apart(ax: Axes, lines: list[Line2D]) -> bool:
    """Whether the right ends are at least a line of text apart and at the same, last step."""
    ends = np.array([_end(line) for line in lines]).reshape(-1, 2)
    if not np.isfinite(ends).all() or len(np.unique(ends[:, 0])) > 1:
        return False
    # Limits follow the lines only when asked; without it the pixels are those of an empty plot.
    ax.autoscale_view()
    heights = np.sort(ax.transData.transform(ends)[:, 1])
    return bool((np.diff(heights) >= _text_height(ax)).all())


def _end(line: Line2D) -> tuple[float, float]:
    x, y = line.get_data()
    return float(np.asarray(x)[-1]), float(np.asarray(y)[-1])


def _text_height(ax: Axes) -> float:
    from matplotlib.font_manager import FontProperties

    # The font size is in points, 72 to the inch; lines of text are set 1.25 of it apart.
    return float(1.25 * FontProperties().get_size_in_points() / 72 * ax.figure.dpi)


def _name_ends(ax: Axes, lines: list[Line2D]) -> None:
    for line in lines:
        ax.annotate(
            str(line.get_label()),
            _end(line),
            xytext=(5, 0),
            textcoords="offset points",
            color=line.get_color(),
            va="center",
            annotation_clip=False,
        )
