"""Label corruptions, seeded: which labels moved is always told, and the rate is the expected share of them.

T[i, j] = P(given j, true i) is a transition matrix; its rows sum to one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from icelens.errors import InputError, unknown


class Noisy(NamedTuple):
    """Labels after corruption, and which of them differ from those before it."""

    labels: Tensor
    moved: Tensor


def symmetric_matrix(classes: int, rate: float) -> Tensor:
    """A label moves with probability `rate`, to each of the other classes alike."""
    _check_rate(rate)
    matrix = torch.full((classes, classes), rate / (classes - 1), dtype=torch.float64)
    return matrix.fill_diagonal_(1 - rate)


def pair_matrix(classes: int, rate: float) -> Tensor:
    """A label moves with probability `rate`, always to the next class; the last one to the first.

    >>> pair_matrix(3, 0.25)
    tensor([[0.7500, 0.2500, 0.0000],
            [0.0000, 0.7500, 0.2500],
            [0.2500, 0.0000, 0.7500]], dtype=torch.float64)
    """
    _check_rate(rate)
    stay = torch.eye(classes, dtype=torch.float64)
    return (1 - rate) * stay + rate * stay.roll(1, 1)


def dirichlet_matrix(classes: int, rate: float, *, seed: int = 0, concentration: float = 1.0) -> Tensor:
    """A label moves with probability `rate`; where to is drawn once per class from a Dirichlet."""
    _check_rate(rate)
    gamma = torch.full((classes, classes - 1), float(concentration), dtype=torch.float64)
    flips = torch._sample_dirichlet(gamma, generator=_generator(seed))
    matrix = torch.zeros(classes, classes, dtype=torch.float64)
    matrix[~torch.eye(classes, dtype=torch.bool)] = flips.flatten()
    return rate * matrix + (1 - rate) * torch.eye(classes, dtype=torch.float64)


def corrupt(labels: Tensor, transition: Tensor, *, seed: int = 0) -> Noisy:
    """Draw each given label from the row of the transition matrix that its true label names.

    >>> corrupt(torch.tensor([0, 1, 2]), pair_matrix(3, 0.999999)).labels
    tensor([1, 2, 0])
    """
    _check_labels(labels, len(transition))
    given = _draw(transition.cpu().double()[labels.cpu()], seed).to(labels.device)
    return Noisy(given, given != labels)


def symmetric(
    labels: Tensor, classes: int, rate: float, *, seed: int = 0, features: Tensor | None = None
) -> Noisy:
    """Flips to any other class alike; the paper's noise with rate 0.5."""
    return corrupt(labels, symmetric_matrix(classes, rate), seed=seed)


def pair(
    labels: Tensor, classes: int, rate: float, *, seed: int = 0, features: Tensor | None = None
) -> Noisy:
    """Flips to the next class."""
    return corrupt(labels, pair_matrix(classes, rate), seed=seed)


def dirichlet(
    labels: Tensor, classes: int, rate: float, *, seed: int = 0, features: Tensor | None = None
) -> Noisy:
    """Flips by a random transition matrix, drawn from the same seed."""
    return corrupt(labels, dirichlet_matrix(classes, rate, seed=seed), seed=seed + 1)


def instance(
    labels: Tensor, classes: int, rate: float, *, seed: int = 0, features: Tensor | None = None
) -> Noisy:
    """Flips that depend on the input, after the part-dependent noise of Xia et al. (2020).

    Each example has its own flip rate, normal around `rate` (deviation 0.1, cut at three deviations and so
    that it stays in [0, 1], which keeps the mean at `rate`), and a flip goes to the classes that a random
    projection of the example's features, one for each true class, scores highest.

    Args:
        labels: (examples,).
        classes: K.
        rate: the mean flip rate.
        seed: of the rates, the projections and the draws.
        features: (examples, ...), flattened and standardised here.
    """
    _check_labels(labels, classes)
    _check_rate(rate)
    if features is None:
        raise InputError("instance-dependent noise needs the features of the examples")
    if len(features) != len(labels):
        raise InputError(f"there are {len(labels)} labels but features of {len(features)} examples")
    generator = _generator(seed)
    rates = _rates_around(rate, len(labels), generator)
    chances = _flip_chances(_standardised(features), labels.cpu(), classes, generator) * rates[:, None]
    chances.scatter_(1, labels.cpu()[:, None], (1 - rates)[:, None])
    given = _draw(chances, seed + 1).to(labels.device)
    return Noisy(given, given != labels)


NOISES: dict[str, Callable[..., Noisy]] = {
    "symmetric": symmetric, "pair": pair, "dirichlet": dirichlet, "instance": instance,
}  # fmt: skip


def add_noise(
    name: str, labels: Tensor, classes: int, rate: float, *, seed: int = 0, features: Tensor | None = None
) -> Noisy:
    """Corrupt labels by the noise of this name; rate 0 leaves them as they are."""
    if name not in NOISES:
        raise unknown("noise", name, NOISES)
    return NOISES[name](labels, classes, rate, seed=seed, features=features)


def count_transition(clean_labels: Tensor, labels: Tensor, classes: int, *, prior: float = 0.0) -> Tensor:
    """The transition matrix by counting, where the truth is known. `prior` is added to every count.

    A class without examples has no estimate; its row becomes that of the identity.
    """
    _check_labels(clean_labels, classes)
    _check_labels(labels, classes)
    pairs = clean_labels.cpu() * classes + labels.cpu()
    counts = torch.bincount(pairs, minlength=classes * classes).view(classes, classes).double() + prior
    empty = counts.sum(1) == 0
    counts[empty] = torch.eye(classes, dtype=torch.float64)[empty]
    return counts / counts.sum(1, keepdim=True)


def anchor_transition(probabilities: Tensor, *, percentile: float | None = 97.0) -> Tensor:
    """The transition matrix from a network trained on noisy labels alone (Patrini et al., 2017).

    Row i is the prediction on the anchor of class i: the example with the largest probability of i, or,
    since the largest may be an outlier, the largest below the given percentile of them.

    Args:
        probabilities: (examples, classes), predictions on the training inputs.
        percentile: 97 as published; None takes the plain maximum, as published for CIFAR-100.
    """
    p = probabilities.cpu().double()
    if percentile is None:
        anchors = p.argmax(0)
    else:
        # argsort and not torch.quantile, which refuses more than 16 million values.
        rank = max(0, math.ceil(percentile / 100 * len(p)) - 1)
        anchors = p.argsort(0)[rank]
    rows = p[anchors]
    return rows / rows.sum(1, keepdim=True)


def _rates_around(rate: float, examples: int, generator: torch.Generator) -> Tensor:
    deviation = min(0.1, rate / 3, (1 - rate) / 3)
    normal = torch.empty(examples, dtype=torch.float64)
    torch.nn.init.trunc_normal_(normal, 0.0, 1.0, -3.0, 3.0, generator=generator)
    return rate + deviation * normal


def _standardised(features: Tensor) -> Tensor:
    flat = features.detach().cpu().flatten(1).to(torch.float32)
    return (flat - flat.mean(0)) / flat.std(0).clamp(min=1e-6) / math.sqrt(flat.shape[1])


def _flip_chances(features: Tensor, labels: Tensor, classes: int, generator: torch.Generator) -> Tensor:
    """For each example, where a flip goes: a softmax over the other classes of its projections."""
    chances = torch.zeros(len(labels), classes, dtype=torch.float64)
    for true in range(classes):
        projection = torch.randn(features.shape[1], classes, generator=generator)
        rows = (labels == true).nonzero().squeeze(1)
        scores = (features[rows] @ projection).double()
        scores[:, true] = -math.inf
        chances[rows] = scores.softmax(1)
    return chances


def _draw(chances: Tensor, seed: int) -> Tensor:
    """One draw per row, by where a uniform number falls among the cumulative chances."""
    uniform = torch.rand(len(chances), 1, dtype=torch.float64, generator=_generator(seed))
    return (uniform >= chances.cumsum(1)).sum(1).clamp(max=chances.shape[1] - 1)


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _check_rate(rate: float) -> None:
    if not 0 <= rate < 1:
        raise InputError(f"noise_rate must lie in [0, 1), got {rate}")


def _check_labels(labels: Tensor, classes: int) -> None:
    wrong = (labels < 0) | (labels >= classes)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise InputError(
            f"labels hold class {int(labels[row])} but there are {classes} classes (0–{classes - 1}); "
            f"first at index {row}"
        )
