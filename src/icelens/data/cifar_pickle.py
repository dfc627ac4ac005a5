"""Read CIFAR's python version, which is pickled, while allowing numpy arrays and nothing else."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from icelens.errors import FileError

if TYPE_CHECKING:
    from torch import Tensor

# Where numpy's own pickles point to, before and since numpy 2. An empty array tells the function,
# so that no private module of numpy is imported.
_RECONSTRUCT = np.empty(0).__reduce__()[0]


def _latin1(text: str, encoding: str) -> bytes:
    """`_codecs.encode` as pickles use it for bytes, and for no other codec."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"codec {encoding!r} is not allowed")
    return text.encode("latin1")


ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _latin1,
}


class ArrayUnpickler(pickle.Unpickler):
    """An unpickler that builds numpy arrays and plain containers and refuses every other name."""

    def find_class(self, module: str, name: str) -> Any:
        """The object of an allowed name; nothing is imported."""
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"refused to load '{module}.{name}', which no CIFAR file needs")
        return ALLOWED[module, name]


def read_batch(path: Path, label_key: bytes) -> tuple[Tensor, Tensor]:
    """Images (N, 3, 32, 32) and labels (N,) of one pickled batch."""
    import torch

    content = _load(path)
    if not isinstance(content, dict) or not {b"data", label_key} <= content.keys():
        raise FileError(f"{path}: not a CIFAR batch; expected a dict with 'data' and '{label_key.decode()}'")
    images, labels = content[b"data"], content[label_key]
    if not (isinstance(images, np.ndarray) and images.dtype == np.uint8 and images.shape[1:] == (3072,)):
        raise FileError(f"{path}: 'data' must be a uint8 array of shape (N, 3072)")
    if not (isinstance(labels, list) and all(isinstance(label, int) for label in labels)):
        raise FileError(f"{path}: '{label_key.decode()}' must be a list of integers")
    return torch.from_numpy(images.copy()).reshape(-1, 3, 32, 32), torch.tensor(labels, dtype=torch.int64)


def _load(path: Path) -> Any:
    with path.open("rb") as file:
        try:
            return ArrayUnpickler(file, encoding="bytes").load()
        except Exception as error:  # a damaged pickle raises whatever its bytes happen to mean
            raise FileError(f"{path}: cannot be read as a CIFAR batch: {error}") from None
