"""The idx format of MNIST and its kin: a big-endian header, then unsigned bytes; plain or gzipped."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from icelens.data.examples import Examples, Split, from_file
from icelens.errors import FileError, MissingFileError

if TYPE_CHECKING:
    from torch import Tensor

UNSIGNED_BYTE = 8


def read_idx(path: Path | str) -> Tensor:
    """The array of one idx file of unsigned bytes; a name that ends in .gz is unzipped.

    The header is two zero bytes, the type (8), the number of dimensions and each dimension as
    four bytes, big-endian. The file must then hold exactly as many bytes as the header says.
    """
    import torch

    raw = _read_bytes(Path(path))
    shape, start = _header(Path(path), raw)
    expected = start + math.prod(shape)
    if len(raw) != expected:
        raise FileError(
            f"{path}: {'truncated' if len(raw) < expected else 'overlong'} idx file; "
            f"its header {shape} means {expected} bytes, it has {len(raw)}"
        )
    # A copy, because torch must not hold memory that Python thinks is read-only.
    return torch.from_numpy(np.frombuffer(raw, np.uint8)[start:].reshape(shape).copy())


def read_split(folder: Path, classes: tuple[str, ...]) -> Split:
    """Training and test images and labels in the four files that MNIST, Fashion-MNIST and KMNIST have."""
    return Split(_read_examples(folder, "train", classes), _read_examples(folder, "t10k", classes))


def plain_or_gz(path: Path) -> Path:
    """The file, or the same name with .gz where only that is there."""
    for candidate in (path, path.with_name(path.name + ".gz")):
        if candidate.is_file():
            return candidate
    raise MissingFileError(f"{path}: no such file, nor {path.name}.gz")


def _read_examples(folder: Path, part: str, classes: tuple[str, ...]) -> Examples:
    images = _read_dims(folder / f"{part}-images-idx3-ubyte", 3, "images")
    path = folder / f"{part}-labels-idx1-ubyte"
    labels = _read_dims(path, 1, "labels")
    return from_file(path, images[:, None], labels.long(), classes)


def _read_dims(path: Path, dims: int, what: str) -> Tensor:
    path = plain_or_gz(path)
    array = read_idx(path)
    if array.dim() != dims:
        raise FileError(f"{path}: {what} need {dims} dimensions, the file has {array.dim()}")
    return array


def _read_bytes(path: Path) -> bytes:
    try:
        if path.suffix != ".gz":
            return path.read_bytes()
        with gzip.open(path) as file:
            return file.read()
    except FileNotFoundError:
        raise MissingFileError(f"{path}: no such file") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise FileError(f"{path}: damaged gzip file ({error})") from None


def _header(path: Path, raw: bytes) -> tuple[tuple[int, ...], int]:
    if len(raw) < 4:
        raise FileError(f"{path}: truncated idx file; the header has at least 4 bytes, it has {len(raw)}")
    if raw[:3] != bytes([0, 0, UNSIGNED_BYTE]):
        raise FileError(
            f"{path}: not an idx file of unsigned bytes; it starts with {raw[:4].hex()}, not 000008"
        )
    start = 4 + 4 * raw[3]
    if len(raw) < start:
        raise FileError(
            f"{path}: truncated idx file; {raw[3]} dimensions need {start} bytes of header, it has {len(raw)}"
        )
    return struct.unpack(f">{raw[3]}I", raw[4:start]), start
