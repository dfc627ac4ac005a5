"""Transition matrices: made, estimated, checked.  T[i, j] = P(given j, true i); rows sum to one."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from icelens.errors import InputError


def symmetric_matrix(classes: int, rate: float) -> Tensor:
    """A label moves with probability `rate`, to each of the other classes alike."""
    check_noise(classes, rate)
    matrix = torch.full((classes, classes), rate / (classes - 1), dtype=torch.float64)
    return matrix.fill_diagonal_(1 - rate)


def pair_matrix(classes: int, rate: float) -> Tensor:
    """A label moves with probability `rate`, always to the next class; the last one to the first.

    >>> pair_matrix(3, 0.25)
    tensor([[0.7500, 0.2500, 0.0000],
            [0.0000, 0.7500, 0.2500],
            [0.2500, 0.0000, 0.7500]], dtype=torch.float64)
    """
    check_noise(classes, rate)
    stay = torch.eye(classes, dtype=torch.float64)
    return (1 - rate) * stay + rate * stay.roll(1, 1)


def dirichlet_matrix(classes: int, rate: float, *, seed: int = 0, concentration: float = 1.0) -> Tensor:
    """A label moves with probability `rate`; where to is drawn once per class from a Dirichlet.

    A small `concentration` sends almost all flips of a class to one other class, a large one to all alike.
    """
    check_noise(classes, rate)
    if not 1e-2 <= concentration < math.inf:  # below, every gamma variate of a row may underflow to 0
        raise InputError(f"concentration must be at least 0.01, got {concentration}")
    gamma = torch.full((classes, classes - 1), float(concentration), dtype=torch.float64)
    flips = torch._sample_dirichlet(gamma, generator=torch.Generator().manual_seed(seed))
    matrix = torch.zeros(classes, classes, dtype=torch.float64)
    matrix[~torch.eye(classes, dtype=torch.bool)] = flips.flatten()
    return rate * matrix + (1 - rate) * torch.eye(classes, dtype=torch.float64)


def count_transition(clean_labels: Tensor, labels: Tensor, classes: int, *, prior: float = 0.0) -> Tensor:
    """The transition matrix by counting, where the truth is known. `prior` is added to every count.

    A class without examples has no estimate; its row becomes that of the identity.

    >>> count_transition(torch.tensor([0, 0, 0, 0, 1]), torch.tensor([0, 0, 0, 1, 1]), 2)
    tensor([[0.7500, 0.2500],
            [0.0000, 1.0000]], dtype=torch.float64)
    """
    check_classes(clean_labels, classes)
    check_classes(labels, classes)
    if not 0 <= prior < math.inf:
        raise InputError(f"prior must be finite and at least 0, got {prior}")
    if len(clean_labels) != len(labels):
        raise InputError(f"there are {len(clean_labels)} clean labels but {len(labels)} labels")
    pairs = clean_labels.cpu().long() * classes + labels.cpu().long()
    counts = torch.bincount(pairs, minlength=classes * classes).view(classes, classes).double() + prior
    empty = counts.sum(1) == 0
    counts[empty] = torch.eye(classes, dtype=torch.float64)[empty]
    return counts / counts.sum(1, keepdim=True)


def anchor_transition(probabilities: Tensor, *, percentile: float | None = 97.0) -> Tensor:
    """The transition matrix from a network trained on noisy labels alone (Patrini et al., 2017).

    Row i is the prediction on the anchor of class i: the example with the largest probability of i, or,
    since the largest may be an outlier, the largest that lies below a percentile of them. Below, and not
    at it: a network that overfits gives more than 3 % of all examples the same 1.0, which is no anchor.

    Args:
        probabilities: (examples, classes), predictions on the training inputs.
        percentile: 97 as published; None takes the plain maximum, as published for CIFAR-100.
    """
    _check_predictions(probabilities)
    if percentile is not None and not 0 < percentile <= 100:
        raise InputError(f"percentile must lie in (0, 100], got {percentile}")
    p = probabilities.detach().cpu().double()
    below = p
    if percentile is not None:
        # kthvalue and not torch.quantile, which refuses more than 16 million values.
        rank = math.ceil(percentile / 100 * (len(p) - 1))
        below = torch.where(p < p.kthvalue(rank + 1, 0).values, p, -1.0)
    none_below = below.amax(0) < 0
    anchors = torch.where(none_below, p.argmax(0), below.argmax(0))
    rows = p[anchors]
    return rows / rows.sum(1, keepdim=True)


def check_transition(transition: Tensor) -> None:
    """Raise unless this is a square matrix of probabilities whose rows sum to one."""
    check_tensor("transition", transition)
    if transition.ndim != 2 or transition.shape[0] != transition.shape[1] or not len(transition):
        raise InputError(f"a transition matrix is (classes, classes), got shape {tuple(transition.shape)}")
    matrix = transition.detach().double()
    wrong = ~((matrix >= 0) & (matrix <= 1 + 1e-4))  # NaN is wrong too
    if wrong.any():
        row, column = wrong.nonzero()[0].tolist()
        raise InputError(
            f"a transition matrix holds probabilities, but row {row}, column {column} is "
            f"{matrix[row, column]:.4g}"
        )
    sums = matrix.sum(1)
    row = int((sums - 1).abs().argmax())
    if abs(float(sums[row]) - 1) > 1e-4:
        raise InputError(f"the rows of a transition matrix sum to one; row {row} sums to {sums[row]:.4f}")


def check_tensor(name: str, value: Any) -> None:
    """Raise unless this is a tensor and not, say, a list or an array of NumPy."""
    if not isinstance(value, Tensor):
        kind = type(value).__name__
        raise InputError(f"{name} must be a tensor, got {kind}; torch.as_tensor({name}) makes one")


def check_noise(classes: int, rate: float) -> None:
    """Raise unless labels of that many classes can move at this rate."""
    if classes < 2:
        raise InputError(f"label noise needs at least two classes, got {classes}")
    check_rate(rate)


def check_rate(rate: float) -> None:
    """Raise unless this is the share of labels that noise may move."""
    if not 0 <= rate < 1:
        raise InputError(f"noise_rate must lie in [0, 1), got {rate}")


def check_classes(labels: Tensor, classes: int) -> None:
    """Raise unless labels are (examples,) integers, each of them a class."""
    check_tensor("labels", labels)
    if labels.ndim != 1 or not holds_integers(labels):
        raise InputError(
            f"labels must be (examples,) integers, got {labels.dtype}, shape {tuple(labels.shape)}"
        )
    check_range(labels, classes)


def check_range(
    labels: Tensor, classes: int, *, place: str = "index {}", ignore_index: int | None = None
) -> None:
    """Raise for a label that is no class, and not `ignore_index`; `place` says where, {} being its row."""
    if not labels.numel():
        return
    labels = labels.long()  # a narrower type may not hold the number of classes that it is compared with
    low, high = labels.aminmax()
    if int(low) >= 0 and int(high) < classes:
        return
    wrong = (labels < 0) | (labels >= classes)
    if ignore_index is not None:
        wrong &= labels != ignore_index
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise InputError(
            f"labels hold class {int(labels[row])} but there are {classes} classes (0–{classes - 1}); "
            f"first at {place.format(row)}"
        )


def holds_integers(tensor: Tensor) -> bool:
    """Whether these are whole numbers; true and false are none."""
    dtype = tensor.dtype
    return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)


def _check_predictions(probabilities: Tensor) -> None:
    check_tensor("probabilities", probabilities)
    if probabilities.ndim != 2 or not len(probabilities):
        raise InputError(f"probabilities must be (examples, classes), got shape {tuple(probabilities.shape)}")
    wrong = ~((probabilities >= 0).all(1) & ((probabilities.double().sum(1) - 1).abs() < 1e-2))
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise InputError(f"probabilities must sum to one in every row; row {row} does not (logits?)")
