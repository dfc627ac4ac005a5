"""torch's three reductions, and the module around a loss that is a plain function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from icelens.errors import InputError, unknown

REDUCTIONS = ("none", "mean", "sum")


def reduced(losses: Tensor, reduction: str, weight: Tensor | None = None) -> Tensor:
    """One value per example, their sum, or their mean, weighted as `nn.CrossEntropyLoss` weights."""
    if reduction not in REDUCTIONS:
        raise unknown("reduction", reduction, REDUCTIONS)
    if weight is not None:
        losses = losses * weight
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    return losses.mean() if weight is None else losses.sum() / weight.sum()


def check_labels(labels: Tensor, classes: int, ignore_index: int | None = None) -> None:
    """Raise for a label that is no class. Looks at CPU tensors only: on CUDA a look would wait for it."""
    if labels.dtype.is_floating_point or labels.ndim != 1:
        raise InputError(f"labels must be (batch,) integers, got {labels.dtype}, shape {tuple(labels.shape)}")
    if labels.device.type != "cpu" or torch.compiler.is_compiling():
        return
    wrong = (labels < 0) | (labels >= classes)
    if ignore_index is not None:
        wrong &= labels != ignore_index
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise InputError(
            f"labels hold class {int(labels[row])} but logits have {classes} columns "
            f"(classes 0–{classes - 1}); first at position {row} of the batch"
        )


class Pointwise(nn.Module):
    """A loss function without state as a module with the signature of all: (logits, labels, index).

    >>> import torch
    >>> from icelens.losses import generalized_cross_entropy
    >>> Pointwise(generalized_cross_entropy, q=1.0)(torch.zeros(1, 4), torch.tensor([2]))
    tensor(0.7500)
    """

    def __init__(self, function: Callable[..., Tensor], *, reduction: str = "mean", **settings: Any) -> None:
        super().__init__()
        self.function = function
        self.reduction = reduction
        self.settings = settings

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        """The loss; `index` is taken for the sake of the common signature."""
        return reduced(self.function(logits, labels, **self.settings), self.reduction)

    def extra_repr(self) -> str:
        """Name and settings, for `print`."""
        return ", ".join([self.function.__name__, *(f"{k}={v}" for k, v in self.settings.items())])
