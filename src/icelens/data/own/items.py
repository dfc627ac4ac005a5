"""A torch data set, read through once: its items become inputs and labels."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import torch
from PIL import Image

from icelens import progress
from icelens.data.own.origin import Origin
from icelens.data.own.pixels import eight_bits, flat
from icelens.errors import InputError

NUMBERS = "biufc"
WIDE_UNSIGNED = {torch.uint16, torch.uint32, torch.uint64}


def read_items(dataset: Any, origin: Origin) -> tuple[Any, list[Any]]:
    """All inputs stacked, and all labels, of a map-style data set whose items are (x, y, ...)."""
    if hasattr(dataset, "shape") or not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
        raise origin.error(
            f"y is missing; without it X must be a data set with rows that yields (x, y), got "
            f"{type(dataset).__name__}"
        )
    inputs: Any = []
    labels, modes = [], []
    with progress.bar("items", len(dataset)) as bar:
        for row in range(len(dataset)):
            with torch.no_grad():
                x, y = _pair(dataset[row], row, origin)
            modes.append(x.mode[0] if isinstance(x, Image.Image) else "")
            inputs = _put(inputs, row, x, len(dataset), origin)
            labels.append(_label(y, row, origin))
            bar(1)
    return _shallow(inputs, modes), labels


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


def _label(y: Any, row: int, origin: Origin) -> Any:
    if hasattr(y, "shape") and math.prod(y.shape) != 1:
        raise origin.error(
            f"item {row:,} has a label of shape {tuple(y.shape)}, expected one value; one-hot labels become "
            "classes by y.argmax()"
        )
    return y.item() if hasattr(y, "item") else y


def _put(inputs: Any, row: int, x: Any, rows: int, origin: Origin) -> Any:
    """Put one input where it belongs: arrays into one that is made for all of them, all else into a list."""
    x = _array(x)
    if not isinstance(x, torch.Tensor | np.ndarray):
        if not isinstance(inputs, list):
            raise _mixed(origin, row, x)
        inputs.append(x)
        return inputs
    if row == 0:
        inputs = _room(x, rows)
    if type(inputs) is not type(x) or inputs.shape[1:] != x.shape:
        raise _mixed(origin, row, x, inputs)
    if inputs.dtype != x.dtype:
        inputs = _widened(inputs, row, x, origin)
    inputs[row] = cast(Any, x)
    return inputs


def _array(x: Any) -> Any:
    """Images and numbers as arrays; what is none of both as it is."""
    if isinstance(x, Image.Image):
        image = flat(x)
        # What may stand beside colour in one data set is colour too.
        return np.asarray(image.convert("RGB") if x.mode in ("1", "LA") else image)
    if isinstance(x, int | float | np.number):
        return torch.tensor([float(x)])
    return x.to_dense() if isinstance(x, torch.Tensor) else x


def _widened(inputs: Any, row: int, x: Any, origin: Origin) -> Any:
    """The same inputs, of a type that holds this one too: the first may be whole where others are not."""
    if isinstance(x, torch.Tensor):
        return inputs.to(_common(inputs.dtype, x.dtype))
    if (inputs.dtype.kind in NUMBERS) != (x.dtype.kind in NUMBERS):
        raise origin.error(f"item {row:,} holds {x.dtype}, those before it {inputs.dtype}")
    return inputs.astype(np.promote_types(inputs.dtype, x.dtype), copy=False)


def _common(first: torch.dtype, second: torch.dtype) -> torch.dtype:
    # torch would give integers and float16 as float16, and knows nothing for unsigned ones of 16 bits.
    if first.is_floating_point != second.is_floating_point or {first, second} & WIDE_UNSIGNED:
        return torch.float64
    return torch.promote_types(first, second)


def _shallow(inputs: Any, modes: list[str]) -> Any:
    """Images of 8 bits, where Pillow's are deeper; those of whole numbers and of floats each have a scale."""
    deep = {"I", "F"}.intersection(modes)
    for mode in deep:
        rows = np.array(modes) == mode
        inputs[rows] = eight_bits(inputs[rows])
    return inputs.astype(np.uint8) if deep and all(modes) else inputs


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
