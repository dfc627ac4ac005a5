"""Losses with an extra class for "I would rather not say"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from icelens.confidence import as_read
from icelens.errors import check_count
from icelens.losses.ranges import AT_LEAST_0, POSITIVE, SHARE, Range, check_settings
from icelens.losses.reduction import check_batch, check_reduction, is_learning, reduced
from icelens.losses.state import FineState
from icelens.transforms import wide


def abstaining_cross_entropy(outputs: Tensor, labels: Tensor, *, alpha: float | Tensor) -> Tensor:
    """Cross entropy where not abstained, at a price α for abstaining:  (1 − a)·H − α·log(1 − a).

    a is the probability of the extra, last class and H = −log(p_y / (1 − a)) the cross entropy over the
    others.

    Args:
        outputs: (batch, K + 1), the last one is the abstention.
        labels: (batch,), classes 0 to K − 1.
        alpha: the price; large is cross entropy, 0 is free abstention.
    """
    labels = check_batch(outputs, labels, outputs.shape[-1] - 1)
    class_loss, log_kept = _parts(wide(outputs), labels)
    return log_kept.exp() * class_loss - alpha * log_kept


def _parts(outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """H and log(1 − a). The second by logsigmoid, exact where a rounds to 0 or 1."""
    log_kept = F.logsigmoid(outputs[:, :-1].logsumexp(-1) - outputs[:, -1])
    return F.cross_entropy(outputs[:, :-1], labels, reduction="none"), log_kept


class DACLoss(FineState):
    """Deep abstaining classifier, one stage (Thulasidasan et al., 2019), with its schedule for α.

    Warm-up: cross entropy over all K + 1 outputs, while a moving average of (1 − a)·H is kept, up to and
    with the first batch after it. Then α starts at that average divided by `divisor` and grows linearly to
    `alpha_final` at the last step. In `eval()` it is cross entropy over the K classes.

    Args:
        steps: training steps in all.
        warmup: the share of them spent in the warm-up; 1 is cross entropy throughout.
        alpha_final: α at the last step.
        divisor: what the average is divided by for the first α.
        momentum: the weight of a new batch in the moving average.
        reduction: "mean", "sum" or "none".
    """

    RANGES: ClassVar[Mapping[str, Range]] = {
        "warmup": SHARE,
        "alpha_final": AT_LEAST_0,
        "divisor": POSITIVE,
        "momentum": SHARE,
    }

    average: Tensor
    step: Tensor

    def __init__(
        self,
        steps: int,
        *,
        warmup: float = 0.1,
        alpha_final: float = 1.0,
        divisor: float = 64.0,
        momentum: float = 0.05,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        check_count("steps", steps, least=1)
        check_settings(
            self.RANGES, warmup=warmup, alpha_final=alpha_final, divisor=divisor, momentum=momentum
        )
        self.steps, self.warmup_steps = steps, round(warmup * steps)
        self.alpha_final, self.divisor, self.momentum = alpha_final, divisor, momentum
        self.reduction = check_reduction(reduction)
        # NaN is "no average yet".
        self.register_buffer("average", torch.tensor(float("nan")))
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    def alpha(self) -> Tensor:
        """The price of abstaining at this step."""
        first = self.average.nan_to_num(self.alpha_final * self.divisor) / self.divisor
        done = (self.step - self.warmup_steps).to(first) / max(1, self.steps - 1 - self.warmup_steps)
        return torch.lerp(first, torch.full_like(first, self.alpha_final), done.clamp(0, 1))

    def forward(self, outputs: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        """The loss of this step while training; cross entropy over the K classes otherwise."""
        labels = check_batch(outputs, labels, outputs.shape[-1] - 1)
        outputs = wide(outputs)
        class_loss, log_kept = _parts(outputs, labels)
        if not self.training:
            return reduced(class_loss, self.reduction)
        self.to(outputs.device)
        kept_loss = log_kept.exp() * class_loss
        counts = is_learning(self)
        warm = as_read(self.step < self.warmup_steps, once=counts)
        if counts:
            self._average(kept_loss.detach().mean())
        alpha = as_read(self.alpha(), once=counts)
        abstaining = kept_loss - alpha.to(outputs) * log_kept
        losses = torch.where(warm, F.cross_entropy(outputs, labels, reduction="none"), abstaining)
        if counts:
            self.step.add_(1)
        return reduced(losses, self.reduction)

    def _average(self, kept_loss: Tensor) -> None:
        """Let a batch count, if it is finite and not past the first one after the warm-up."""
        kept_loss = kept_loss.to(self.average)
        average = torch.lerp(self.average, kept_loss, self.momentum)
        average = torch.where(self.average.isnan(), kept_loss, average)
        open_ = (self.step <= self.warmup_steps) & kept_loss.isfinite()
        self.average.copy_(torch.where(open_, average, self.average))
