"""The loop of a trial: AdamW on random batches, the learning rate falling linearly to 0."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from icelens import progress
from icelens.errors import TrainingError
from icelens.losses import ICELoss
from icelens.reproduce.text_data import Tokens
from icelens.reproduce.text_recipe import TextRecipe
from icelens.train.capture import CapturedStep, in_place, side_stream
from icelens.train.loop import epoch_order
from icelens.train.predict import is_captured, mixed_precision


@dataclass(frozen=True)
class Training:
    """What a step reads and writes; `running` is the sum of the losses of this epoch."""

    recipe: TextRecipe
    data: Tokens
    model: nn.Module
    loss_fn: nn.Module
    optimizer: torch.optim.AdamW
    running: Tensor


def train(
    recipe: TextRecipe, data: Tokens, rows: Tensor, model: nn.Module, loss_fn: nn.Module
) -> list[float]:
    """Train on these rows; the mean loss of each epoch. The device is waited for once an epoch."""
    device = data.labels.device
    optimizer = _optimizer(recipe, model)
    training = Training(recipe, data, model, loss_fn, optimizer, torch.zeros((), device=device))
    captured = is_captured(recipe, device)
    train_on = _captured(training) if captured else partial(_step, training)
    batches = math.ceil(len(rows) / recipe.batch_size)
    steps, done, losses = recipe.epochs * batches, 0, []
    model.train()
    stream = side_stream(device) if captured else nullcontext()
    with stream, progress.bar(f"{recipe.data} {recipe.method}", steps) as tick:
        for epoch in range(recipe.epochs):
            for width, index in data.batches(epoch_order(rows, recipe.seed, epoch), recipe.batch_size):
                _set_rates(training, done / steps)
                train_on(width, index)
                done += 1
                tick(1)
            losses.append(_mean_loss(training, batches, epoch))
            tick(0, note=f"loss {losses[-1]:.3f}")
    return losses


def _step(training: Training, width: int, index: Tensor) -> None:
    """One step of the optimizer on a batch."""
    recipe, data = training.recipe, training.data
    training.optimizer.zero_grad(set_to_none=True)
    with mixed_precision(index.device, recipe.precision, captured=is_captured(recipe, index.device)):
        logits = training.model(**data.inputs_of(index, width)).logits
        loss = training.loss_fn(logits, data.labels[index], index)
    loss.backward()
    nn.utils.clip_grad_norm_(training.model.parameters(), recipe.max_gradient_norm)
    training.optimizer.step()
    training.running.add_(loss.detach())


def _captured(training: Training) -> Callable[[int, Tensor], None]:
    """The step as CUDA graphs, one for each width of batch and each size."""
    recorded: dict[int, CapturedStep] = {}
    pool = torch.cuda.graph_pool_handle()

    def train_on(width: int, index: Tensor) -> None:
        if width not in recorded:
            recorded[width] = CapturedStep(partial(_step, training, width), pool=pool)
        recorded[width](index)

    return train_on


def _set_rates(training: Training, done: float) -> None:
    """Set the learning rate and, for ICE, the step of the confidences; `done` is the share of the run."""
    recipe = training.recipe
    device = training.running.device
    place = partial(in_place, device) if is_captured(recipe, device) else lambda _, value: value
    for group in training.optimizer.param_groups:
        group["lr"] = place(group["lr"], recipe.learning_rate * (1 - done))
    if isinstance(training.loss_fn, ICELoss):
        size = recipe.step_size * (min(1.0, done / recipe.rise) if recipe.rise else 1.0)
        training.loss_fn.step_size = place(training.loss_fn.step_size, size)


def _mean_loss(training: Training, batches: int, epoch: int) -> float:
    mean = float(training.running) / batches
    training.running.zero_()
    if not math.isfinite(mean):
        raise TrainingError(
            f"the loss is {mean} in epoch {epoch + 1}; try a lower learning_rate "
            f"than {training.recipe.learning_rate}"
        )
    return mean


@torch.no_grad()
def predict(recipe: TextRecipe, model: nn.Module, data: Tokens) -> Tensor:
    """log p of every row, (N, classes), float32, on the CPU. Rows of like length share a batch."""
    model.eval()
    order = data.lengths.argsort(stable=True)
    device = data.labels.device
    with mixed_precision(device, recipe.precision, captured=is_captured(recipe, device)):
        logits = [model(**data.inputs_of(rows, width)).logits for width, rows in data.batches(order, 512)]
    log_p = torch.cat(logits).float().log_softmax(-1).cpu()
    return torch.empty_like(log_p).index_copy_(0, order, log_p)


def _optimizer(recipe: TextRecipe, model: nn.Module) -> torch.optim.AdamW:
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    groups = [
        {"params": matrices, "weight_decay": recipe.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    device = matrices[0].device
    captured = is_captured(recipe, device)
    rate = torch.tensor(recipe.learning_rate, device=device) if captured else recipe.learning_rate
    return torch.optim.AdamW(groups, rate, fused=device.type in ("cpu", "cuda"), capturable=captured)
