"""What related losses mix: most of them the target, ICE the prediction."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from icelens.plots import simplex, style
from icelens.plots.simplices import arrow, mark, mesh, place
from icelens.plots.style import BLUE, GREY, INK, VERMILLION

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[Any]

CONFIDENCE = 0.6
# The given label y is class 1, which the model does not guess; its guess ŷ is class 2.
ENDS = {
    "$y$": np.array([1.0, 0.0, 0.0]),
    "$p$": np.array([0.2, 0.7, 0.1]),
    r"$\hat{y}$": np.array([0.0, 1.0, 0.0]),
    "$u$": np.full(3, 1 / 3),
}


class Loss(NamedTuple):
    """The loss KL(target ‖ prediction) by what its two sides mix; a side of one end is not mixed."""

    title: str
    formula: str
    target: tuple[str, ...]
    prediction: tuple[str, ...]


LOSSES = (
    Loss("CCE", "$y$ ‖ $p$", ("$y$",), ("$p$",)),
    Loss("label smoothing", "$Cy + (1-C)u$ ‖ $p$", ("$y$", "$u$"), ("$p$",)),
    Loss("soft bootstrapping", "$Cy + (1-C)p$ ‖ $p$", ("$y$", "$p$"), ("$p$",)),
    Loss("hard bootstrapping", r"$Cy + (1-C)\hat{y}$ ‖ $p$", ("$y$", r"$\hat{y}$"), ("$p$",)),
    Loss("ICE, linear", "$y$ ‖ $Cp + (1-C)u$", ("$y$",), ("$p$", "$u$")),
)
ARROW: dict[str, Any] = {"linestyle": (0, (3, 1.5)), "color": INK, "linewidth": 0.9}


@style()
def smoothing(results: Path) -> Figure:
    """Five losses as divergences on the simplex, from a target to a prediction."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    figure = Figure(figsize=(7.5, 2.45))
    for ax, loss in zip(figure.subplots(1, len(LOSSES)), LOSSES, strict=True):
        _panel(ax, loss)
    handles = [
        Line2D([], [], linestyle="none", marker="s", color=VERMILLION, label="target"),
        Line2D([], [], linestyle="none", marker="o", color=BLUE, label="prediction"),
        Line2D([], [], **ARROW, label=f"KL divergence between them, $C = {CONFIDENCE}$"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, handlelength=2.4)
    return figure


def mixture(ends: tuple[str, ...]) -> Array:
    """C·a + (1 − C)·b of two ends, or the one end itself.

    >>> mixture(("$y$", "$p$"))
    array([0.68, 0.28, 0.04])
    """
    first, last = ENDS[ends[0]], ENDS[ends[-1]]
    mixed: Array = CONFIDENCE * first + (1 - CONFIDENCE) * last
    return mixed


def _panel(ax: Axes, loss: Loss) -> None:
    mesh(ax)
    simplex(ax, names=("", "", ""))
    for ends, colour in [(loss.target, VERMILLION), (loss.prediction, BLUE)]:
        x, y = place(np.stack([ENDS[end] for end in ends])).T
        ax.plot(x, y, color=colour, linewidth=1.2, zorder=2)
    for name in dict.fromkeys(loss.target + loss.prediction):
        mark(ax, ENDS[name], "o", GREY, hollow=True, markersize=4, zorder=3)
        _write(ax, name)
    target, prediction = mixture(loss.target), mixture(loss.prediction)
    arrow(ax, target, prediction, bend=-0.25, **ARROW)
    mark(ax, target, "s", VERMILLION, markersize=5.5)
    mark(ax, prediction, "o", BLUE)
    ax.set_title(loss.title, loc="center", pad=14)
    ax.text(0.5, -0.24, loss.formula, ha="center", va="baseline", size=7.5)


def _write(ax: Axes, name: str) -> None:
    """A name beside its point, on the side that no line takes."""
    shift = {"$y$": (0, 8), "$p$": (7, -6), r"$\hat{y}$": (0, -9), "$u$": (7, -3)}[name]
    ax.annotate(
        name, tuple(place(ENDS[name])), xytext=shift, textcoords="offset points", color=INK,
        ha="center", va="center", annotation_clip=False,
    )  # fmt: skip
