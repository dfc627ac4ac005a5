"""The noise models as graphs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from icelens.plots import graph, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

X, Y, GIVEN, C = "$X$", "$Y$", r"$\tilde{Y}$", "$C$"
PLACES = {X: (0.0, 1.0), Y: (0.0, 0.0), GIVEN: (1.0, 0.0), C: (1.0, 1.0)}
# In the order of the paper: what each model is called, and what depends on what.
MODELS = {
    "IND": ("conditionally\nindependent labels", [(X, Y), (X, GIVEN)]),
    "CCN": ("class-conditional\nnoise", [(X, Y), (Y, GIVEN)]),
    "IDN": ("instance-dependent\nnoise", [(X, Y), (Y, GIVEN), (X, GIVEN)]),
    "ICE": ("instance-confidence\nembedding", [(X, Y), (Y, GIVEN), (X, C), (C, GIVEN)]),
}


@style()
def noise_models(results: Path) -> Figure:
    """What the given label depends on in four noise models; grey variables are observed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.2, 2.1))
    axes = figure.subplots(1, len(MODELS))
    for ax, (name, (title, edges)) in zip(axes, MODELS.items(), strict=True):
        nodes = {node: place for node, place in PLACES.items() if any(node in edge for edge in edges)}
        graph(ax, nodes, edges, observed=(X, GIVEN))
        ax.set_title(name, loc="center", weight="bold")
        ax.text(0.5, -0.04, title, ha="center", va="top", transform=ax.transAxes, linespacing=1.1)
    return figure
