"""Losses that own a row per example: instance-confidence embedding."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from icelens import fused
from icelens.confidence import Confidence, refuse_recomputation
from icelens.errors import InputError, unknown
from icelens.losses.ranges import ANY, AT_LEAST_0, SHARE, Range, check_settings
from icelens.losses.reduction import check_batch, check_no_index, check_reduction, is_learning, reduced
from icelens.transforms import TRANSFORMS, wide


class ICELoss(nn.Module):
    """Instance-confidence embedding: cross entropy of a prediction believed as far as each example deserves.

    −log h(p; C)_y, with one learned confidence C per training example. While the module is in training
    and gradients are on, each call also moves the confidences of its batch by
    `step_size` · d log q_y / dv, once per visit, whatever the batch size, reduction or loss scale. No
    optimizer has to know of it.

    A drop-in for `nn.CrossEntropyLoss` that also takes `index`, the rows of the data set that the batch
    holds. Without `index` (validation data) it is `nn.CrossEntropyLoss` with the same settings, which is
    allowed in `eval()` or under `no_grad()` only.

    Args:
        examples: the number of training examples.
        transform: "linear", h = C·p + (1 − C)/K, or "power", h ∝ p^C.
        step_size: how far one visit moves a confidence logit. May be changed between steps.
        start: the confidence logit of every example at the start; 0 is C = 1/2.
        label_smoothing: s, as in `nn.CrossEntropyLoss`: −Σ_k [(1 − s)·y_k + s/K]·log q_k. Confidences still
            move by the given label alone; the other classes' share would pull all of them down.
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

    RANGES: ClassVar[Mapping[str, Range]] = {"step_size": AT_LEAST_0, "start": ANY, "label_smoothing": SHARE}

    weight: Tensor | None

    def __init__(  # noqa: PLR0913 - those of nn.CrossEntropyLoss, and ICE's own
        self,
        examples: int,
        *,
        transform: str = "linear",
        step_size: float | Tensor = 1.0,
        start: float = 0.0,
        label_smoothing: float = 0.0,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        device: torch.device | str | None = None,
        capacity: int | None = None,
    ) -> None:
        super().__init__()
        if transform not in TRANSFORMS:
            raise unknown("transform", transform, TRANSFORMS)
        if not isinstance(step_size, Tensor):
            check_settings(self.RANGES, step_size=step_size)
        check_settings(self.RANGES, start=start, label_smoothing=label_smoothing)
        self.transform, self.step_size = transform, step_size
        self.label_smoothing = float(label_smoothing)
        self.ignore_index, self.reduction = operator.index(ignore_index), check_reduction(reduction)
        self.register_buffer("weight", weight, persistent=False)
        self.table = Confidence(examples, start=start, device=device, capacity=capacity)

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        """The loss of a batch; see the class."""
        labels = check_batch(logits, labels, index=index, ignore_index=self.ignore_index)
        if self.weight is not None and self.weight.shape != logits.shape[1:]:
            raise InputError(
                f"weight holds {self.weight.numel()} classes but logits are {tuple(logits.shape)}"
            )
        if index is None:
            check_no_index(self)
            return self._cross_entropy(wide(logits), labels)
        learning = is_learning(self)
        self.table.follow(logits.device)
        if not self.label_smoothing and fused.usable(logits, labels, self.table.v, self.step_size):
            return self._fused(logits, labels, index, learning)
        return self._plain(logits, labels, index, learning)

    def _plain(self, logits: Tensor, labels: Tensor, index: Tensor, learning: bool) -> Tensor:
        ignored = labels == self.ignore_index
        rows, movable = self.table.rows(index, ~ignored)
        v = self.table.read(rows, once=learning).to(logits.device)
        transform = TRANSFORMS[self.transform]
        log_q_y, slope = transform.at(logits, labels.masked_fill(ignored, 0), v)
        if learning:
            self.table.update(rows, self.step_size * slope, movable)
        if self.label_smoothing:
            # As logits: log q is its own log-softmax.
            return self._cross_entropy(transform.everywhere(logits, v), labels)
        # masked_fill and not where: torch copies where's scalar to the device, and waits for it.
        return self._reduced(-log_q_y.masked_fill(ignored, 0.0), labels)

    def _fused(self, logits: Tensor, labels: Tensor, index: Tensor, learning: bool) -> Tensor:
        if learning:
            refuse_recomputation()
        mean = self.reduction == "mean" and self.weight is None
        loss = fused.loss(
            logits,
            labels,
            index,
            self.table,
            transform=self.transform,
            step_size=self.step_size if learning else None,
            ignore_index=self.ignore_index,
            mean=mean,
        )
        return loss if mean else self._reduced(loss, labels)

    def _cross_entropy(self, logits: Tensor, labels: Tensor) -> Tensor:
        weight = None if self.weight is None else self.weight.to(logits)
        return F.cross_entropy(
            logits,
            labels,
            weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )

    def _reduced(self, losses: Tensor, labels: Tensor) -> Tensor:
        kept = labels != self.ignore_index
        if self.weight is not None:
            return reduced(losses, self.reduction, kept * self.weight.to(losses)[labels * kept])
        if self.reduction == "mean":
            return losses.sum() / kept.sum()
        return reduced(losses, self.reduction)

    def confidence(self) -> Tensor:
        """The confidence C of every training example, (examples,); low = suspicious."""
        confidence: Tensor = self.table()
        return confidence
