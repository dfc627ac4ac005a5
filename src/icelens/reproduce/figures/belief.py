"""h(p; C) on arrays of probabilities, where the library itself works on logits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
TITLES = {"linear": "linear interpolation", "power": "power transformation"}


def log_belief(transform: str, p: Array, confidence: Any) -> Array:
    """log h(p; C) of distributions p (n, K), with one C for all of them or one for each, in float64.

    >>> np.exp(log_belief("linear", np.array([[0.9, 0.1]]), 0.5))
    array([[0.7, 0.3]])
    """
    import torch

    from icelens.transforms import TRANSFORMS

    c = torch.as_tensor(confidence, dtype=torch.float64).expand(len(p))
    log_q = TRANSFORMS[transform].everywhere(torch.as_tensor(p, dtype=torch.float64).log(), c.logit())
    return np.asarray(log_q)


def believed(transform: str, p: Array, confidence: Any) -> Array:
    """h(p; C), (n, K); see `log_belief`."""
    q: Array = np.exp(log_belief(transform, p, confidence))
    return q


def best_confidence(transform: str, p: Array, q: Array) -> float:
    """The C whose belief in p comes nearest to q:  argmin_C KL(q ‖ h(p; C)).

    >>> round(best_confidence("linear", np.array([0.8, 0.1, 0.1]), np.array([0.45, 0.275, 0.275])), 3)
    0.25
    """
    from scipy.optimize import minimize_scalar

    def cross_entropy(confidence: float) -> float:
        return -float(q @ log_belief(transform, p[None], confidence)[0])

    return float(minimize_scalar(cross_entropy, bounds=(0, 1), method="bounded", options={"xatol": 1e-9}).x)
