"""h(p; C): how far a prediction p is believed on one example, in log space.

C = 1 leaves the prediction as it is, C = 0 replaces it by a uniform guess. Everything here takes the
confidence as its logit v, C = sigmoid(v), because v is what is learned and because 1 − C has no digits
left in C once v is large.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from icelens.errors import InputError


def linear(logits: Tensor, v: Tensor) -> Tensor:
    """Mix the prediction with the uniform distribution:  h(p; C) = C·p + (1 − C)/K.

    Works in log space. The plain formula loses every digit of 1 − C once C rounds
    to 1, which in float32 is at v ≈ 17, and then returns −inf where p underflows.

    Args:
        logits: (batch, classes), the model's output before softmax.
        v: (batch,), confidence logits; C = sigmoid(v).

    Returns:
        (batch, classes), log h(p; C), in float32 or wider. Each row sums to one after exp.

    >>> linear(torch.tensor([[2.0, 0.0]]), torch.tensor([-100.0])).exp()
    tensor([[0.5000, 0.5000]])
    """
    logits, v = _wide(logits, v)
    return _mix(F.log_softmax(logits, -1), v[:, None], logits.shape[-1])


def power(logits: Tensor, v: Tensor) -> Tensor:
    """Flatten the prediction by an exponent:  h(p; C)_i = p_i^C / Σ_j p_j^C.

    Of a softmax this is temperature scaling with the temperature 1/C, so it needs no probabilities.

    Args:
        logits: (batch, classes), the model's output before softmax.
        v: (batch,), confidence logits; C = sigmoid(v).

    Returns:
        (batch, classes), log h(p; C), in float32 or wider. Each row sums to one after exp.

    >>> power(torch.tensor([[4.0, 0.0]]), torch.tensor([0.0])).exp()  # C = 1/2: as if the logits were 2, 0
    tensor([[0.8808, 0.1192]])
    """
    logits, v = _wide(logits, v)
    return F.log_softmax(_tempered(_centred(logits), v), -1)


def linear_at(logits: Tensor, labels: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """log q_y of the linear transformation at the given label alone, and its derivative in v:  r − C.

    r = C·p_y / q_y is the posterior probability that the label came from the model and not from the
    uniform guess, so the confidence of an example moves towards how well the model explains its label.

    Returns:
        log q_y, (batch,), differentiable in logits and v; and d log q_y / dv, (batch,), a plain value.
    """
    logits, v = _wide(logits, v)
    log_k = math.log(logits.shape[-1])
    believed = F.logsigmoid(v) - F.cross_entropy(logits, labels, reduction="none")
    guessed = F.logsigmoid(-v) - log_k
    with torch.no_grad():
        slope = torch.sigmoid(believed - guessed) - torch.sigmoid(v)
    return torch.logaddexp(believed, guessed), slope


def power_at(logits: Tensor, labels: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """log q_y of the power transformation at the given label alone, and its derivative in v.

    With logits z the derivative is  C·(1 − C)·(z_y − Σ_j q_j z_j). It grows with the scale of the logits.

    Returns:
        log q_y, (batch,), differentiable in logits and v; and d log q_y / dv, (batch,), a plain value.
    """
    logits, v = _wide(logits, v)
    z = _centred(logits)
    log_q = F.log_softmax(_tempered(z, v), -1)
    log_q_y = -F.nll_loss(log_q, labels, reduction="none")
    with torch.no_grad():
        # A class ruled out by a logit of −inf has q_j z_j = 0·∞, which is NaN and must count as 0. A row that
        # is NaN in earnest stays so, by z_y: centring has spread it to all of the row.
        mean_z = log_q.exp().mul_(z).nansum(-1)
        z_y = z.gather(-1, labels[:, None]).squeeze(-1)
        slope = torch.sigmoid(v) * torch.sigmoid(-v) * (z_y - mean_z)
    return log_q_y, slope


class Transform(NamedTuple):
    """One transformation: over all classes, and at the given label with its derivative in v."""

    everywhere: Callable[[Tensor, Tensor], Tensor]
    at: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


TRANSFORMS = {"linear": Transform(linear, linear_at), "power": Transform(power, power_at)}


def _mix(log_p: Tensor, v: Tensor, classes: int) -> Tensor:
    return torch.logaddexp(F.logsigmoid(v) + log_p, F.logsigmoid(-v) - math.log(classes))


def _centred(logits: Tensor) -> Tensor:
    """The largest logit as 0. Changes no softmax, and C·z then has no digits to lose far from 0."""
    return logits - logits.detach().amax(-1, keepdim=True)


def _tempered(z: Tensor, v: Tensor) -> Tensor:
    """C·z. A class ruled out by a logit of −inf stays so: 0·∞, at a C of 0 and in the derivative, is NaN."""
    ruled_out = z == -math.inf
    return (torch.sigmoid(v)[:, None] * z.masked_fill(ruled_out, 0.0)).masked_fill(ruled_out, -math.inf)


def wide(logits: Tensor) -> Tensor:
    """At least 32 bits: half precision has too few digits for a log-probability."""
    return logits if logits.dtype in (torch.float32, torch.float64) else logits.to(torch.float32)


def _wide(logits: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    if v.shape != logits.shape[:1]:  # a v of (batch, 1) would broadcast to a loss for every pair of examples
        raise InputError(f"v must be (batch,) = ({len(logits)},), got shape {tuple(v.shape)}")
    logits = wide(logits)
    return logits, v.to(logits.dtype)
