"""Arrays that a figure is drawn from: one small .npz file each under `results/figures`."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icelens.errors import FileError, MissingFileError
from icelens.files import replacing

Array = NDArray[Any]


def stored_path(results: Path, name: str) -> Path:
    """Where the arrays of a name lie.

    >>> stored_path(Path("results"), "gallery_mnist_ice_linear").as_posix()
    'results/figures/gallery_mnist_ice_linear.npz'
    """
    return results / "figures" / f"{name}.npz"


def store(results: Path, name: str, arrays: dict[str, Array]) -> Path:
    """Write arrays, whole or not at all; the same arrays give the same bytes."""
    path = stored_path(results, name)
    with replacing(path) as part, part.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    return path


def stored(results: Path, name: str, *, how: str) -> dict[str, Array]:
    """Read arrays, or tell how they are made."""
    path = stored_path(results, name)
    try:
        with np.load(path, allow_pickle=False) as file:
            return dict(file)
    except FileNotFoundError:
        raise MissingFileError(f"{path}: no such file; {how}") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise FileError(f"{path}: not arrays of a figure: {error}") from None
