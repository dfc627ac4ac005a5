"""FIGURES: the paper's figures by name, each drawn from stored results alone, and `draw_all`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from icelens.errors import MissingFileError, unknown
from icelens.plots import save
from icelens.reproduce.figures.confidences import ridge_arrays, ridgelines, ridgelines_all, store_ridges
from icelens.reproduce.figures.demo import demo_posteriors
from icelens.reproduce.figures.galleries import gallery_arrays, least_confident, least_trusted, store_gallery
from icelens.reproduce.figures.likelihood import contours_probability, contours_simplex
from icelens.reproduce.figures.mixing import smoothing
from icelens.reproduce.figures.models import noise_models
from icelens.reproduce.figures.transitions import simplex_rows, simplex_transforms
from icelens.reproduce.paper import DATA

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "FIGURES",
    "Drawn",
    "draw_all",
    "gallery_arrays",
    "ridge_arrays",
    "store_demo",
    "store_gallery",
    "store_ridges",
]

DPI = 200

FIGURES: dict[str, Callable[[Path], Figure]] = {
    "noise-models": noise_models,
    "simplex-transforms": simplex_transforms,
    "simplex-rows": simplex_rows,
    "demo-posteriors": demo_posteriors,
    "ridgelines": ridgelines,
    "ridgelines-all": ridgelines_all,
    "contours-probability": contours_probability,
    "contours-simplex": contours_simplex,
    "smoothing": smoothing,
    "least-trusted-mnist": least_trusted,
    **{f"least-confident-{data}": partial(least_confident, data=data) for data in DATA},
}


class Drawn(NamedTuple):
    """The files that were written, and for each figure that was not drawn the reason."""

    paths: list[Path]
    skipped: dict[str, str]


def draw_all(
    results: str | Path,
    out: str | Path,
    formats: Sequence[str] = ("png", "pdf"),
    names: Iterable[str] | None = None,
    *,
    dpi: int = DPI,
) -> Drawn:
    """Draw every figure whose stored results are there, each into `out/NAME.FORMAT`.

    Args:
        results: the folder of stored results.
        out: where the files go.
        formats: png, pdf or svg.
        names: of `FIGURES`; all of them where left out.
        dpi: dots per inch of a png.
    """
    drawn = Drawn([], {})
    for name in FIGURES if names is None else names:
        if name not in FIGURES:
            raise unknown("figure", name, FIGURES)
        try:
            figure = FIGURES[name](Path(results))
        except MissingFileError as error:
            drawn.skipped[name] = str(error)
            continue
        drawn.paths.extend(save(figure, Path(out) / f"{name}.{kind}", dpi=dpi) for kind in formats)
    return drawn


def store_demo(results: Path, *, seed: int = 0) -> Path:
    """Train the demo and keep what its figure is drawn from; takes seconds."""
    from icelens.reproduce.figures.demo_training import train_demo
    from icelens.reproduce.figures.stored import store

    return store(results, "demo_posteriors", train_demo(seed))
