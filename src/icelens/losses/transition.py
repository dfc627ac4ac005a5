"""Losses that own a transition matrix: T[i, j] = P(given j, true i), K × K numbers for all examples."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from icelens.errors import InputError
from icelens.losses.pointwise import cross_entropy
from icelens.losses.reduction import check_batch, check_reduction, reduced
from icelens.losses.state import FineState
from icelens.matrices import check_tensor, check_transition
from icelens.transforms import wide


def forward_correction(logits: Tensor, labels: Tensor, transition: Tensor) -> Tensor:
    """Compare the given label with what the noise makes of the prediction:  −log Σ_i p_i T[i, y].

    A label that T calls impossible has an infinite loss. In float32 or wider, whatever the logits are: in
    bfloat16 a T[i, i] of 0.999 is 1, and the noise is gone.

    Args:
        logits: (batch, classes).
        labels: (batch,), as given.
        transition: (classes, classes), rows sum to one.
    """
    check_tensor("transition", transition)
    labels = check_batch(logits, labels, columns=len(transition))
    log_p = F.log_softmax(wide(logits), -1)
    return -torch.logsumexp(log_p + transition.to(log_p).log().T[labels], -1)


def noise_adaptation(outputs: Tensor, labels: Tensor) -> Tensor:
    """Forward correction with a matrix per example, read from the network:  −log Σ_i p_i T(x)[i, y].

    Args:
        outputs: (batch, K + K·K), first the K logits of p, then the rows of T(x) before softmax.
        labels: (batch,).
    """
    classes = _classes_of(outputs)
    labels, outputs = check_batch(outputs, labels, classes), wide(outputs)
    log_p = F.log_softmax(outputs[:, :classes], -1)
    log_t = F.log_softmax(outputs[:, classes:].reshape(len(outputs), classes, classes), -1)
    log_t_y = log_t.gather(-1, labels[:, None, None].expand(-1, classes, 1)).squeeze(-1)
    return -torch.logsumexp(log_p + log_t_y, -1)


def _classes_of(outputs: Tensor) -> int:
    """K, where a network has K + K·K outputs."""
    columns = outputs.shape[-1] if outputs.ndim else 0
    classes = (math.isqrt(1 + 4 * columns) - 1) // 2
    if classes < 1 or classes * (classes + 1) != columns:
        raise InputError(f"noise adaptation needs K + K·K outputs (110 for 10 classes), got {columns}")
    return classes


def start_adaptation(head: nn.Linear, transition: Tensor) -> None:
    """Set the last layer so that T(x) is `transition` for every x at the start.

    The weights of the K·K outputs become 0 and their biases log T, as Goldberger and Ben-Reuven do.
    """
    check_transition(transition)
    classes = len(transition)
    if head.out_features != classes + classes**2:
        raise InputError(
            f"noise adaptation needs K + K·K = {classes + classes**2} outputs, got {head.out_features}"
        )
    with torch.no_grad():
        head.weight[classes:] = 0
        head.bias[classes:] = (transition + 1e-8).log().flatten().to(head.bias)


class ForwardLoss(FineState):
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
        self.reduction = check_reduction(reduction)

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        """The corrected loss while training; plain cross entropy of the prediction otherwise."""
        if not self.training:
            return reduced(cross_entropy(logits, labels), self.reduction)
        return reduced(forward_correction(logits, labels, self.transition), self.reduction)
