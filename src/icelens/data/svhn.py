"""SVHN's cropped digits: MATLAB files with X of 32 × 32 × 3 × N and y of N × 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from icelens.data.examples import Examples, Split, from_file
from icelens.errors import FileError


def read_split(folder: Path, classes: tuple[str, ...]) -> Split:
    """Training and test digits; the 531,131 "extra" ones are not read."""
    return Split(read_mat(folder / "train_32x32.mat", classes), read_mat(folder / "test_32x32.mat", classes))


def read_mat(path: Path, classes: tuple[str, ...]) -> Examples:
    """One file as Examples; the label 10 stands for the digit 0."""
    import torch

    content = _load(path)
    if not {"X", "y"} <= content.keys():
        raise FileError(f"{path}: expected the arrays X and y, it has {', '.join(sorted(content)) or 'none'}")
    images, labels = content["X"], content["y"].reshape(-1).astype(np.int64)
    if images.dtype != np.uint8 or images.shape[:3] != (32, 32, 3) or images.ndim != 4:
        raise FileError(f"{path}: X must be uint8 of shape (32, 32, 3, N), got {images.dtype} {images.shape}")
    inputs = torch.from_numpy(np.ascontiguousarray(images.transpose(3, 2, 0, 1)))
    # Not modulo 10: that would turn a wrong label such as 11 into a right one.
    return from_file(path, inputs, torch.from_numpy(np.where(labels == 10, 0, labels)), classes)


def _load(path: Path) -> dict[str, Any]:
    from scipy.io import loadmat

    try:
        content = loadmat(path)
    except Exception as error:  # scipy raises a dozen kinds for a damaged file
        raise FileError(f"{path}: cannot be read as a MATLAB file: {error}") from None
    return {name: value for name, value in content.items() if not name.startswith("__")}
