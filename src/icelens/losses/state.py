"""What losses with a state of their own have in common: no cast makes it coarser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn


class FineState(nn.Module):
    """A module whose buffers follow a move to another device, but no cast to coarser floats.

    In bfloat16 an average stands still as soon as its steps are small, 0.999 is 1, and in float16 a start of
    1e−8 is 0. A cast to finer floats is followed.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        def moved(tensor: Tensor) -> Tensor:
            after = fn(tensor)
            if not tensor.is_floating_point() and after.is_floating_point():
                return tensor.to(after.device)  # `module.type(...)` casts whole numbers, too
            if after.is_floating_point() and torch.finfo(after.dtype).eps > torch.finfo(tensor.dtype).eps:
                return tensor.to(after.device)
            return after

        super()._apply(moved, recurse)  # type: ignore[no-untyped-call]
        return self
