"""Images as files or as stored bytes: opened, and decoded once to see that they are whole."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from icelens import progress

# Never all of Pillow's: its reader of EPS files runs another program on them.
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
BATCH = 512


class StoredImages(Sequence[io.BytesIO]):
    """Images whose files are cells of a table; item i is a file in memory, new each time.

    Args:
        cells: a pyarrow array of bytes. It is never copied: it may be mapped from a file larger than memory.
        rows: which of them; all if left out.
    """

    def __init__(self, cells: Any, rows: NDArray[np.int64] | None = None) -> None:
        self.cells = cells
        self.rows = np.arange(len(cells)) if rows is None else rows

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> io.BytesIO: ...
    @overload
    def __getitem__(self, index: slice) -> StoredImages: ...
    @overload
    def __getitem__(self, index: NDArray[np.int64]) -> StoredImages: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice | np.ndarray):
            return StoredImages(self.cells, self.rows[index])
        return io.BytesIO(self.cells[int(self.rows[index])].as_py() or b"")


def open_image(source: Any) -> Image.Image:
    """Open an image of `Labelled.inputs`: a path, a file in memory, or a uint8 array; use it in a `with`.

    Formats are those that icelens reads as images, whatever the name of the file says.
    """
    if isinstance(source, np.ndarray):
        return Image.fromarray(source)
    Image.init()  # TIFF and WebP would be loaded on first use, which is not safe in threads
    return Image.open(source, formats=[name for name in FORMATS if name in Image.OPEN])


@dataclass(frozen=True)
class Broken:
    """An image that cannot be decoded: its place in the sequence, and why."""

    position: int
    why: str


def find_broken(images: Sequence[Any]) -> list[Broken]:
    """Decode all images, several at a time, and return those that fail."""
    broken = []
    workers = min(8, os.cpu_count() or 1)
    with (
        warnings.catch_warnings(),
        ThreadPoolExecutor(workers) as pool,
        progress.bar("images", len(images)) as bar,
    ):
        # Of metadata and sizes that Pillow finds odd, but reads.
        warnings.simplefilter("ignore")
        for start in range(0, len(images), BATCH):
            batch = range(start, min(start + BATCH, len(images)))
            for position, why in zip(batch, pool.map(lambda i: _fault(images[i]), batch), strict=True):
                if why:
                    broken.append(Broken(position, why))
            bar(len(batch))
    return broken


def find_missing(images: Sequence[Any]) -> list[Broken]:
    """The paths at which there is no file: much sooner told than what is in them."""
    paths = ((position, image) for position, image in enumerate(images) if isinstance(image, os.PathLike))
    return [Broken(position, "no such file") for position, path in paths if not os.path.isfile(path)]


def _fault(source: Any) -> str:
    """What is wrong with an image, or nothing."""
    try:
        with open_image(source) as image:
            # An eighth of the size: JPEG is read to its end either way, and faster so.
            image.draft(None, (max(1, image.width // 8), max(1, image.height // 8)))
            image.load()
    except FileNotFoundError:
        return "no such file"
    except UnidentifiedImageError:
        return "not an image of a known format"
    except Exception as error:  # decoders raise whatever the bytes lead them to
        return str(error) or type(error).__name__
    return ""
