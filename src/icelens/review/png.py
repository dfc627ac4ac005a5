"""PNG files of arrays, in a fraction of the time that an image library takes for very small ones."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

SIGNATURE = b"\x89PNG\r\n\x1a\n"
COLOURS = {1: 0, 3: 2, 4: 6}  # channels -> PNG's colour type
LEVEL = 3  # of compression: small images are a file system block whatever it is


def png(pixels: NDArray[np.uint8]) -> bytes:
    """An image (height, width) or (height, width, channels) as a file; of odd channels the first.

    >>> png(np.zeros((1, 1), np.uint8))[1:4]
    b'PNG'
    """
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    pixels = pixels if pixels.shape[2] in COLOURS else pixels[..., :1]
    height, width, channels = pixels.shape
    lines = np.zeros((height, 1 + width * channels), np.uint8)  # each begins with its filter: none
    lines[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, COLOURS[channels], 0, 0, 0)
    data = zlib.compress(lines.tobytes(), LEVEL)
    return SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
