"""Label corruptions, seeded. Which labels moved is always told; the rate is the expected share of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from icelens.errors import InputError, unknown
from icelens.matrices import (
    anchor_transition,
    check_classes,
    check_noise,
    check_rate,
    check_tensor,
    check_transition,
    count_transition,
    dirichlet_matrix,
    pair_matrix,
    symmetric_matrix,
)

__all__ = [
    "NOISES",
    "Noisy",
    "add_noise",
    "anchor_transition",
    "corrupt",
    "count_transition",
    "dirichlet",
    "dirichlet_matrix",
    "instance",
    "pair",
    "pair_matrix",
    "symmetric",
    "symmetric_matrix",
]

# Rows at a time where a number per class is needed for each: 1 million examples of 100 classes would
# take gigabytes at once.
CHUNK = 4096


class Noisy(NamedTuple):
    """Labels after corruption, and which of them differ from those before it."""

    labels: Tensor
    moved: Tensor


def corrupt(labels: Tensor, transition: Tensor, *, seed: int = 0) -> Noisy:
    """Draw each given label from the row of the transition matrix that its true label names.

    >>> corrupt(torch.tensor([0, 1, 2]), pair_matrix(3, 0.999999)).labels
    tensor([1, 2, 0])
    """
    check_transition(transition)
    check_classes(labels, len(transition))
    cumulative = _cumulative(transition.detach().cpu().double())
    uniform = _uniform(len(labels), _generator(seed))
    given = torch.empty(len(labels), dtype=torch.int64)
    for true, rows in _rows_of_each_class(labels, len(transition)):
        given[rows] = torch.searchsorted(cumulative[true], uniform[rows], right=True)
    return _noisy(given, labels, len(transition))


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
    """Flips by a random transition matrix, `dirichlet_matrix` of the same seed."""
    return corrupt(labels, dirichlet_matrix(classes, rate, seed=seed), seed=seed + 1)


def instance(
    labels: Tensor, classes: int, rate: float, *, seed: int = 0, features: Tensor | None = None
) -> Noisy:
    """Flips that depend on the input, after the part-dependent noise of Xia et al. (2020).

    Each example has its own flip rate, normal around `rate` and cut at three deviations. The deviation is
    0.1, as published, or less where a rate near 0 or 1 asks for it, so that the mean stays at `rate`. Where a
    flip goes is a softmax over the other classes of x·W: x the example's features, W a random projection for
    each true class. As published, x is not scaled down by its size, so with hundreds of features examples
    that look alike flip alike.

    Args:
        labels: (examples,).
        classes: K.
        rate: the mean flip rate.
        seed: of the rates, the projections and the draws.
        features: (examples, ...), flattened and standardised here, so their units do not matter.
    """
    check_noise(classes, rate)
    check_classes(labels, classes)
    flat = _flat(features, len(labels))
    generator = _generator(seed)
    rates = _rates_around(rate, len(labels), generator)
    uniform = _uniform(len(labels), generator)
    mean, scale = _mean_and_scale(flat)
    given = torch.empty(len(labels), dtype=torch.int64)
    for true, rows in _rows_of_each_class(labels, classes):
        projection = torch.randn(flat.shape[1], classes, generator=generator, dtype=torch.float64)
        for some in _chunks(rows):
            scores = (flat[some].double() - mean) / scale @ projection
            scores[:, true] = -math.inf
            chances = rates[some, None] * scores.softmax(1)
            chances[:, true] = 1 - rates[some]
            given[some] = torch.searchsorted(_cumulative(chances), uniform[some, None], right=True).squeeze(1)
    return _noisy(given, labels, classes)


NOISES: dict[str, Callable[..., Noisy]] = {
    "symmetric": symmetric, "pair": pair, "dirichlet": dirichlet, "instance": instance,
}  # fmt: skip


def add_noise(
    name: str, labels: Tensor, classes: int, rate: float, *, seed: int = 0, features: Tensor | None = None
) -> Noisy:
    """Corrupt labels by the noise of this name; rate 0 leaves them as they are, and needs no features.

    >>> labels, moved = add_noise("symmetric", torch.zeros(1000, dtype=torch.int64), 10, 0.5)
    >>> int(moved.sum())
    500
    """
    if name not in NOISES:
        raise unknown("noise", name, NOISES)
    check_rate(rate)
    if rate == 0:
        check_classes(labels, classes)
        return _noisy(labels.clone(), labels, classes)
    return NOISES[name](labels, classes, rate, seed=seed, features=features)


def _noisy(given: Tensor, labels: Tensor, classes: int) -> Noisy:
    """The given labels, of the type of those before where that holds all classes, else int64."""
    given = given.to(labels.device, torch.int64)
    moved = given != labels.long()
    fits = classes - 1 <= torch.iinfo(labels.dtype).max
    return Noisy(given.to(labels.dtype) if fits else given, moved)


def _rows_of_each_class(labels: Tensor, classes: int) -> Iterator[tuple[int, Tensor]]:
    """Each class with the rows that hold it; every class comes, so that draws do not depend on which do."""
    labels = labels.cpu().long()
    counts = torch.bincount(labels, minlength=classes).tolist()
    return enumerate(torch.split(labels.argsort(stable=True), counts))


def _chunks(tensor: Tensor) -> list[Tensor]:
    return [tensor[start : start + CHUNK] for start in range(0, len(tensor), CHUNK)]


def _cumulative(chances: Tensor) -> Tensor:
    """Cumulative chances that end at exactly one, so that no draw lands on a class of chance zero."""
    total = chances.cumsum(-1)
    return total / total[..., -1:]


def _rates_around(rate: float, examples: int, generator: torch.Generator) -> Tensor:
    deviation = min(0.1, rate / 3, (1 - rate) / 3)
    normal = torch.empty(examples, dtype=torch.float64)
    torch.nn.init.trunc_normal_(normal, 0.0, 1.0, -3.0, 3.0, generator=generator)
    return (rate + deviation * normal).clamp(0, 1)


def _flat(features: Tensor | None, examples: int) -> Tensor:
    if features is None:
        raise InputError("instance-dependent noise needs the features of the examples")
    check_tensor("features", features)
    if features.ndim == 0 or len(features) != examples:
        seen = len(features) if features.ndim else 0
        raise InputError(f"there are {examples} labels but features of {seen} examples")
    flat = features.detach().cpu().reshape(examples, -1 if examples else 0)
    for start, some in enumerate(_chunks(flat)):
        wrong = ~some.isfinite().all(1)
        if wrong.any():
            row = start * CHUNK + int(wrong.nonzero()[0])
            raise InputError(f"features must be finite; first NaN or infinity at index {row}")
    return flat


def _mean_and_scale(flat: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each feature; one that never varies has the scale ∞ and so no say."""
    rows = max(1, len(flat))
    mean = sum((some.double().sum(0) for some in _chunks(flat)), torch.zeros(())) / rows
    square = sum(((some.double() - mean).square().sum(0) for some in _chunks(flat)), torch.zeros(()))
    varies = sum(((some != flat[0]).any(0) for some in _chunks(flat)), torch.zeros(())) > 0
    return mean, torch.where(varies, (square / rows).sqrt(), math.inf)


def _uniform(examples: int, generator: torch.Generator) -> Tensor:
    return torch.rand(examples, dtype=torch.float64, generator=generator)


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
