"""The demo of learned class-posteriors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from icelens.plots import points_by_class, posteriors, style
from icelens.plots.style import CLASSES, FAINT, GREY, INK, MARKERS
from icelens.reproduce.figures.stored import stored

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[Any]

PANELS = {
    "cross_entropy": "(a) cross entropy",
    "weight_decay": "(b) weight decay",
    "network": "(c) network $g(x)$",
    "embedding": "(d) instance embedding",
}
HOW = "icelens reproduce figures demo-posteriors trains it in seconds"


@style()
def demo_posteriors(results: Path) -> Figure:
    """Class-posteriors learned in four ways from 200 examples, and how far each way believes an example."""
    from matplotlib.figure import Figure

    arrays = stored(results, "demo_posteriors", how=HOW)
    figure = Figure(figsize=(7.5, 3.4))
    axes = figure.subplots(2, len(PANELS), sharex=True, sharey="row", height_ratios=[1.7, 1])
    for (upper, lower), (name, title) in zip(axes.T, PANELS.items(), strict=True):
        _draw_posteriors(upper, arrays, name)
        upper.set_title(title, pad=15)
        note = f"mean error {posterior_error(arrays, name):.3f}"
        upper.annotate(note, (0, 1), (0, 4), "axes fraction", "offset points", color=GREY)
        _draw_confidences(lower, arrays, name)
        lower.set(xlabel="$x$", ylim=(-0.06, 1.06), yticks=[0, 0.5, 1])
    axes[0, 0].set_ylabel("posterior $p(Y\\,|\\,x)$")
    axes[1, 0].set_ylabel("confidence $C$")
    _explain(figure)
    return figure


def posterior_error(arrays: dict[str, Array], name: str) -> float:
    """Mean distance of a learned posterior from the true one over the examples:  mean_i ½ Σ_k |p_k − t_k|."""
    gaps = 0.5 * np.abs(arrays[name] - arrays["truth"]).sum(1)
    return float(np.interp(arrays["x"], arrays["grid"], gaps).mean())


def _draw_posteriors(ax: Axes, arrays: dict[str, Array], name: str) -> None:
    """The curves, and each example on the curve of its given label."""
    x, labels, p = arrays["x"], arrays["labels"], arrays[name]
    posteriors(ax, arrays["grid"], p, truth=arrays["truth"])
    given = np.stack([np.interp(x, arrays["grid"], p[:, k]) for k in range(3)])
    points_by_class(ax, x, given[labels, np.arange(len(x))], labels, flipped=arrays["moved"])


def _draw_confidences(ax: Axes, arrays: dict[str, Array], name: str) -> None:
    """C of each example; where nothing changes the prediction, it is believed as it is."""
    x, grid = arrays["x"], arrays["grid"]
    curve = arrays.get(f"{name}_confidence", np.ones(len(grid)))
    if len(curve) == len(grid):
        ax.plot(grid, curve, color=FAINT, zorder=1)
        curve = np.interp(x, grid, curve)
    points_by_class(ax, x, curve, arrays["labels"], flipped=arrays["moved"])


def _explain(figure: Figure) -> None:
    from matplotlib.lines import Line2D

    handles = [
        *(
            Line2D([], [], color=colour, marker=marker, markersize=4, label=f"class {k + 1}")
            for k, (colour, marker) in enumerate(zip(CLASSES, MARKERS, strict=True))
        ),
        Line2D([], [], color=GREY, linewidth=0.8, linestyle=(0, (4, 2)), label="truth"),
        Line2D(
            [],
            [],
            linestyle="none",
            marker="o",
            markersize=5,
            markerfacecolor="white",
            markeredgecolor=INK,
            label="mislabelled example",
        ),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
