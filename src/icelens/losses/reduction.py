"""torch's three reductions, and the module around a loss that is a plain function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from icelens.errors import InputError, unknown
from icelens.matrices import check_range, holds_integers
from icelens.transforms import wide

REDUCTIONS = ("none", "mean", "sum")


def check_reduction(reduction: str) -> str:
    """The name of a reduction, if it is one."""
    if reduction not in REDUCTIONS:
        raise unknown("reduction", reduction, REDUCTIONS)
    return reduction


def reduced(losses: Tensor, reduction: str, weight: Tensor | None = None) -> Tensor:
    """One value per example, their sum, or their mean, weighted as `nn.CrossEntropyLoss` weights."""
    check_reduction(reduction)
    if weight is not None:
        losses = losses * weight
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    return losses.mean() if weight is None else losses.sum() / weight.sum()


def check_batch(
    outputs: Tensor,
    labels: Tensor,
    classes: int | None = None,
    *,
    columns: int | None = None,
    index: Tensor | None = None,
    ignore_index: int | None = None,
) -> Tensor:
    """Raise for a batch that no loss can use; every loss calls this once, with what it is handed.

    Args:
        outputs: (batch, columns), what the network gave.
        labels: (batch,), classes 0 to `classes` − 1.
        classes: K; None is one for each column.
        columns: how many columns there must be; None is any number.
        index: (batch,), the rows of the data set.
        ignore_index: a label that is no class and yet allowed.

    Returns:
        The labels as int64, which torch's losses insist on.
    """
    for name, value in (("logits", outputs), ("labels", labels)):
        if not isinstance(value, Tensor):
            raise InputError(f"{name} must be a tensor, got {type(value).__name__}")
    if outputs.ndim != 2 or not outputs.shape[1] or not outputs.dtype.is_floating_point:
        raise InputError(f"logits must be (batch, classes) floats, got {_kind(outputs)}")
    if columns is not None and outputs.shape[1] != columns:
        raise InputError(f"logits must have {columns} columns, got shape {tuple(outputs.shape)}")
    if labels.ndim != 1 or not holds_integers(labels):
        remedy = (
            "labels.argmax(1), if they are one-hot"
            if labels.ndim == 2
            else "labels.long(), if they are classes"
        )
        raise InputError(f"labels must be (batch,) integers, got {_kind(labels)}; {remedy}")
    if len(labels) != len(outputs):
        raise InputError(f"logits hold {len(outputs)} rows but labels {len(labels)}")
    if index is not None and not isinstance(index, Tensor):
        raise InputError(f"index must be a tensor of integers, got {type(index).__name__}")
    if index is not None and (index.shape != labels.shape or not holds_integers(index)):
        raise InputError(f"index must be (batch,) = ({len(labels)},) integers, got {_kind(index)}")
    labels = labels.to(torch.int64)  # in a uint8, an ignore_index of −100 would be class 156
    check_labels(labels, outputs.shape[1] if classes is None else classes, ignore_index)
    return labels


def check_labels(labels: Tensor, classes: int, ignore_index: int | None = None) -> None:
    """Raise for a label that is no class. Looks at CPU tensors only: on CUDA a look would wait for it."""
    if labels.device.type == "cpu" and not torch.compiler.is_compiling():
        check_range(labels, classes, place="position {} of the batch", ignore_index=ignore_index)


def _kind(tensor: Tensor) -> str:
    return f"{tensor.dtype}, shape {tuple(tensor.shape)}"


def is_learning(loss: nn.Module) -> bool:
    """Whether a call is a step of training, which may move what a loss keeps."""
    return loss.training and torch.is_grad_enabled()


def check_no_index(loss: nn.Module) -> None:
    """Raise where a loss with a row per example would have to learn without its index."""
    if is_learning(loss):
        raise InputError(
            f"{type(loss).__name__} needs the index of each training example; leave it out only for other "
            "data, in eval() or under torch.no_grad()"
        )


def without_index(loss: nn.Module, logits: Tensor, labels: Tensor, reduction: str) -> Tensor:
    """Cross entropy, for data that is not the training set of a loss with a row per example."""
    check_no_index(loss)
    labels = check_batch(logits, labels)
    return reduced(F.cross_entropy(wide(logits), labels, reduction="none"), reduction)


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
        self.reduction = check_reduction(reduction)
        self.settings = settings

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        """The loss; `index` is taken for the sake of the common signature."""
        return reduced(self.function(logits, labels, **self.settings), self.reduction)

    def extra_repr(self) -> str:
        """Name and settings, for `print`."""
        return ", ".join([self.function.__name__, *(f"{k}={v}" for k, v in self.settings.items())])
