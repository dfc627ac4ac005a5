"""mixup (Zhang et al., 2018): an input is mixed with another one of its batch and answers for both labels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from icelens.losses import ICELoss
from icelens.train.recipe import Recipe


def draw_share(recipe: Recipe, iteration: int) -> float:
    """λ of a batch, from Beta(a, a): a function of the seed and the iteration alone, as the rows are."""
    return float(np.random.default_rng([recipe.seed, iteration]).beta(recipe.mixup, recipe.mixup))


def partner(batch: Tensor) -> Tensor:
    """The other one of each pair: the one before it, since a batch is in random order already."""
    return batch.roll(1, 0)


def pairs(batch: Tensor, *, led: bool) -> tuple[Tensor, Tensor]:
    """Each one and its partner; a rank's part of a batch is `led` by the partner of its first."""
    return (batch[1:], batch[:-1]) if led else (batch, partner(batch))


def mixed(x: Tensor, share: Tensor, *, led: bool = False) -> Tensor:
    """λ·x + (1 − λ)·x', x' the partner of x.

    >>> mixed(torch.tensor([[0.0], [4.0]]), torch.tensor(0.75)).flatten()
    tensor([1., 3.])
    """
    own, other = pairs(x, led=led)
    return torch.lerp(other, own, share.to(x.dtype))


def mixed_loss(
    loss: nn.Module, outputs: Tensor, labels: Tensor, index: Tensor, share: Tensor, *, led: bool = False
) -> Tensor:
    """λ·loss(z, y, index) + (1 − λ)·loss(z, y', index'), z the outputs on mixed inputs.

    For ICE these are two visits of each example, one after the other, which move its confidence by λ and
    by 1 − λ of a step.
    """
    (labels, other_labels), (index, other_index) = pairs(labels, led=led), pairs(index, led=led)
    with _part_of_a_step(loss, share):
        own: Tensor = loss(outputs, labels, index)
    with _part_of_a_step(loss, 1 - share):
        others: Tensor = loss(outputs, other_labels, other_index)
    return share * own + (1 - share) * others


@contextmanager
def _part_of_a_step(loss: nn.Module, share: Tensor) -> Iterator[None]:
    if not isinstance(loss, ICELoss):
        yield
        return
    step_size = loss.step_size
    loss.step_size = step_size * share
    try:
        yield
    finally:
        loss.step_size = step_size  # the tensor itself, from which a recorded step reads it
