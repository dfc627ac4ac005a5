"""Pictures for the pages: decoded and encoded anew, so that nothing of a file is served but its pixels."""

from __future__ import annotations

import io
from pathlib import Path

from icelens.auditing.report.pictures import encoded, read_image
from icelens.errors import FileError

SIDES = {"small": 320, "large": 1200}  # the longest side, for lists and for one at a time
LOSSLESS = 64  # up to this side every pixel counts


def picture(source: bytes | Path, size: str) -> tuple[bytes, str]:
    """The file to serve and its media type; an error where the source is no image that icelens decodes.

    Args:
        source: the stored file of an image, or its path.
        size: "small" or "large".
    """
    side = SIDES[size]
    try:
        image = read_image(source if isinstance(source, Path) else io.BytesIO(source), side)
        image.thumbnail((side, side))
        if max(image.size) <= LOSSLESS:
            return encoded(image, "png"), "image/png"
        return encoded(image, "webp", quality=82, method=2), "image/webp"
    # Pillow raises errors of many kinds on damaged files, some of them Python's own.
    except Exception as error:
        raise FileError(f"not an image that can be shown: {error}") from None
