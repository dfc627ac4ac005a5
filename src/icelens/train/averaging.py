"""An exponential moving average of the weights, which predicts in the place of the weights themselves."""

from __future__ import annotations

import copy
from itertools import chain

import torch
from torch import Tensor, nn


def start_average(model: nn.Module) -> nn.Module:
    """A copy of the model that only predicts."""
    return copy.deepcopy(model).requires_grad_(False).eval()


@torch.no_grad()
def move_average(average: nn.Module, model: nn.Module, decay: float, *, statistics: bool = True) -> None:
    """average ← decay·average + (1 − decay)·model, for weights and, if wanted, for BatchNorm's statistics.

    Not `torch.optim.swa_utils.AveragedModel`: its update asks the device how many there were before, and a
    recorded step may not wait for an answer.
    """
    tensors = _tensors if statistics else nn.Module.parameters
    pairs = list(zip(tensors(average), tensors(model), strict=True))
    means, values = zip(*(pair for pair in pairs if pair[0].is_floating_point()), strict=True)
    torch._foreach_lerp_(means, values, 1 - decay)
    for count, value in pairs:
        if not count.is_floating_point():
            count.copy_(value)


def _tensors(model: nn.Module) -> chain[Tensor]:
    return chain(model.parameters(), model.buffers())
