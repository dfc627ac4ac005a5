"""CIFAR-10N: labels that people gave to CIFAR-10's training images, with the original ones beside them."""

from __future__ import annotations

import dataclasses
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from icelens.data.examples import Split
from icelens.errors import FileError, MissingFileError

if TYPE_CHECKING:
    from torch import Tensor

COLUMNS = ("aggregate", "worst", "clean")
FILE = "cifar-10n.npz"


def read_cifar10n(path: Path | str) -> dict[str, Tensor]:
    """The labels `aggregate`, `worst` and `clean`, int64, in the order of CIFAR-10's training set.

    Put them in with `dataclasses.replace(split.train, labels=labels["worst"])`.

    Args:
        path: an .npz file with the three arrays.
    """
    import torch

    try:
        with np.load(path, allow_pickle=False) as content:
            missing = [name for name in COLUMNS if name not in content]
            if missing:
                raise FileError(f"{path}: no array '{missing[0]}'; arrays are {', '.join(content)}")
            labels = {name: torch.from_numpy(content[name].astype(np.int64)) for name in COLUMNS}
    except FileNotFoundError:
        raise MissingFileError(
            f"{path}: no such file; the labels are published at http://noisylabels.com"
        ) from None
    except (zipfile.BadZipFile, EOFError, OSError, ValueError, AttributeError) as error:
        raise (
            error if isinstance(error, FileError) else FileError(f"{path}: not an .npz file ({error})")
        ) from None
    _check(path, labels)
    return labels


def with_human_labels(root: Path, which: str, read: Callable[[Path], Split], folder: str) -> Split:
    """CIFAR-10 as read from its folder, with one column of the human labels as those given.

    Args:
        root: the folder that holds `cifar-10n.npz` and CIFAR-10's own.
        which: "aggregate" or "worst".
        read: what reads CIFAR-10's folder.
        folder: that folder, under the root.
    """
    import torch

    path = root / FILE
    labels, split = read_cifar10n(path), read(root / folder)
    if not torch.equal(labels["clean"], split.train.labels):
        raise FileError(f"{path}: 'clean' is not CIFAR-10's training labels in their order")
    train = dataclasses.replace(split.train, labels=labels[which])
    return dataclasses.replace(split, train=train, clean_labels=labels["clean"])


def _check(path: Path | str, labels: dict[str, Tensor]) -> None:
    rows = labels["clean"].shape
    for name, column in labels.items():
        if column.shape != rows or column.dim() != 1:
            raise FileError(f"{path}: '{name}' has shape {tuple(column.shape)} and 'clean' {tuple(rows)}")
        wrong = ((column < 0) | (column > 9)).nonzero()
        if len(wrong):
            raise FileError(
                f"{path}: '{name}' holds class {int(column[wrong[0]])}; first at index {int(wrong[0])}"
            )
