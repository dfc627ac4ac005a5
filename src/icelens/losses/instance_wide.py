"""Losses that own K numbers per example: ELR and SOP, the peers that ICE's four bytes are measured against.

Their tables are plain buffers of one process. A batch that holds an example twice writes it twice; the
later row stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from icelens.confidence import as_read
from icelens.errors import IndexRangeError
from icelens.losses.ranges import AT_LEAST_0, BELOW_ONE, SHARE, Range, check_settings, check_sizes
from icelens.losses.reduction import check_batch, check_reduction, is_learning, reduced, without_index
from icelens.losses.state import FineState
from icelens.transforms import wide


class ELRLoss(FineState):
    """Early-learning regularisation (Liu et al., 2020):  −log p_y + λ·log(1 − ⟨t, p⟩).

    t is the example's moving average of the model's own predictions: t ← β·t + (1 − β)·p / Σp, with p
    held within [1e−4, 1 − 1e−4]. Keeps examples × classes numbers.

    Args:
        strength: λ; 3 for CIFAR-10, 7 for CIFAR-100. 0 is cross entropy.
        beta: 0.7 for CIFAR-10, 0.9 for CIFAR-100.
    """

    RANGES: ClassVar[Mapping[str, Range]] = {"strength": AT_LEAST_0, "beta": SHARE}

    target: Tensor

    def __init__(
        self,
        examples: int,
        classes: int,
        *,
        strength: float = 3.0,
        beta: float = 0.7,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        check_sizes(examples, classes)
        check_settings(self.RANGES, strength=strength, beta=beta)
        self.strength, self.beta, self.reduction = strength, beta, check_reduction(reduction)
        self.register_buffer("target", torch.zeros(examples, classes))

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        """The loss of a batch; while training it also moves the averages of the batch."""
        if index is None:
            return without_index(self, logits, labels, self.reduction)
        labels, index = _checked(logits, labels, index, self.target)
        self.to(logits.device)
        logits = wide(logits)
        p = logits.softmax(-1).clamp(1e-4, 1 - 1e-4)
        learning = is_learning(self)  # asked here, since no_grad() below would answer no
        with torch.no_grad():
            target = as_read(self.target[index], once=learning).to(p)
            if learning:
                moved = self.beta * target + (1 - self.beta) * p / p.sum(-1, keepdim=True)
                target = torch.where(moved.isfinite(), moved, target)
                self.target[index] = target.to(self.target)
        losses = F.cross_entropy(logits, labels, reduction="none")
        return reduced(losses + self.strength * torch.log1p(-(target * p).sum(-1)), self.reduction)


class SOPLoss(FineState):
    """Sparse over-parameterisation (Liu et al., 2022): cross entropy of p + s, s the noise in this label.

    s_y = u² and s_k = −v_k² for the other classes, neither beyond 1; p + s is raised to `floor` where it
    is below and normalised to sum to one. u follows the gradient of the loss, and v that of
    ‖ŷ + s − y‖², ŷ being the guess as a one-hot vector. They start almost at 0 and grow by products, so
    that only labels that stay unexplained get an s of their own. A value at its bound has no gradient and
    stays. Keeps examples × (classes + 1) numbers.

    Args:
        step_u: learning rate of u per visit. The paper's 10 (CIFAR-10) on the mean of a batch of 128 is
            10/128; it has 1 for CIFAR-100.
        step_v: learning rate of v per visit, likewise; 100 for asymmetric noise on CIFAR-100.
        scale: standard deviation of u and v at the start. 0 is cross entropy.
        floor: the smallest entry of p + s, before and after it is normalised.
        reduction: "mean", "sum" or "none".
    """

    RANGES: ClassVar[Mapping[str, Range]] = {
        "step_u": AT_LEAST_0,
        "step_v": AT_LEAST_0,
        "scale": AT_LEAST_0,
        "floor": BELOW_ONE,
    }

    u: Tensor
    v: Tensor

    def __init__(
        self,
        examples: int,
        classes: int,
        *,
        step_u: float = 10 / 128,
        step_v: float = 10 / 128,
        scale: float = 1e-8,
        floor: float = 1e-4,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        check_sizes(examples, classes)
        check_settings(self.RANGES, step_u=step_u, step_v=step_v, scale=scale, floor=floor)
        self.step_u, self.step_v, self.floor = step_u, step_v, floor
        self.reduction = check_reduction(reduction)
        self.register_buffer("u", scale * torch.randn(examples))
        self.register_buffer("v", scale * torch.randn(examples, classes))

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        """The loss of a batch; while training it also moves u and v of the batch."""
        if index is None:
            return without_index(self, logits, labels, self.reduction)
        labels, index = _checked(logits, labels, index, self.v)
        self.to(logits.device)
        p, y = wide(logits).softmax(-1), labels[:, None]
        learning = is_learning(self)
        u, v = (as_read(rows, once=learning).to(p) for rows in (self.u[index, None], self.v[index]))
        s = (-(v**2).clamp(max=1)).scatter(1, y, (u**2).clamp(max=1))
        raised = (p + s).clamp(min=self.floor)
        raised_y = raised.gather(1, y)
        q_y = raised_y / raised.sum(-1, keepdim=True)
        if learning:
            with torch.no_grad():
                free = ((p + s).gather(1, y) >= self.floor) & (q_y >= self.floor) & (u**2 <= 1)
                guess = F.one_hot(p.argmax(-1), p.shape[-1])
                self._move(
                    index,
                    torch.where(free, 2 * u * (1 - q_y) / raised_y, 0).squeeze(1),
                    torch.where(v**2 <= 1, 4 * v * (guess - v**2), 0).scatter(1, y, 0),
                )
        return reduced(-q_y.clamp(min=self.floor).log().squeeze(1), self.reduction)

    def _move(self, index: Tensor, down_u: Tensor, down_v: Tensor) -> None:
        """One step down both gradients; one that is not finite is none."""
        self.u[index] += (self.step_u * torch.nan_to_num(down_u, 0, 0, 0)).to(self.u)
        self.v[index] += (self.step_v * torch.nan_to_num(down_v, 0, 0, 0)).to(self.v)


def _checked(logits: Tensor, labels: Tensor, index: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
    """Labels and index as int64, if they fit the table. Looks at a CPU index only, as for labels."""
    labels = check_batch(logits, labels, columns=table.shape[1], index=index)
    index = index.to(torch.int64)  # torch takes a uint8 index for a mask
    if index.device.type != "cpu" or torch.compiler.is_compiling() or not index.numel():
        return labels, index
    low, high = (int(bound) for bound in index.aminmax())
    if low < 0 or high >= len(table):
        raise IndexRangeError(
            f"index {low if low < 0 else high} is not a row of the table, which has {len(table)} rows "
            f"(0–{len(table) - 1}); index must be the example's position in the training set"
        )
    return labels, index
