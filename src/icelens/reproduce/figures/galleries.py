"""The training images that a run on original labels trusts least."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from icelens.errors import InputError
from icelens.plots import Caption, gallery, gallery_size, style
from icelens.reproduce.figures.stored import store, stored
from icelens.reproduce.paper import DATA, ICE

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

    from icelens.data import Examples, Split
    from icelens.train import Run

Array = NDArray[Any]

SHOWN, COLUMNS = 32, 8
HEADING = 0.24  # inches above each gallery
# Inches: digits and syllables are short, the names of things need more room.
WIDTHS = {"fashion-mnist": 10.0, "cifar10": 10.0, "cifar100": 10.0}
HOW = "run `icelens reproduce run original-{data}`, which keeps it"


@style()
def least_confident(results: Path, data: str) -> Figure:
    """The least confident training images of a data set by both transformations, the lowest C first."""
    from matplotlib.figure import Figure

    galleries = {
        title: stored(results, f"gallery_{data}_{method}", how=HOW.format(data=data))
        for method, title in ICE.items()
    }
    width, height = gallery_size(SHOWN, columns=COLUMNS, width=WIDTHS.get(data, 7.5))
    figure = Figure(figsize=(width, len(galleries) * (height + HEADING)))
    parts: Any = figure.subfigures(2 * len(galleries), 1, height_ratios=[HEADING, height] * len(galleries))
    for number, (title, arrays) in enumerate(galleries.items()):
        _head(parts[2 * number], f"{DATA[data]}, {title}", arrays)
        gallery(parts[2 * number + 1], arrays["images"], _captions(arrays), columns=COLUMNS)
    return figure


@style()
def least_trusted(results: Path, data: str = "mnist", method: str = "ice_linear") -> Figure:
    """The same by one transformation alone, for the first page."""
    from matplotlib.figure import Figure

    arrays = stored(results, f"gallery_{data}_{method}", how=HOW.format(data=data))
    figure = Figure(figsize=gallery_size(SHOWN, columns=COLUMNS, width=WIDTHS.get(data, 7.5)))
    gallery(figure, arrays["images"], _captions(arrays), columns=COLUMNS)
    return figure


def gallery_arrays(run: Run, train: Examples, *, count: int = SHOWN) -> dict[str, Array]:
    """The examples of a run with the lowest confidence, among those it was trained on.

    Args:
        run: trained by ICE on original labels.
        train: the training images of that run.
        count: how many.

    Returns:
        `images` uint8 (count, channels, height, width), `index`, `label`, `guess`, `confidence` (count,),
        the lowest confidence first.
    """
    import torch

    table = run.examples()
    if "confidence" not in table:
        raise InputError(f"{run.folder}: a run with loss={run.recipe().loss} has no confidences")
    if run.recipe().noise_rate:
        raise InputError(
            f"{run.folder}: labels were flipped on purpose in this run; take one with noise_rate=0"
        )
    names = np.array(train.classes)
    if len(table) != len(train) or (table["label"].to_numpy(dtype=str) != names[train.labels]).any():
        raise InputError(f"{run.folder}: the labels of this run are not those of the data")
    lowest = table[~table["held_out"]].nsmallest(count, "confidence")
    images = torch.as_tensor(train.inputs)[lowest["index"].tolist()]
    return {
        "images": _bytes(images.numpy()),
        "index": lowest["index"].to_numpy(),
        "label": lowest["label"].to_numpy(dtype=str),
        "guess": lowest["guess"].to_numpy(dtype=str),
        "confidence": lowest["confidence"].to_numpy(),
    }


def store_gallery(run: Run, results: Path, *, split: Split | None = None, count: int = SHOWN) -> Path:
    """Keep what the gallery of a run is drawn from; see `gallery_arrays`.

    Args:
        run: trained by ICE on original labels.
        results: the folder of stored results.
        split: the data of the run; where left out, the recipe's is loaded.
        count: how many images.
    """
    from icelens.data import load

    recipe = run.recipe()
    train = (split or load(recipe.data, recipe.root)).train
    return store(results, f"gallery_{recipe.data}_{recipe.loss}", gallery_arrays(run, train, count=count))


def _captions(arrays: dict[str, Array]) -> list[Caption]:
    rows = zip(arrays["index"], arrays["label"], arrays["guess"], strict=True)
    return [Caption(int(index), _spaced(label), _spaced(guess)) for index, label, guess in rows]


def _spaced(name: str) -> str:
    return str(name).replace("_", " ")


def _head(part: SubFigure, title: str, arrays: dict[str, Array]) -> None:
    part.text(0.005, 0.35, title, size=9, weight="bold", va="center")
    part.text(0.995, 0.35, f"C ≤ {arrays['confidence'].max():.2g}", ha="right", va="center")


def _bytes(images: Array) -> Array:
    """Images as bytes: those in [0, 1] times 255."""
    if images.dtype == np.uint8:
        return images
    return np.asarray((images.clip(0, 1) * 255).round(), dtype=np.uint8)
