"""Confidences during training, of flipped and of original labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from icelens.errors import InputError
from icelens.plots import ridgeline, style
from icelens.reproduce.figures.stored import store, stored
from icelens.reproduce.paper import DATA, ICE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from icelens.train import Run

Array = NDArray[Any]

SHOWN = ("mnist", "cifar10")
ROWS = (("mnist", "fashion-mnist", "kmnist"), ("svhn", "cifar10", "cifar100"))
SAMPLE = 2000  # examples of a run that are kept
HOW = "run `icelens reproduce run table1-{data}`, which keeps it"


def ridgelines(results: Path) -> Figure:
    """C during training on half flipped labels; both transformations side by side, a data set in each row."""
    return _grid(results, [[(data, method) for method in ICE] for data in SHOWN])


def ridgelines_all(results: Path) -> Figure:
    """C during training on half flipped labels, for all image data sets and both transformations."""
    return _grid(results, [[(data, method) for data in row] for row in ROWS for method in ICE])


@style()
def _grid(results: Path, panels: list[list[tuple[str, str]]]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.75 * len(panels[0]), 4.1 * len(panels)))
    axes = figure.subplots(len(panels), len(panels[0]), squeeze=False)
    for row, names in zip(axes, panels, strict=True):
        for ax, (data, method) in zip(row, names, strict=True):
            arrays = stored(results, f"ridgeline_{data}_{method}", how=HOW.format(data=data))
            ridgeline(ax, arrays["confidence"], arrays["moved"], steps=arrays["iterations"].tolist())
            ax.set_title(f"{DATA[data]}, {ICE[method]}")
        row[0].set_ylabel("iteration")
    return figure


def ridge_arrays(run: Run, *, examples: int = SAMPLE, seed: int = 0) -> dict[str, Array]:
    """The history of a run on some of the examples that it was trained on.

    Args:
        run: trained by ICE with flipped labels and snapshots.
        examples: how many to draw; all, where the run has fewer.
        seed: of the draw.

    Returns:
        `iterations` (snapshots,), `confidence` (snapshots, examples) in half precision, `moved` (examples,).
    """
    table = run.examples()
    if "moved" not in table:
        raise InputError(
            f"{run.folder}: no label was flipped in this run, so there are no two groups to show"
        )
    trained = np.flatnonzero(~table["held_out"].to_numpy(dtype=bool))
    rows = np.random.default_rng(seed).permutation(trained)[:examples]
    rows.sort()
    iterations, confidence = run.history()
    return {
        "iterations": iterations.numpy(),
        "confidence": confidence[:, rows].half().numpy(),
        "moved": table["moved"].to_numpy(dtype=bool)[rows],
    }


def store_ridges(run: Run, results: Path, *, examples: int = SAMPLE, seed: int = 0) -> Path:
    """Keep what the ridgelines of a run are drawn from; see `ridge_arrays`."""
    recipe = run.recipe()
    return store(
        results, f"ridgeline_{recipe.data}_{recipe.loss}", ridge_arrays(run, examples=examples, seed=seed)
    )
