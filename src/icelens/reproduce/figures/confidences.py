"""Confidences during training, of flipped and of original labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from icelens.errors import InputError
from icelens.plots import ridgeline, style
from icelens.reproduce.figures.stored import DATA_NAMES, METHOD_NAMES, store, stored

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from icelens.train import Run

Array = NDArray[Any]

DATA = ("mnist", "cifar10")
SAMPLE = 2000  # examples of a run that are kept
HOW = (
    "train {data} with loss={method}, noise_rate=0.5 and snapshots=20, "
    "then icelens.reproduce.figures.store_ridges(run, results)"
)


@style()
def ridgelines(results: Path) -> Figure:
    """C during training on half flipped labels; both transformations side by side, a data set in each row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 8.2))
    axes = figure.subplots(len(DATA), len(METHOD_NAMES))
    for row, data in zip(axes, DATA, strict=True):
        for ax, method in zip(row, METHOD_NAMES, strict=True):
            arrays = stored(results, f"ridgeline_{data}_{method}", how=HOW.format(data=data, method=method))
            ridgeline(ax, arrays["confidence"], arrays["moved"], steps=arrays["iterations"].tolist())
            ax.set_title(f"{DATA_NAMES[data]}, {METHOD_NAMES[method]}")
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
