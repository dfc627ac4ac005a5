"""What noise and its approximations do to a prediction, on the simplex of three classes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from icelens.plots import simplex, style
from icelens.plots.simplices import arrow, mark, mesh, triangle
from icelens.plots.style import BLUE, INK, VERMILLION
from icelens.reproduce.figures.belief import TITLES, believed, best_confidence

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

Array = NDArray[Any]

# The paper gives no numbers for its first picture; these show what its caption says.
CLEAN = np.array([0.86, 0.08, 0.06])
TRANSITION = np.array([[0.60, 0.26, 0.14], [0.12, 0.76, 0.12], [0.10, 0.22, 0.68]])
ESTIMATED = np.array([[0.60, 0.26, 0.14], [0.04, 0.50, 0.46], [0.38, 0.02, 0.60]])  # two rows are wrong
CERTAINTIES = (0.95, 0.8, 0.6, 0.4)

Look = dict[str, Any]
CLEAN_SIGN: Look = {"marker": "^", "colour": BLUE}
NOISY_SIGN: Look = {"marker": "v", "colour": VERMILLION}
ESTIMATED_SIGN: Look = {"marker": "^", "colour": VERMILLION, "hollow": True}
BELIEVED_SIGN: Look = {"marker": "v", "colour": BLUE, "hollow": True}
TRUE_LINE: Look = {"edgecolor": VERMILLION, "linewidth": 1.0}
WRONG_LINE: Look = {"edgecolor": INK, "linewidth": 1.0, "linestyle": (0, (1, 1.5))}
REGION: Look = {"facecolor": VERMILLION, "alpha": 0.2, "edgecolor": "none"}


@style()
def simplex_transforms(results: Path) -> Figure:
    """From p to q by a transition matrix, by a wrong one, and by one confidence in two ways.

    Each C is the one whose h(p; C) is nearest to q.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 2.25))
    axes = figure.subplots(1, 5)
    noisy = CLEAN @ TRANSITION
    _panel(axes[0], "clean posterior")
    mark(axes[0], CLEAN, **CLEAN_SIGN)
    _moved(axes[1], r"estimated $\hat{T}(x)$", lambda p: p @ ESTIMATED, ESTIMATED_SIGN)
    triangle(axes[1], ESTIMATED, **WRONG_LINE)
    for ax, transform in zip(axes[2:4], TITLES, strict=True):
        confidence = best_confidence(transform, CLEAN, noisy)
        title = f"{TITLES[transform].split()[0]}, $C = {confidence:.2f}$"
        _moved(ax, title, partial(believed, transform, confidence=confidence), BELIEVED_SIGN)
    _moved(axes[4], "true $T(x)$", lambda p: p @ TRANSITION, NOISY_SIGN)
    for ax in axes[1:4]:
        mark(ax, noisy, **NOISY_SIGN, zorder=3.5)
    signs = {
        "clean $p$": CLEAN_SIGN,
        "noisy $q = pT$": NOISY_SIGN,
        r"estimated $p\hat{T}$": ESTIMATED_SIGN,
        "approximated $h(p;\\,C)$": BELIEVED_SIGN,
    }
    _legend(figure, [_sign(name, **look) for name, look in signs.items()])
    return figure


@style()
def simplex_rows(results: Path) -> Figure:
    """How little the other K − 1 rows of a transition matrix matter once p is nearly certain."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    figure = Figure(figsize=(7.5, 2.6))
    axes = figure.subplots(1, len(CERTAINTIES))
    for ax, certainty in zip(axes, CERTAINTIES, strict=True):
        p = np.array([certainty, 0.55 * (1 - certainty), 0.45 * (1 - certainty)])
        _panel(ax, f"$\\max\\,p = {certainty}$")
        triangle(ax, reachable(p, TRANSITION[0]), **REGION)
        triangle(ax, TRANSITION, **TRUE_LINE)
        triangle(ax, ESTIMATED, **WRONG_LINE)
        for q, look in [(p, CLEAN_SIGN), (p @ TRANSITION, NOISY_SIGN), (p @ ESTIMATED, ESTIMATED_SIGN)]:
            mark(ax, q, **look)
    signs = {"clean $p$": CLEAN_SIGN, "noisy $q = pT$": NOISY_SIGN, r"estimated $p\hat{T}$": ESTIMATED_SIGN}
    patches = {
        "$T$": TRUE_LINE,
        r"$\hat{T}$, two rows wrong": WRONG_LINE,
        r"every $p\hat{T}$ if row 1 is right": REGION,
    }
    handles = [_sign(name, **look) for name, look in signs.items()]
    _legend(
        figure,
        [*handles, *(Patch(**{"facecolor": "none", **look}, label=name) for name, look in patches.items())],
    )
    return figure


def reachable(p: Array, first_row: Array) -> Array:
    """Corners of the triangle of all q = pT whose T has this first row:  p_1·T_1 + (1 − p_1)·e_k.

    >>> reachable(np.array([1.0, 0.0, 0.0]), np.array([0.5, 0.5, 0.0]))[2]
    array([0.5, 0.5, 0. ])
    """
    corners: Array = p[0] * first_row + (1 - p[0]) * np.eye(len(p))
    return corners


def _panel(ax: Axes, title: str) -> None:
    mesh(ax)
    simplex(ax)
    ax.set_title(title, loc="center", pad=12)


def _moved(ax: Axes, title: str, change: Callable[[Array], Array], look: Look) -> None:
    """What a map makes of the grid, and of the clean posterior."""
    _panel(ax, title)
    mesh(ax, change, color=BLUE, alpha=0.45)
    moved = change(CLEAN[None])[0]
    arrow(ax, CLEAN, moved)
    mark(ax, CLEAN, **CLEAN_SIGN)
    mark(ax, moved, **look)


def _sign(name: str, marker: str, colour: str, hollow: bool = False) -> Line2D:
    from matplotlib.lines import Line2D

    face = "white" if hollow else colour
    return Line2D(
        [], [], linestyle="none", marker=marker, markeredgecolor=colour, markerfacecolor=face, label=name
    )


def _legend(figure: Figure, handles: list[Any]) -> None:
    figure.legend(
        handles=handles, loc="outside lower center", ncols=len(handles), handletextpad=0.4, columnspacing=1.4
    )
