"""Images of any of Pillow's modes as grey or colour of 8 bits, without transparency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageStat

GREY = ("1", "L", "LA", "La")
FAINT = 32  # of 255: what differs less from white, in the mean over what is drawn, is lost on it
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}  # fmt: skip
NO_NUMBER = 1e30  # beyond lies what stands for no number, such as -3.4e38 in maps of heights


def flat(image: Image.Image) -> Image.Image:
    """Grey (mode L) or colour (RGB) without transparency, the right way up; deeper greys as numbers (I or F).

    `eight_bits` scales those once all are there.
    """
    image = _upright(image)
    if image.mode.startswith("I"):
        return image.convert("I")
    if image.mode == "F":
        numbers = np.asarray(image)
        return Image.fromarray(np.where(np.abs(numbers) < NO_NUMBER, numbers, np.float32(0)))
    if image.has_transparency_data:
        return _on_paper(image)
    return image.convert("L" if image.mode in GREY else "RGB")


def colour(image: Image.Image) -> Image.Image:
    """Three channels of 8 bits; deeper greys are stretched by what this image alone holds."""
    seen = flat(image)
    if seen.mode not in ("L", "RGB"):
        seen = Image.fromarray(eight_bits([np.asarray(seen)])[0])
    return seen.convert("RGB")


def eight_bits(deep: Sequence[NDArray[Any]]) -> list[NDArray[np.uint8]]:
    """Greys of more than 8 bits as 0 to 255, from the least to the greatest number in all of the images.

    One scale for all, so that a dark image stays dark; and theirs, since a file of 16 bits may as well hold
    8, 12 or 14, and floats are in the units of whatever was measured.
    """
    low = min(float(image.min()) for image in deep)
    width = max(float(image.max()) for image in deep) - low
    scale = 255 / width if width else 0.0
    return [((image.astype(np.float64) - low) * scale).round().astype(np.uint8) for image in deep]


def _upright(image: Image.Image) -> Image.Image:
    """The image as its EXIF orientation has it, if that can be read.

    Not by `ImageOps.exif_transpose`, which writes all of EXIF anew, and fails where a tag is odd.
    """
    try:
        turn = TURNS.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # EXIF is whatever the camera wrote
        return image
    return image if turn is None else image.transpose(turn)


def _on_paper(image: Image.Image) -> Image.Image:
    """A transparent image on white, or on black where what is drawn is so light that white would hide it.

    Transparency that is the same everywhere is no part of the picture and is left out.
    """
    both = image.convert("LA" if image.mode in GREY else "RGBA")
    colour, alpha = both.convert(both.mode[:-1]), both.getchannel("A")
    least, most = alpha.getextrema()
    if least == most:
        return colour
    on_white = Image.composite(colour, Image.new(colour.mode, colour.size, "white"), alpha)
    ink = 255 - min(ImageStat.Stat(on_white).mean)
    if ink >= FAINT * ImageStat.Stat(alpha).mean[0] / 255:
        return on_white
    return Image.composite(colour, Image.new(colour.mode, colour.size), alpha)
