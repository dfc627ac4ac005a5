"""Losses that own K numbers per example: ELR and SOP, the peers that ICE's four bytes are measured against.

Their tables are plain buffers of one process. A batch that holds an example twice writes it twice; the
later row stays.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from icelens.errors import InputError
from icelens.losses.reduction import reduced


class ELRLoss(nn.Module):
    """Early-learning regularisation (Liu et al., 2020):  −log p_y + λ·log(1 − ⟨t, p⟩).

    t is the example's moving average of the model's own predictions: t ← β·t + (1 − β)·p / Σp, with p
    held within [1e−4, 1 − 1e−4]. Keeps examples × classes numbers.

    Args:
        strength: λ; 3 for CIFAR-10, 7 for CIFAR-100. 0 is cross entropy.
        beta: 0.7 for CIFAR-10, 0.9 for CIFAR-100.
    """

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
        self.strength, self.beta, self.reduction = strength, beta, reduction
        self.register_buffer("target", torch.zeros(examples, classes))

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        """The loss of a batch; while training it also moves the averages of the batch."""
        losses = F.cross_entropy(logits, labels, reduction="none")
        if index is None:
            return reduced(_without_index(self, losses), self.reduction)
        self.to(logits.device)
        p = logits.softmax(-1).clamp(1e-4, 1 - 1e-4)
        with torch.no_grad():
            target = self.target[index].to(p)
            if _learning(self):
                target = self.beta * target + (1 - self.beta) * p / p.sum(-1, keepdim=True)
                self.target[index] = target.to(self.target)
        return reduced(losses + self.strength * torch.log1p(-(target * p).sum(-1)), self.reduction)


class SOPLoss(nn.Module):
    """Sparse over-parameterisation (Liu et al., 2022): cross entropy of p + s, s the noise in this label.

    s_y = u² and s_k = −v_k² for the other classes. u follows the gradient of the loss, and v that of
    ‖ŷ + s − y‖², ŷ being the guess as a one-hot vector. They start almost at 0 and grow by products, so
    that only labels that stay unexplained get an s of their own. Keeps examples × (classes + 1) numbers.

    Args:
        step_u, step_v: learning rates of u and v per visit; the paper's 10 on the mean of a batch of 128
            is 10/128.
        scale: standard deviation of u and v at the start. 0 is cross entropy.
        floor: the smallest entry of p + s.
    """

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
        self.step_u, self.step_v, self.floor, self.reduction = step_u, step_v, floor, reduction
        self.register_buffer("u", scale * torch.randn(examples))
        self.register_buffer("v", scale * torch.randn(examples, classes))

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        """The loss of a batch; while training it also moves u and v of the batch."""
        if index is None:
            losses = F.cross_entropy(logits, labels, reduction="none")
            return reduced(_without_index(self, losses), self.reduction)
        self.to(logits.device)
        log_p = F.log_softmax(logits, -1)
        given = F.one_hot(labels, logits.shape[-1]).to(torch.bool)
        u, v = self.u[index].to(log_p), self.v[index].to(log_p)
        s = torch.where(given, (u**2).clamp(max=1)[:, None], -(v**2).clamp(max=1))
        corrected = (log_p.exp() + s).clamp(min=self.floor)
        total = corrected.sum(-1)
        corrected_y = corrected.gather(-1, labels[:, None]).squeeze(-1)
        losses = -(corrected_y / total).clamp(min=self.floor).log()
        if _learning(self):
            self._move(index, u, v, torch.where(given, 0, F.one_hot(logits.argmax(-1), logits.shape[-1])),
                       (1 / corrected_y - 1 / total).detach())  # fmt: skip
        return reduced(losses, self.reduction)

    def _move(self, index: Tensor, u: Tensor, v: Tensor, guess: Tensor, pull: Tensor) -> None:
        """One step down the gradient: 2u·(1/q_y − 1/Σq) for u and 4v·(ŷ − v²) for v, signs turned."""
        with torch.no_grad():
            self.u[index] = (u + self.step_u * 2 * u * pull).to(self.u)
            self.v[index] = (v + self.step_v * 4 * v * (guess - v**2)).to(self.v)


def _learning(loss: nn.Module) -> bool:
    return loss.training and torch.is_grad_enabled()


def _without_index(loss: nn.Module, losses: Tensor) -> Tensor:
    """Cross entropy for data that is not the training set."""
    if _learning(loss):
        raise InputError(f"{type(loss).__name__} needs the index of each training example")
    return losses
