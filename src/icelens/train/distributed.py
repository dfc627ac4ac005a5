"""A recipe over several ranks: what they share of a batch, and the gradient of one process."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from icelens.errors import InputError
from icelens.losses import LOSSES, ForwardLoss, HeldLoss, ICELoss, Pointwise, Problem
from icelens.ranks import Ranks
from icelens.train.recipe import Recipe

# What a batch tells these is exchanged, or they keep nothing of it.
SHARED = (ICELoss, HeldLoss, Pointwise, ForwardLoss)


def over_ranks(recipe: Recipe, ranks: Ranks) -> Recipe:
    """The recipe as several ranks run it: one operation at a time, since exchanges are not recorded."""
    return recipe if ranks.count == 1 else replace(recipe, eager=True)


def check_over_ranks(recipe: Recipe, ranks: Ranks) -> None:
    """Raise for settings that hold in one process only."""
    check_device(recipe.device, ranks)
    if ranks.count > 1 and recipe.compiled:
        raise InputError("compiled=true is for one process; leave it out where there are several")


def check_device(device: str, ranks: Ranks) -> None:
    """Raise where all ranks would take one GPU."""
    if ranks.count > 1 and ":" in device:
        raise InputError(
            f"device {device} is one GPU, but there are {ranks.count} processes; "
            "with cuda or auto each takes its own"
        )


def check_loss(name: str, loss: nn.Module, ranks: Ranks) -> None:
    """Raise for a method whose state would be another one on each rank."""
    if ranks.count == 1 or isinstance(loss, SHARED):
        return
    any_problem = Problem(1, 2, steps=1, transition=torch.eye(2))
    possible = [known for known, method in LOSSES.items() if isinstance(method.make(any_problem), SHARED)]
    raise InputError(
        f"loss '{name}' would learn another state in each of {ranks.count} processes; start it without "
        f"torchrun, or choose one of {', '.join(possible)}"
    )


def distribute(loss: nn.Module, model: nn.Module, batch_size: int, ranks: Ranks) -> nn.Module:
    """The model as training calls it on several ranks; the loss becomes a sum over this rank's rows."""
    assert isinstance(loss, SHARED)
    loss.reduction = "sum"  # of which `share_of_mean` makes a mean over all ranks
    if isinstance(loss, ICELoss | HeldLoss):
        # Not that of the first step: a run may be resumed at the small last batch of an epoch.
        loss.table.capacity = -(-batch_size // ranks.count)
    # BatchNorm's statistics are the same on all ranks, so that there is nothing to broadcast. The setting has
    # another name since torch 2.13.
    known = inspect.signature(DistributedDataParallel).parameters
    buffers = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
    settings: dict[str, Any] = {buffers: False}
    return DistributedDataParallel(model, **settings)


def part_of(size: int, ranks: Ranks, *, led: bool, device: torch.device) -> slice | Tensor:
    """This rank's part of a batch of so many rows; `led` by the row before it, the partner in mixup."""
    part = ranks.part(size)
    if not led or ranks.count == 1 or part.start == part.stop:
        return part
    return torch.arange(part.start - 1, part.stop, device=device).remainder(size)


def share_of_mean(total: Tensor, size: int, ranks: Ranks) -> Tensor:
    """From a sum over this rank's rows to what DDP's mean over ranks makes the mean over the whole batch."""
    return total if ranks.count == 1 else total * (ranks.count / size)


def seed_step(seed: int, iteration: int, ranks: Ranks) -> None:
    """Seed dropout by iteration and rank: no rank repeats another's, and a resumed run draws the same."""
    if ranks.count > 1:
        torch.manual_seed(
            int(np.random.SeedSequence([seed, iteration, ranks.rank]).generate_state(1, np.uint64)[0])
        )
