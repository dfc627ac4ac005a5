"""Small pictures of images: decoded, shrunk and encoded anew, so that nothing else of a file gets in."""

from __future__ import annotations

import base64
import io
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

# Longest side and quality, the best first; the first that fits into the bytes of a picture is taken.
RUNGS = ((160, 80), (160, 60), (128, 60), (96, 60), (96, 40), (72, 40), (56, 30))
LOSSLESS = 48  # up to this side every pixel of an image counts, and few bytes hold them all


def picture(image: Any, room: int) -> str | None:
    """A data URI of about `room` bytes at most, or None where the image cannot be read.

    Args:
        image: a path, or a uint8 array (height, width) or (height, width, channels).
        room: bytes that the URI may take; the smallest size is taken where none fits.
    """
    try:
        return _fitting(read_image(image, RUNGS[0][0]), room)
    # Pillow raises errors of many kinds on damaged files, some of them Python's own.
    except Exception:
        return None


def is_coarse(image: str) -> bool:
    """Whether a data URI holds an image of few pixels, which is not to be smoothed when it is enlarged."""
    return image.startswith("data:image/png")


def read_image(image: Any, side: int) -> Image:
    """A path, a file in memory or a uint8 array as 8 bits of colour, as a network sees it: upright, on paper.

    Args:
        image: what to read, in one of the formats that are read as data, whatever the file is called.
        side: about the longest side that is needed: a large JPEG is then decoded to fewer pixels.
    """
    return _from_array(image) if isinstance(image, np.ndarray) else _from_file(image, side)


def encoded(image: Image, kind: str, **settings: Any) -> bytes:
    """The file of an image, "png" or "webp", without what else its file held."""
    file = io.BytesIO()
    # Metadata of the file, such as where a photograph was taken, stays behind.
    image.info = {}
    image.save(file, format=kind, **settings)
    return file.getvalue()


def _seen(image: Image) -> Image:
    from icelens.data.own.pixels import colour

    return colour(image)


def _from_file(path: Any, side: int) -> Image:
    from PIL import Image

    from icelens.data.own.images import open_image

    with warnings.catch_warnings():
        # An image that Pillow takes for an attack on memory counts as unreadable; other oddities do not.
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with open_image(path) as file:
            file.draft("RGB", (2 * side,) * 2)
            return _seen(file)


def _from_array(pixels: NDArray[Any]) -> Image:
    from PIL import Image

    if pixels.ndim == 3:
        # Pillow knows 1, 3 and 4 channels; of others the first says most.
        pixels = pixels if pixels.shape[-1] in (3, 4) else pixels[..., 0]
    return _seen(Image.fromarray(np.ascontiguousarray(pixels.astype(np.uint8))))


def _fitting(image: Image, room: int) -> str:
    if max(image.size) <= LOSSLESS:
        uri = _uri(image, "png", optimize=True)
        if len(uri) <= room:
            return uri
    for side, quality in RUNGS:
        image.thumbnail((side, side))
        uri = _uri(image, "webp", quality=quality, method=4)
        if len(uri) <= room:
            break
    return uri


def _uri(image: Image, kind: str, **settings: Any) -> str:
    content = base64.b64encode(encoded(image, kind, **settings)).decode()
    return f"data:image/{kind};base64,{content}"
