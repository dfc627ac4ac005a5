"""Losses without state: functions that return one value per example."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from icelens.errors import unknown
from icelens.losses.reduction import check_batch
from icelens.transforms import TRANSFORMS, wide


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The usual one:  −log p_y."""
    labels = check_batch(logits, labels)
    return F.cross_entropy(wide(logits), labels, reduction="none")


def label_smoothing(logits: Tensor, labels: Tensor, *, smoothing: float = 0.1) -> Tensor:
    """Mix the label with the uniform distribution:  −Σ_k [(1 − s)·y_k + s/K]·log p_k."""
    labels = check_batch(logits, labels)
    return F.cross_entropy(wide(logits), labels, reduction="none", label_smoothing=smoothing)


def soft_bootstrapping(logits: Tensor, labels: Tensor, *, beta: float = 0.95) -> Tensor:
    """Mix the label with the prediction:  −Σ_k [β·y_k + (1 − β)·p_k]·log p_k.

    The gradient flows through both p: the second part is the entropy of the prediction, which is lowered.
    """
    labels = check_batch(logits, labels)
    log_p = F.log_softmax(wide(logits), -1)
    # A class ruled out by a logit of −inf has p·log p = 0·∞, which is NaN and must count as 0.
    entropy = -(log_p.exp() * log_p.clamp_min(torch.finfo(log_p.dtype).min)).sum(-1)
    return beta * F.nll_loss(log_p, labels, reduction="none") + (1 - beta) * entropy


def hard_bootstrapping(logits: Tensor, labels: Tensor, *, beta: float = 0.8) -> Tensor:
    """Mix the label with the guess:  −β·log p_y − (1 − β)·log max_k p_k."""
    labels = check_batch(logits, labels)
    log_p = F.log_softmax(wide(logits), -1)
    return beta * F.nll_loss(log_p, labels, reduction="none") - (1 - beta) * log_p.amax(-1)


def generalized_cross_entropy(logits: Tensor, labels: Tensor, *, q: float = 0.7) -> Tensor:
    """Between cross entropy (q → 0) and mean absolute error (q = 1):  (1 − p_y^q) / q.

    Not truncated. q = 0 is the limit, cross entropy itself.
    """
    losses = cross_entropy(logits, labels)
    return -torch.expm1(-q * losses) / q if q else losses


def symmetric_cross_entropy(
    logits: Tensor, labels: Tensor, *, alpha: float = 0.1, beta: float = 1.0, log_zero: float = -4.0
) -> Tensor:
    """Cross entropy both ways:  −α·log p_y − β·A·(1 − p_y).

    The reverse one, −Σ_k p_k·log y_k, is −A·(1 − p_y) once A (`log_zero`) stands for log 0. α = 0.1 and
    β = 1 are the paper's for CIFAR-10, 6 and 0.1 for CIFAR-100. The authors' code clips y at 1e−4 and so
    has A = ln 1e−4 ≈ −9.2.
    """
    losses = cross_entropy(logits, labels)
    return alpha * losses + beta * log_zero * torch.expm1(-losses)


def confidence_cross_entropy(
    logits: Tensor, labels: Tensor, v: Tensor, *, transform: str = "linear"
) -> Tensor:
    """Cross entropy of a prediction believed with confidence C = sigmoid(v):  −log h(p; C)_y.

    Differentiable in v too: with v = g(x) from a network of its own, this is the paper's alternative to
    one learned confidence per example (its figure "demo", panel c).

    Args:
        logits: (batch, classes).
        labels: (batch,).
        v: (batch,), confidence logits; a network with one output gives (batch, 1), so squeeze it.
        transform: "linear" or "power".
    """
    if transform not in TRANSFORMS:
        raise unknown("transform", transform, TRANSFORMS)
    labels = check_batch(logits, labels)
    return -TRANSFORMS[transform].at(logits, labels, v)[0]
