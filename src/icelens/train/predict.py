"""Predictions of a whole data set, a large batch at a time, without its augmentation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn

from icelens.data import OnDevice
from icelens.losses import Method
from icelens.ranks import Ranks
from icelens.train.recipe import Recipe

BATCH = 2000


class HasEager(Protocol):
    """A recipe, of images or of text, as far as recording steps is concerned."""

    @property
    def eager(self) -> bool:
        """Whether steps run one operation at a time."""


def is_captured(recipe: HasEager, device: torch.device) -> bool:
    """Whether training steps are recorded as CUDA graphs."""
    return device.type == "cuda" and not recipe.eager


def mixed_precision(device: torch.device, precision: str, *, captured: bool) -> torch.autocast:
    """Autocast as a recipe wants it, in training and in prediction."""
    # A recorded step must cast the weights anew each time, since they have moved.
    return torch.autocast(
        device.type,
        torch.bfloat16,
        enabled=precision == "bfloat16",
        cache_enabled=not captured,
    )


def as_input(recipe: Recipe, x: Tensor) -> Tensor:
    """A batch in the layout and precision that the network has."""
    x = x.to(torch.float64 if recipe.precision == "float64" else torch.float32)
    return x.contiguous(memory_format=torch.channels_last) if recipe.channels_last else x


@torch.no_grad()
def log_probabilities(
    recipe: Recipe,
    model: nn.Module,
    data: OnDevice,
    method: Method,
    classes: int,
    *,
    rows: Tensor | None = None,
    tick: Callable[[int], None] = lambda _: None,
) -> Tensor:
    """log p for the rows, or for all of them: (rows, classes), float32, on the device.

    Several ranks predict a part each, and hand them round; so all of them must call this.
    `tick` is told of the rows that are done.
    """
    was_training = model.training
    model.eval()
    rows, ranks = torch.arange(len(data)) if rows is None else rows, Ranks.here()
    device = data.labels.device
    with mixed_precision(device, recipe.precision, captured=is_captured(recipe, device)):
        parts = []
        for part in torch.split(rows[ranks.part(len(rows))], BATCH):
            logits = method.predict(model(as_input(recipe, data.plain(part))), classes)
            parts.append(logits.float().log_softmax(-1))
            tick(len(part))
    model.train(was_training)
    return ranks.joined(torch.cat(parts), len(rows))


def accuracy(log_p: Tensor, labels: Tensor) -> float:
    """The share of the rows whose most probable class is the label."""
    return float((log_p.argmax(-1) == labels.to(log_p.device)).double().mean())
