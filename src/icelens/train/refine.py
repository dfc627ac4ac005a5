"""ICE+: a second stage in which an average of the network and trust in each label give the targets."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from icelens import ranks
from icelens.errors import InputError
from icelens.losses import HeldLoss
from icelens.train.averaging import move_average
from icelens.train.mixup import mixed, partner
from icelens.train.predict import as_input, is_captured, mixed_precision
from icelens.train.recipe import Recipe
from icelens.train.task import Task

if TYPE_CHECKING:
    from icelens.train.loop import State

DECAY = 0.995  # of the average of the weights, a step
FROZEN = 0.25  # of the stage, in which beliefs stay those of the first stage
STRONG = 0.5  # share of the images that are strongly augmented
RISE = 200  # iterations over which the learning rate rises


class Refinement:
    """Steps of the second stage.

    The average of the network sees each image as the first stage showed it, with statistics of the batch, as
    in training: those of the network itself come from images that are mixed and distorted, and fit no other.
    What it predicts moves the beliefs of the loss, and those with the confidences make the target of the
    image: the label as far as it is trusted, else what is believed. The network learns these targets from
    images of which some are strongly augmented and all are mixed in pairs.

    For the first quarter of the stage beliefs stay as they are. The learning rate is high again, the network
    forgets some of what it knew, and targets that followed it were lost in prototypes.
    """

    def __init__(
        self,
        recipe: Recipe,
        task: Task,
        state: State,
        forward_of: Callable[[Recipe, nn.Module], Callable[[Tensor], Tensor]],
    ) -> None:
        assert state.average is not None
        assert isinstance(state.loss, HeldLoss)
        self.recipe, self.task, self.state = recipe, task, state
        self.average, self.loss = state.average, state.loss
        self.forward = forward_of(recipe, self.average)
        self.live = torch.zeros((), device=task.device)

    def set(self, iteration: int) -> None:
        """Make ready for an iteration of the stage, whatever came before: a run may be resumed here."""
        state = self.state
        if iteration == state.first:
            self.average.load_state_dict(state.model.state_dict())
        as_in_training(self.average)
        state.share.fill_(share_of(self.recipe, iteration))
        self.live.fill_(float(iteration - state.first >= FROZEN * (state.iterations - state.first)))

    def step(self, rows: Tensor) -> None:
        """One step of the optimizer; its loss is added to the running sum."""
        recipe, state = self.recipe, self.state
        x, labels, index = self.task.train.batch(rows)
        precision = {"captured": is_captured(recipe, x.device)}
        with torch.no_grad():
            with mixed_precision(x.device, recipe.precision, **precision):
                logits = self.forward(as_input(recipe, x))
            target = self.loss.targets(logits.float().softmax(-1), labels, index, live=self.live)
            x = mixed(self.task.train.distorted(rows, STRONG), state.share)
            target = torch.lerp(partner(target), target, state.share)
        with mixed_precision(x.device, recipe.precision, **precision):
            logits = state.forward(as_input(recipe, x))
        loss = -(target * logits.float().log_softmax(-1)).sum(-1).mean()
        state.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        state.optimizer.step()
        move_average(self.average, state.model, DECAY, statistics=False)  # it has statistics of its own
        state.running.add_(loss.detach())


def as_in_training(model: nn.Module) -> None:
    """Have BatchNorm take, and remember, statistics of the batch; dropout stays off."""
    model.eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.train()


def share_of(recipe: Recipe, iteration: int) -> float:
    """λ of mixup, uniform from 1/2 to 1: a function of the seed and the iteration alone."""
    drawn = float(np.random.default_rng([recipe.seed, iteration]).uniform())
    return max(drawn, 1 - drawn)


def refine_factor(iteration: int, iterations: int) -> float:
    """The factor on the learning rate at an iteration of the stage: a rise, then half a cosine.

    >>> [round(refine_factor(t, 4000), 3) for t in (0, 199, 2000, 3999)]
    [0.005, 0.994, 0.5, 0.0]
    """
    rise = min(1.0, (iteration + 1) / min(RISE, max(1, iterations // 4)))
    return rise * (1 + math.cos(math.pi * iteration / iterations)) / 2


def check_refine(recipe: Recipe, task: Task) -> None:
    """Raise for a second stage that has nothing to start from."""
    if not recipe.refine:
        return
    if recipe.loss != "ice_held":
        raise InputError(f"refine goes on from the beliefs of ice_held; loss '{recipe.loss}' has none")
    if ranks.count() > 1:
        raise InputError(f"refine is for one process, and there are {ranks.count()}; set refine=0")
    if recipe.averaging:
        raise InputError("refine has an average of the weights of its own; set averaging=0")
    if task.train.inputs.dim() != 4 or task.train.inputs.dtype != torch.uint8:
        kind = f"{task.train.inputs.dtype} of shape {tuple(task.train.inputs.shape[1:])}"
        raise InputError(f"refine distorts images of uint8; an example here is {kind}")
