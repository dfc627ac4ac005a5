"""Images of a data set as files for other tools: where they lie, or their bytes."""

from __future__ import annotations

import base64
import io
import os
from pathlib import Path
from typing import Any

import numpy as np

_KINDS = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif", b"BM": "bmp", b"RIFF": "webp"}


def image_bytes(image: Any) -> bytes:
    """The file of an image: as it is, or as PNG where it is an array."""
    if isinstance(image, os.PathLike):
        return Path(image).read_bytes()
    if not isinstance(image, np.ndarray):
        content: bytes = image.read()
        return content
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(image).save(file, format="PNG")
    return file.getvalue()


def image_kind(content: bytes) -> str:
    """What the first bytes of a file say it is: png, jpeg, ...; tiff where they say nothing."""
    return next((kind for start, kind in _KINDS.items() if content.startswith(start)), "tiff")


def image_uri(image: Any) -> str:
    """The image within an address."""
    content = image_bytes(image)
    return f"data:image/{image_kind(content)};base64,{base64.b64encode(content).decode()}"
