"""Tensors and lists as arrays, so that the plots themselves need no torch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from icelens.errors import InputError


def as_array(values: Any) -> NDArray[Any]:
    """A NumPy array of a tensor on any device, of any dtype, or of what else NumPy takes."""
    if is_tensor(values):
        values = values.detach().cpu()
        # NumPy has no bfloat16.
        values = values.float() if values.is_floating_point() else values
    return np.asarray(values)


def is_tensor(values: Any) -> bool:
    """Whether it is a torch tensor, told without importing torch."""
    return type(values).__module__.partition(".")[0] == "torch"


def as_flags(flags: Any, count: int, *, name: str = "flipped") -> NDArray[np.bool_]:
    """One boolean per example, or an error."""
    array = as_array(flags)
    if array.dtype != bool or array.shape != (count,):
        raise InputError(
            f"{name} must hold one boolean for each of {count} examples, "
            f"got {array.dtype} of shape {array.shape}"
        )
    return array
