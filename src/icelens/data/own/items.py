"""A torch data set, read through once: its items become inputs and labels."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from PIL import Image

from icelens import progress
from icelens.data.own.origin import Origin
from icelens.errors import InputError

MODES = ("L", "RGB")


def read_items(dataset: Any, origin: Origin) -> tuple[Any, list[Any]]:
    """All inputs stacked, and all labels, of a map-style data set whose items are (x, y, ...)."""
    if hasattr(dataset, "shape") or not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
        raise origin.error(
            f"y is missing; without it X must be a data set with rows that yields (x, y), got "
            f"{type(dataset).__name__}"
        )
    inputs: Any = []
    labels = []
    with progress.bar("items", len(dataset)) as bar:
        for row in range(len(dataset)):
            with torch.no_grad():
                x, y = _pair(dataset[row], row, origin)
            inputs = _put(inputs, row, x, len(dataset), origin)
            labels.append(y.item() if hasattr(y, "item") else y)
            bar(1)
    return inputs, labels


def class_names(dataset: Any, labels: list[Any]) -> tuple[str, ...] | None:
    """The names that a torchvision data set has for its classes, where the labels are their codes."""
    names = getattr(dataset, "classes", None)
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        return None
    codes = all(isinstance(label, int) and 0 <= label < len(names) for label in labels)
    return tuple(names) if codes else None


def _pair(item: Any, row: int, origin: Origin) -> tuple[Any, Any]:
    if not isinstance(item, tuple | list) or len(item) < 2:
        raise origin.error(
            f"y is missing; without it items must be (x, y), but item {row:,} is a {type(item).__name__}"
        )
    return item[0], item[1]


def _put(inputs: Any, row: int, x: Any, rows: int, origin: Origin) -> Any:
    """Put one input where it belongs: arrays into one that is made for all of them, all else into a list."""
    if isinstance(x, Image.Image):
        x = np.asarray(x if x.mode in MODES else x.convert("RGB"))
    elif isinstance(x, int | float | np.number):
        x = torch.tensor([float(x)])
    if not isinstance(x, torch.Tensor | np.ndarray):
        if not isinstance(inputs, list):
            raise _mixed(origin, row, x)
        inputs.append(x)
        return inputs
    if row == 0:
        inputs = _room(x, rows)
    if type(inputs) is not type(x) or inputs.shape[1:] != x.shape:
        raise _mixed(origin, row, x, inputs)
    inputs[row] = cast(Any, x)
    return inputs


def _room(x: Any, rows: int) -> Any:
    # What is torch's stays so: it has its channels first.
    if isinstance(x, torch.Tensor):
        return torch.empty((rows, *x.shape), dtype=x.dtype)
    return np.empty((rows, *x.shape), dtype=x.dtype)


def _mixed(origin: Origin, row: int, x: Any, inputs: Any = None) -> InputError:
    if inputs is None or not hasattr(x, "shape") or not hasattr(inputs, "shape"):
        return origin.error(f"item {row:,} holds a {type(x).__name__}, unlike item 0")
    return origin.error(
        f"item {row:,} has shape {tuple(x.shape)}, item 0 {tuple(inputs.shape[1:])}; inputs must have one "
        "size (images of several sizes are read from a folder)"
    )
