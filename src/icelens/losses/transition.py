"""Losses that own a transition matrix: T[i, j] = P(given j, true i), K × K numbers for all examples."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from icelens.errors import InputError
from icelens.losses.reduction import reduced


def forward_correction(logits: Tensor, labels: Tensor, transition: Tensor) -> Tensor:
    """Compare the given label with what the noise makes of the prediction:  −log Σ_i p_i T[i, y]."""
    log_p = F.log_softmax(logits, -1)
    return -torch.logsumexp(log_p + transition.log().T[labels], -1)


def noise_adaptation(outputs: Tensor, labels: Tensor) -> Tensor:
    """Forward correction with a matrix per example, read from the network:  −log Σ_i p_i T(x)[i, y].

    Args:
        outputs: (batch, K + K·K), first the K logits of p, then the rows of T(x) before softmax.
        labels: (batch,).
    """
    classes = classes_of(outputs.shape[-1])
    log_p = F.log_softmax(outputs[:, :classes], -1)
    log_t = F.log_softmax(outputs[:, classes:].view(-1, classes, classes), -1)
    log_t_y = log_t.gather(-1, labels[:, None, None].expand(-1, classes, 1)).squeeze(-1)
    return -torch.logsumexp(log_p + log_t_y, -1)


def classes_of(outputs: int) -> int:
    """K, where a network has K + K·K outputs."""
    classes = (math.isqrt(1 + 4 * outputs) - 1) // 2
    if classes * (classes + 1) != outputs:
        raise InputError(f"noise adaptation needs K + K·K outputs (110 for 10 classes), got {outputs}")
    return classes


def start_adaptation(head: nn.Linear, transition: Tensor) -> None:
    """Set the last layer so that T(x) is `transition` for every x at the start.

    The weights of the K·K outputs become 0 and their biases log T, as Goldberger and Ben-Reuven do.
    """
    classes = len(transition)
    with torch.no_grad():
        head.weight[classes:] = 0
        head.bias[classes:] = (transition + 1e-8).log().flatten().to(head.bias)


class ForwardLoss(nn.Module):
    """Forward correction by a fixed transition matrix (Patrini et al., 2017).

    Args:
        transition: (classes, classes), rows sum to one. Estimate it from a network trained with cross
            entropy: `icelens.noise.anchor_transition`.
    """

    transition: Tensor

    def __init__(self, transition: Tensor, *, reduction: str = "mean") -> None:
        super().__init__()
        check_transition(transition)
        self.register_buffer("transition", transition.clone())
        self.reduction = reduction

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        """The corrected loss while training; plain cross entropy of the prediction otherwise."""
        if not self.training:
            return reduced(F.cross_entropy(logits, labels, reduction="none"), self.reduction)
        matrix = self.transition.to(logits.device, logits.dtype)
        return reduced(forward_correction(logits, labels, matrix), self.reduction)


def check_transition(transition: Tensor) -> None:
    """Raise unless this is a square matrix of probabilities whose rows sum to one."""
    if transition.ndim != 2 or transition.shape[0] != transition.shape[1]:
        raise InputError(f"a transition matrix is (classes, classes), got shape {tuple(transition.shape)}")
    off = (transition.double().sum(1) - 1).abs()
    if transition.min() < 0 or off.max() > 1e-4:
        row = int(off.argmax())
        raise InputError(f"the rows of a transition matrix sum to one; row {row} sums to {1 + off[row]:.4f}")
