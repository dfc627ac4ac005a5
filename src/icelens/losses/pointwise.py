"""Losses without state: functions that return one value per example."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from icelens.transforms import TRANSFORMS


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The usual one:  −log p_y."""
    return F.cross_entropy(logits, labels, reduction="none")


def label_smoothing(logits: Tensor, labels: Tensor, *, smoothing: float = 0.1) -> Tensor:
    """Mix the label with the uniform distribution:  −Σ_k [(1 − s)·y_k + s/K]·log p_k."""
    return F.cross_entropy(logits, labels, reduction="none", label_smoothing=smoothing)


def soft_bootstrapping(logits: Tensor, labels: Tensor, *, beta: float = 0.95) -> Tensor:
    """Mix the label with the prediction:  −Σ_k [β·y_k + (1 − β)·p_k]·log p_k.

    The gradient flows through both p: the second part is the entropy of the prediction, which is lowered.
    """
    log_p = F.log_softmax(logits, -1)
    entropy = -(log_p.exp() * log_p).sum(-1)
    return beta * F.nll_loss(log_p, labels, reduction="none") + (1 - beta) * entropy


def hard_bootstrapping(logits: Tensor, labels: Tensor, *, beta: float = 0.8) -> Tensor:
    """Mix the label with the guess:  −β·log p_y − (1 − β)·log max_k p_k."""
    log_p = F.log_softmax(logits, -1)
    return beta * F.nll_loss(log_p, labels, reduction="none") - (1 - beta) * log_p.amax(-1)


def generalized_cross_entropy(logits: Tensor, labels: Tensor, *, q: float = 0.7) -> Tensor:
    """Between cross entropy (q → 0) and mean absolute error (q = 1):  (1 − p_y^q) / q."""
    log_p_y = -F.cross_entropy(logits, labels, reduction="none")
    return -torch.expm1(q * log_p_y) / q


def symmetric_cross_entropy(
    logits: Tensor, labels: Tensor, *, alpha: float = 0.1, beta: float = 1.0, log_zero: float = -4.0
) -> Tensor:
    """Cross entropy both ways:  −α·log p_y − β·A·(1 − p_y), where A stands for log 0."""
    log_p_y = -F.cross_entropy(logits, labels, reduction="none")
    return -alpha * log_p_y + beta * log_zero * torch.expm1(log_p_y)


def confidence_cross_entropy(
    logits: Tensor, labels: Tensor, v: Tensor, *, transform: str = "linear"
) -> Tensor:
    """Cross entropy of a prediction believed with confidence C = sigmoid(v):  −log h(p; C)_y.

    Differentiable in v too: with v = g(x) from a network of its own, this is the paper's alternative to
    one learned confidence per example (its figure "demo", panel c).
    """
    return -TRANSFORMS[transform].at(logits, labels, v)[0]
