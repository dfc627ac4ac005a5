"""Losses that own a row per example: instance-confidence embedding."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from icelens.confidence import Confidence
from icelens.errors import InputError, unknown
from icelens.losses.reduction import REDUCTIONS, check_labels, reduced
from icelens.transforms import TRANSFORMS, wide


class ICELoss(nn.Module):
    """Instance-confidence embedding: cross entropy of a prediction believed as far as each example deserves.

    −log h(p; C)_y, with one learned confidence C per training example. While the module is in training
    and gradients are on, each call also moves the confidences of its batch by
    `step_size` · d log q_y / dv, once per visit, whatever the batch size, reduction or loss scale. No
    optimizer has to know of it.

    A drop-in for `nn.CrossEntropyLoss` that also takes `index`, the rows of the data set that the batch
    holds. Without `index` (validation data) it is plain cross entropy, which is allowed in `eval()` or
    under `no_grad()` only.

    Args:
        examples: the number of training examples.
        transform: "linear", h = C·p + (1 − C)/K, or "power", h ∝ p^C.
        step_size: how far one visit moves a confidence logit. May be changed between steps.
        start: the confidence logit of every example at the start; 0 is C = 1/2.
        weight: (classes,), a factor per class, as in `nn.CrossEntropyLoss`; confidences do not see it.
        ignore_index: rows with this label count for nothing; their `index` may be anything.
        reduction: "mean", "sum" or "none".
        device: where the table of confidences lives and stays. None: where the logits are.
        capacity: with several ranks, the largest batch of one rank. None: that of the first step.

    >>> loss_fn = ICELoss(examples=3)
    >>> logits = torch.tensor([[4.0, 0.0], [4.0, 0.0]], requires_grad=True)
    >>> loss_fn(logits, labels=torch.tensor([0, 1]), index=torch.tensor([0, 2])).backward()
    >>> loss_fn.confidence()  # row 1 was not visited; row 2 has a label that the model does not believe
    tensor([0.5406, 0.5000, 0.3857])
    """

    weight: Tensor | None

    def __init__(
        self,
        examples: int,
        *,
        transform: str = "linear",
        step_size: float | Tensor = 1.0,
        start: float = 0.0,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        device: torch.device | str | None = None,
        capacity: int | None = None,
    ) -> None:
        super().__init__()
        if transform not in TRANSFORMS:
            raise unknown("transform", transform, TRANSFORMS)
        if reduction not in REDUCTIONS:
            raise unknown("reduction", reduction, REDUCTIONS)
        self.transform, self.step_size = transform, step_size
        self.ignore_index, self.reduction = ignore_index, reduction
        self.register_buffer("weight", weight, persistent=False)
        self.table = Confidence(examples, start=start, device=device, capacity=capacity)

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        """The loss of a batch; see the class."""
        _check_shapes(logits, labels, index)
        labels = labels.to(torch.int64)  # in a uint8, an ignore_index of −100 would be class 156
        check_labels(labels, logits.shape[-1], self.ignore_index)
        learning = self.training and torch.is_grad_enabled()
        if index is None:
            if learning:
                raise InputError(
                    "ICELoss needs the index of each training example; leave it out only for other data, "
                    "in eval() or under torch.no_grad()"
                )
            return self._cross_entropy(wide(logits), labels)
        kept = labels != self.ignore_index
        labels = labels * kept  # class 0 where ignored
        self.table.follow(logits.device)
        rows, movable = self.table.rows(index, kept)
        v = self.table.read(rows, once=learning).to(logits.device)
        log_q_y, slope = TRANSFORMS[self.transform].at(logits, labels, v)
        if learning:
            self.table.update(rows, self.step_size * slope, movable)
        return self._reduced(-log_q_y, labels, kept)

    def _cross_entropy(self, logits: Tensor, labels: Tensor) -> Tensor:
        weight = None if self.weight is None else self.weight.to(logits)
        return F.cross_entropy(
            logits, labels, weight, ignore_index=self.ignore_index, reduction=self.reduction
        )

    def _reduced(self, losses: Tensor, labels: Tensor, kept: Tensor) -> Tensor:
        losses = torch.where(kept, losses, 0.0)
        if self.weight is not None:
            return reduced(losses, self.reduction, kept * self.weight.to(losses)[labels])
        if self.reduction == "mean":
            return losses.sum() / kept.sum()
        return reduced(losses, self.reduction)

    def confidence(self) -> Tensor:
        """The confidence C of every training example, (examples,); low = suspicious."""
        confidence: Tensor = self.table()
        return confidence


def _check_shapes(logits: Tensor, labels: Tensor, index: Tensor | None) -> None:
    if logits.ndim != 2 or not logits.shape[-1] or not logits.dtype.is_floating_point:
        raise InputError(f"logits must be (batch, classes) floats, got {_kind(logits)}")
    if labels.ndim != 1 or not _holds_integers(labels):
        raise InputError(f"labels must be (batch,) integers, got {_kind(labels)}")
    if len(labels) != len(logits):
        raise InputError(f"logits hold {len(logits)} rows but labels {len(labels)}")
    if index is None:
        return
    if not isinstance(index, Tensor):
        raise InputError(f"index must be a tensor of integers, got {type(index).__name__}")
    if index.shape != labels.shape or not _holds_integers(index):
        raise InputError(f"index must be (batch,) = ({len(labels)},) integers, got {_kind(index)}")


def _holds_integers(tensor: Tensor) -> bool:
    dtype = tensor.dtype
    return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)


def _kind(tensor: Tensor) -> str:
    return f"{tensor.dtype}, shape {tuple(tensor.shape)}"
