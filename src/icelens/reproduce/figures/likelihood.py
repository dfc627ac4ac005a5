"""Contours of the log-likelihood log q_i = log h(p; C)_i."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from icelens.plots import contours, level_bar, simplex, simplex_contours, style
from icelens.plots.simplices import place, simplex_points
from icelens.plots.style import INK
from icelens.reproduce.figures.belief import TITLES, believed, log_belief

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[Any]

CLASS_COUNTS = (2, 3, 5, 7, 10)
CONFIDENCES = (0.1, 0.3, 0.5, 0.7, 0.9)
LEVELS = [float(level) for level in np.linspace(-4, 0, 17)]
GRID = 101  # values of p_i and of C
STEPS = 100  # of the simplex
EDGE = 1e-3
LINE: dict[str, Any] = {"linestyle": (0, (4, 2)), "linewidth": 1.0, "color": INK}


@style()
def contours_probability(results: Path) -> Figure:
    """Contours over p_i and C for five numbers of classes; all but p_i share the rest alike."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 3.4))
    axes = figure.subplots(2, len(CLASS_COUNTS), sharex=True, sharey=True)
    share = np.linspace(0, 1, GRID)
    for row, transform in zip(axes, TITLES, strict=True):
        for ax, classes in zip(row, CLASS_COUNTS, strict=True):
            contours(ax, share, share, likelihood(transform, share, share, classes), LEVELS)
            ax.axvline(1 / classes, **LINE)
            ax.set_aspect("equal")
            ax.set_xticks([0, 0.5, 1], ["0", "½", "1"])
            ax.set_yticks([0, 0.5, 1], ["0", "½", "1"])
        row[0].set_ylabel(f"{TITLES[transform]}\nconfidence $C$")
    for (top, bottom), classes in zip(axes.T, CLASS_COUNTS, strict=True):
        top.set_title(f"$K = {classes}$", loc="center")
        bottom.set_xlabel("probability $p_i$")
    _explain(figure, axes)
    return figure


def likelihood(transform: str, p_i: Array, confidence: Array, classes: int) -> Array:
    """log q_i, (confidences, probabilities), where the other K − 1 classes have (1 − p_i)/(K − 1) each.

    The linear interpolation depends on p_i alone; the power transformation on the others too.
    """
    p = np.repeat(((1 - p_i) / (classes - 1))[:, None], classes, axis=1)
    p[:, 0] = p_i
    c, rows = (grid.ravel() for grid in np.meshgrid(confidence, np.arange(len(p_i)), indexing="ij"))
    # 0^0 has no value; at C = 0 every class has the same probability whatever p is.
    p = np.where(c[:, None] == 0, 1 / classes, p[rows])
    return log_belief(transform, p, c)[:, 0].reshape(len(confidence), len(p_i))


@style()
def contours_simplex(results: Path) -> Figure:
    """Contours on the simplex of three classes for five confidences; class i is the upper corner."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 3.3))
    axes = figure.subplots(2, len(CONFIDENCES))
    p = simplex_points(STEPS)
    for row, transform in zip(axes, TITLES, strict=True):
        for ax, confidence in zip(row, CONFIDENCES, strict=True):
            simplex_contours(ax, p, log_belief(transform, p, confidence)[:, 0], LEVELS)
            _turning_line(ax, transform, confidence)
            simplex(ax, names=("$i$", "", ""))
        row[0].text(-0.1, 0.43, TITLES[transform], rotation=90, ha="right", va="center")
    for ax, confidence in zip(axes[0], CONFIDENCES, strict=True):
        ax.set_title(f"$C = {confidence}$", loc="center", pad=12)
    _explain(figure, axes)
    return figure


def slope(transform: str, p: Array, confidence: float) -> Array:
    """d log q_i / dC of class 0 for p (n, K): where it is below 0, C sinks for an example with that label.

    Linear: (p_i − 1/K) / q_i. Power: Σ_j q_j log(p_i / p_j), which is 0 where p_i = exp(−H(q, p)).
    """
    q = believed(transform, p, confidence)
    if transform == "linear":
        return np.asarray((p[:, 0] - 1 / p.shape[1]) / q[:, 0])
    return np.asarray(np.log(p[:, 0]) - (q * np.log(p)).sum(1))


def _turning_line(ax: Axes, transform: str, confidence: float) -> None:
    """Where log q_i does not depend on C; drawn up to the edges, where the power's slope jumps."""
    p = simplex_points(STEPS) * (1 - 3 * EDGE) + EDGE
    x, y = place(p).T
    look = {"colors": LINE["color"], "linewidths": LINE["linewidth"], "linestyles": [LINE["linestyle"]]}
    ax.tricontour(x, y, slope(transform, p, confidence), levels=[0], **look)


def _explain(figure: Figure, axes: Any) -> None:
    from matplotlib.lines import Line2D

    bar = level_bar(figure, axes, LEVELS, label=r"log-likelihood  $\log\,q_i$")
    bar.set_ticks([-4, -3, -2, -1, 0])
    turning = Line2D(
        [], [], **LINE, label=r"$\partial \log q_i / \partial C = 0$: at smaller $p_i$ the confidence sinks"
    )
    figure.legend(handles=[turning], loc="outside lower center", handlelength=3)
