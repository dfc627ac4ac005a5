"""Graphical models: circles for variables, grey where they are observed, arrows for dependence."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from icelens.errors import InputError
from icelens.plots.style import FAINT, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RADIUS = 0.3  # of a circle, where neighbours stand 1 apart


def graph(
    ax: Axes,
    nodes: Mapping[str, tuple[float, float]],
    edges: Sequence[tuple[str, str]],
    *,
    observed: Collection[str] = (),
) -> Axes:
    """Draw a graphical model: a circle for each variable, an arrow for each dependence.

    Args:
        ax: where to draw; its own frame and ticks are taken away.
        nodes: what is written in the circle -> its place, with neighbours about 1 apart.
        edges: pairs of nodes, from and to.
        observed: the nodes to shade, whose values are known.
    """
    strangers = {name for edge in edges for name in edge} | set(observed)
    if not strangers <= set(nodes):
        raise InputError(f"no node {sorted(strangers - set(nodes))[0]!r}; nodes are {', '.join(nodes)}")
    for name, place in nodes.items():
        _circle(ax, name, place, shaded=name in observed)
    for start, end in edges:
        _arrow(ax, nodes[start], nodes[end])
    places = np.array(list(nodes.values()))
    low, high = places.min(0) - RADIUS - 0.1, places.max(0) + RADIUS + 0.1
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    ax.set_axis_off()
    return ax


def _circle(ax: Axes, name: str, place: tuple[float, float], *, shaded: bool) -> None:
    from matplotlib.patches import Circle

    fill = FAINT if shaded else "white"
    ax.add_patch(Circle(place, RADIUS, facecolor=fill, edgecolor=INK, linewidth=0.9, zorder=2))
    ax.text(*place, name, size=12, ha="center", va="center_baseline", zorder=3)


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    """From the rim of one circle to the rim of the other."""
    from matplotlib.patches import FancyArrowPatch

    tail, head = np.array(start), np.array(end)
    along = (head - tail) / np.linalg.norm(head - tail) * RADIUS
    ax.add_patch(
        FancyArrowPatch(
            tuple(tail + along),
            tuple(head - along),
            arrowstyle="-|>,head_length=0.5,head_width=0.22",
            mutation_scale=9,
            shrinkA=0,
            shrinkB=0,
            color=INK,
            linewidth=0.9,
        )
    )
