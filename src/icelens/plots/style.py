"""How figures look: the colours, the settings of matplotlib, and files that are equal byte for byte."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icelens.errors import InputError
from icelens.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which people with any kind of colour vision tell apart.
VERMILLION, BLUE, GREEN, PURPLE = "#D55E00", "#0072B2", "#009E73", "#CC79A7"
ORANGE, SKY = "#E69F00", "#56B4E9"
INK, GREY, FAINT = "#222222", "#767676", "#DDDDDD"
# What a series of lines takes in turn.
PALETTE = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, INK)
# What three classes take: also told apart in grey, and neither of them says flipped.
CLASSES = (BLUE, ORANGE, GREEN)
MARKERS = ("o", "s", "^")

_SETTINGS: dict[str, Any] = {
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.labelcolor": INK,
    "axes.edgecolor": GREY,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.4,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "pdf.fonttype": 42,  # text stays text in a PDF
    "svg.hashsalt": "icelens",  # element names of an SVG are random otherwise
}

# The entries that hold the time or the version of the library that wrote the file.
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "svg": {"Date": None, "Creator": None},
}


@contextmanager
def style() -> Iterator[None]:
    """Within it, figures are made in the style of icelens; outside, the user's settings are untouched.

    >>> from matplotlib.figure import Figure
    >>> with style():
    ...     ax = Figure(figsize=(4, 3)).subplots()
    """
    from matplotlib import rc_context
    from matplotlib.rcsetup import cycler

    settings: dict[Any, Any] = {**_SETTINGS, "axes.prop_cycle": cycler(color=PALETTE)}
    with rc_context(settings):
        yield


def filling(levels: Sequence[float]) -> dict[str, Any]:
    """Settings by which colours between levels are the same in every contour plot and in their bar.

    The colours are viridis, which grows lighter evenly for people with any kind of colour vision.
    """
    from matplotlib import colormaps
    from matplotlib.colors import BoundaryNorm

    cmap = colormaps["viridis"]
    return {
        "levels": levels,
        "cmap": cmap,
        "norm": BoundaryNorm(levels, cmap.N, extend="min"),
        "extend": "min",
    }


def save(figure: Figure, path: str | Path, *, dpi: int = 160) -> Path:
    """Write a figure as PNG, PDF or SVG, as the suffix says; the same figure gives the same bytes."""
    path = Path(path)
    kind = path.suffix.lower().removeprefix(".")
    if kind not in _METADATA:
        raise InputError(f"{path}: figures are saved as .png, .pdf or .svg")
    drawn = io.BytesIO()
    with style():
        figure.savefig(drawn, format=kind, dpi=dpi, metadata=_METADATA[kind])
    with replacing(path) as part:
        part.write_bytes(drawn.getvalue())
    return path
