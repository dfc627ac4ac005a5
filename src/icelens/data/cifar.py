"""CIFAR-10 and CIFAR-100 as published, in the binary version and the python version."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from icelens.data.cifar_pickle import read_batch
from icelens.data.examples import Examples, Split, from_file
from icelens.errors import FileError

if TYPE_CHECKING:
    from torch import Tensor

    Read = Callable[[Path], tuple[Tensor, Tensor]]

PIXELS = 3 * 32 * 32
TEN_BATCHES = tuple(f"data_batch_{i}" for i in range(1, 6))


def read_binary(path: Path, label_bytes: int) -> tuple[Tensor, Tensor]:
    """Images (N, 3, 32, 32) and labels (N,) of one .bin file.

    Each record is its labels, one byte each, and 3,072 bytes of pixels, channels first. CIFAR-10
    has one label; CIFAR-100 has two, and the last, the fine one, is taken.
    """
    import torch

    raw = np.fromfile(path, np.uint8)
    record = label_bytes + PIXELS
    if len(raw) % record or not len(raw):
        raise FileError(
            f"{path}: expected a multiple of {record} bytes (records of {label_bytes} + {PIXELS}), "
            f"it has {len(raw)}: {len(raw) // record} records and {len(raw) % record} bytes over"
        )
    rows = torch.from_numpy(raw).reshape(-1, record)
    return rows[:, label_bytes:].reshape(-1, 3, 32, 32), rows[:, label_bytes - 1].long()


def read_ten_binary(folder: Path, classes: tuple[str, ...]) -> Split:
    """CIFAR-10 from `cifar-10-batches-bin`."""
    train, test = [folder / f"{name}.bin" for name in TEN_BATCHES], [folder / "test_batch.bin"]
    return _read_split(lambda path: read_binary(path, 1), train, test, classes)


def read_hundred_binary(folder: Path, classes: tuple[str, ...]) -> Split:
    """CIFAR-100, fine labels, from `cifar-100-binary`."""
    return _read_split(
        lambda path: read_binary(path, 2), [folder / "train.bin"], [folder / "test.bin"], classes
    )


def read_ten_python(folder: Path, classes: tuple[str, ...]) -> Split:
    """CIFAR-10 from `cifar-10-batches-py`."""
    train, test = [folder / name for name in TEN_BATCHES], [folder / "test_batch"]
    return _read_split(lambda path: read_batch(path, b"labels"), train, test, classes)


def read_hundred_python(folder: Path, classes: tuple[str, ...]) -> Split:
    """CIFAR-100, fine labels, from `cifar-100-python`."""
    return _read_split(
        lambda path: read_batch(path, b"fine_labels"), [folder / "train"], [folder / "test"], classes
    )


def _read_split(read: Read, train: list[Path], test: list[Path], classes: tuple[str, ...]) -> Split:
    return Split(_join(read, train, classes), _join(read, test, classes))


def _join(read: Read, paths: list[Path], classes: tuple[str, ...]) -> Examples:
    import torch

    parts = [_read_checked(read, path, classes) for path in paths]
    for path, part in zip(paths, parts, strict=True):
        # A batch cut at a record boundary looks whole, and would shift every row after it.
        if len(part) != len(parts[0]):
            raise FileError(f"{path}: {len(part)} images, but {paths[0].name} has {len(parts[0])}")
    inputs = [part.inputs for part in parts if isinstance(part.inputs, torch.Tensor)]
    return Examples(torch.cat(inputs), torch.cat([part.labels for part in parts]), classes)


def _read_checked(read: Read, path: Path, classes: tuple[str, ...]) -> Examples:
    images, labels = read(path)
    return from_file(path, images, labels, classes)
