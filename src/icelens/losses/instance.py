"""Losses that own a row per example: instance-confidence embedding."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from icelens.confidence import Confidence
from icelens.errors import InputError, TrainingError, unknown
from icelens.losses.reduction import check_labels, reduced
from icelens.transforms import TRANSFORMS


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
        self.transform, self.step_size = transform, step_size
        self.ignore_index, self.reduction = ignore_index, reduction
        self.register_buffer("weight", weight, persistent=False)
        self.table = Confidence(examples, start=start, device=device, capacity=capacity)

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        """The loss of a batch; see the class."""
        _check_shapes(logits, labels, index)
        check_labels(labels, logits.shape[-1], self.ignore_index)
        learning = self.training and torch.is_grad_enabled()
        if index is None:
            if learning:
                raise InputError(
                    "ICELoss needs the index of each training example; leave it out only for other data, "
                    "in eval() or under torch.no_grad()"
                )
            return F.cross_entropy(
                logits, labels, self.weight, ignore_index=self.ignore_index, reduction=self.reduction
            )
        if learning:
            _refuse_recomputation()
        kept = labels != self.ignore_index
        labels, index = torch.where(kept, labels, 0), torch.where(kept.to(index.device), index, 0)
        self.table.follow(logits.device)
        rows, exist = self.table.rows(index)
        v = self.table.v[rows].to(logits.device)
        log_q_y, slope = TRANSFORMS[self.transform].at(logits, labels, v)
        if learning:
            step = torch.where(exist.to(kept.device) & kept, self.step_size * slope, 0.0)
            self.table.update(rows, step)
        return self._reduced(-log_q_y, labels, kept)

    def _reduced(self, losses: Tensor, labels: Tensor, kept: Tensor) -> Tensor:
        weight = kept.to(losses.dtype)
        if self.weight is not None:
            weight = weight * self.weight.to(losses)[labels]
        return reduced(torch.where(kept, losses, 0.0), self.reduction, weight)

    def confidence(self) -> Tensor:
        """The confidence C of every training example, (examples,); low = suspicious."""
        confidence: Tensor = self.table()
        return confidence


def _check_shapes(logits: Tensor, labels: Tensor, index: Tensor | None) -> None:
    if logits.ndim != 2:
        raise InputError(f"logits must be (batch, classes), got shape {tuple(logits.shape)}")
    if len(labels) != len(logits):
        raise InputError(f"logits hold {len(logits)} rows but labels {len(labels)}")
    if index is None:
        return
    if index.shape != labels.shape:
        raise InputError(f"index must be (batch,) = ({len(labels)},), got shape {tuple(index.shape)}")
    if index.dtype.is_floating_point or index.dtype == torch.bool:
        raise InputError(f"index must hold integers, got {index.dtype}")


def _refuse_recomputation() -> None:
    """Activation checkpointing around the loss would run it twice and read confidences already moved."""
    if not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1:
        raise TrainingError(
            "ICELoss ran again inside backward(): activation checkpointing must not include the loss; "
            "checkpoint the model alone"
        )
