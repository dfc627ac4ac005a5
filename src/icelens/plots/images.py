"""A grid of images with the label each was given and the one the model guesses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from icelens.errors import InputError
from icelens.plots.arrays import as_array, as_flags, is_tensor
from icelens.plots.style import BLUE, GREY, VERMILLION

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

Array = NDArray[Any]
Place = tuple[float, float, float, float]
F = TypeVar("F", "Figure", "SubFigure")

# In points: the size of the letters, the two lines under an image, the gap between neighbours.
LETTERS, CAPTION, GAP = 7.0, 24.0, 8.0
# By the longer side in pixels: a digit of 8 x 8 is readable only when smoothed, one of 28 x 28 as it is.
INTERPOLATION = {16: "bicubic", 100: "nearest", float("inf"): "auto"}


@dataclass(frozen=True)
class Caption:
    """What stands under an image: its row in the data set, the given label, the model's guess."""

    index: int | str
    given: str
    guess: str


def gallery(
    figure: F,
    images: Any,
    captions: Sequence[Caption],
    *,
    columns: int = 8,
    flipped: Any = None,
) -> F:
    """Show images in a grid, in the order given, each with its index and "given → guess".

    Make the figure with `figsize=gallery_size(len(images))`, which leaves no empty space.

    Args:
        figure: where to draw.
        images: (n, H, W), (n, H, W, 1 or 3) or, as torch has it, (n, 1 or 3, H, W). Bytes, or numbers
            in [0, 1]; numbers outside it are stretched from the least to the greatest of all images.
        captions: one per image. Names too long for one line are cut; fewer columns leave more room.
        columns: images in a row.
        flipped: (n,), True where the label is known to be wrong: such an image gets a frame.
    """
    pixels = _pixels(images)
    if len(captions) != len(pixels):
        raise InputError(f"{len(pixels)} images need as many captions, got {len(captions)}")
    framed = np.zeros(len(pixels), bool) if flipped is None else as_flags(flipped, len(pixels))
    places, room = _places(figure, len(pixels), columns)
    # Constrained layout warns where no Axes is its own to place; the images have fixed places.
    figure.add_subplot().set_axis_off()
    for place, image, caption, frame in zip(places, pixels, captions, framed, strict=True):
        ax = figure.add_axes(place)
        _show(ax, image, frame=bool(frame))
        _write(ax, caption, room)
    return figure


def gallery_size(
    count: int, *, columns: int = 8, width: float = 7.5, aspect: float = 1.0
) -> tuple[float, float]:
    """Width and height in inches for that many images, whose own height is `aspect` times their width.

    >>> gallery_size(24)
    (7.5, 3.59)
    """
    rows = _rows(count, columns)
    image = (width / columns - GAP / 72) * aspect
    return width, round(rows * (image + CAPTION / 72) + GAP / 72, 2)


def _places(figure: Figure | SubFigure, count: int, columns: int) -> tuple[Iterator[Place], float]:
    """Where each image goes, in fractions of the figure, and the room for a caption in points."""
    width, height = (side / figure.dpi * 72 for side in (figure.bbox.width, figure.bbox.height))
    rows = _rows(count, columns)
    across, down = width / columns, (height - GAP) / rows
    image = across - GAP, down - CAPTION
    if min(image) <= 0:
        raise InputError(f"{count} images in {columns} columns do not fit the figure; see gallery_size()")
    corners = ((i % columns * across + GAP / 2, height - GAP - i // columns * down) for i in range(count))
    places = (
        (left / width, (top - image[1]) / height, image[0] / width, image[1] / height)
        for left, top in corners
    )
    return places, across - GAP / 2


def _rows(count: int, columns: int) -> int:
    if columns < 1:
        raise InputError(f"columns must be at least 1, got {columns}")
    return max(1, -(-count // columns))


def _show(ax: Axes, image: Array, *, frame: bool) -> None:
    interpolation = next(name for side, name in INTERPOLATION.items() if max(image.shape[:2]) < side)
    ax.imshow(image, cmap="gray", vmin=0, vmax=1, interpolation=interpolation)
    # The caption hangs from the lower edge, so an image that does not fill its place stands on it.
    ax.set_anchor("S")
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set(visible=frame, color=VERMILLION, linewidth=1.2)


def _write(ax: Axes, caption: Caption, room: float) -> None:
    from matplotlib.offsetbox import AnnotationBbox, HPacker, TextArea, VPacker

    def text(content: object, colour: str) -> TextArea:
        # A dollar sign in a label is no formula.
        return TextArea(str(content), textprops={"color": colour, "size": LETTERS, "parse_math": False})

    given, guess = _shortened(str(caption.given), str(caption.guess), room)
    words: list[Artist] = [text(given, VERMILLION), text("→", GREY), text(guess, BLUE)]
    verdict = HPacker(children=words, pad=0, sep=LETTERS * 0.35, align="baseline")
    lines = VPacker(children=[text(caption.index, GREY), verdict], pad=0, sep=1.5, align="center")
    box = AnnotationBbox(
        lines,
        (0.5, 0),
        xycoords="axes fraction",
        xybox=(0, -2.5),
        boxcoords="offset points",
        box_alignment=(0.5, 1),
        frameon=False,
        pad=0,
    )
    ax.add_artist(box)


def _shortened(given: str, guess: str, room: float) -> tuple[str, str]:
    """Both names, the longer one cut until they and the arrow are no wider than that many points.

    >>> _shortened("pickup truck", "bus", 60.0)
    ('pickup t…', 'bus')
    """
    while _width(f"{given} → {guess}") > room and max(len(given), len(guess)) > 2:
        if len(given) >= len(guess):
            given = given.removesuffix("…")[:-1] + "…"
        else:
            guess = guess.removesuffix("…")[:-1] + "…"
    return given, guess


def _width(text: str) -> float:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    return float(text_to_path.get_text_width_height_descent(text, FontProperties(size=LETTERS), False)[0])


def _pixels(images: Any) -> Array:
    """Images as (n, H, W) or (n, H, W, 3) with values in [0, 1]."""
    array = as_array(images)
    if array.ndim == 4:
        array = _channels_last(array, torch_order=is_tensor(images))
    if array.ndim not in (3, 4) or 0 in array.shape[1:]:
        raise InputError(f"images must be (n, H, W), (n, H, W, 3) or (n, 3, H, W), got {array.shape}")
    if array.dtype == np.uint8:
        return array / 255
    array = array.astype(float)
    if not array.size or (array.min() >= 0 and array.max() <= 1):
        return array
    array -= array.min()
    array /= max(array.max(), np.finfo(float).tiny)
    return array


def _channels_last(array: Array, *, torch_order: bool) -> Array:
    """(n, H, W, 3), or (n, H, W) where there is one channel, of either order of the axes."""
    first, last = array.shape[1] in (1, 3), array.shape[3] in (1, 3)
    if not first and not last:
        raise InputError(f"colour images must have 1 or 3 channels, got shape {array.shape}")
    if first and (torch_order or not last):
        array = np.moveaxis(array, 1, -1)
    return array[..., 0] if array.shape[-1] == 1 else array
