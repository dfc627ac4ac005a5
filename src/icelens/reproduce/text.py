"""One trial of Table 2: an encoder fine-tuned on a task of GLUE, by cross entropy or by ICE."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from icelens.errors import InputError
from icelens.losses import ICELoss, Problem, make_loss
from icelens.models.encoder import load_encoder
from icelens.reproduce.text_data import TextTask, prepare_text
from icelens.reproduce.text_loop import predict, train
from icelens.reproduce.text_recipe import TextRecipe
from icelens.reproduce.text_scores import scores
from icelens.train.task import choose_device


@dataclass(frozen=True, eq=False)
class TextResult:
    """What a trial gives. Row i is row i of the training file.

    Args:
        recipe: its settings.
        scores: on the dev sets, or on the rows held out: matthews, f1, accuracy, as shares of 1.
        losses: the mean training loss of each epoch.
        held_out: (N,), the rows that were not trained on.
        confidence: (N,), C of each row, NaN where held out; None for cross entropy.
        guess: (N,), the model's own label at the end.
        p_label: (N,), its probability of the given label.
        seconds: of the training.
    """

    recipe: TextRecipe
    scores: dict[str, float]
    losses: list[float]
    held_out: Tensor
    confidence: Tensor | None
    guess: Tensor
    p_label: Tensor
    seconds: float


def run_text_trial(recipe: TextRecipe, root: Path | str, *, task: TextTask | None = None) -> TextResult:
    """Fine-tune an encoder by a recipe and score it.

    Args:
        recipe: the settings.
        root: the folder that holds `glue`.
        task: the data as `prepare_text` made it, where several trials share it.
    """
    device = choose_device(recipe.device)
    task = task or prepare_text(recipe.data, root, recipe.encoder, recipe.max_length, device)
    rows, held_out = split_rows(recipe, len(task.train))
    torch.manual_seed(recipe.seed)
    model = load_encoder(recipe.encoder, len(task.classes)).to(device)
    loss_fn = _loss(recipe, task).to(device)
    started = time.perf_counter()
    losses = train(recipe, task.train, rows, model, loss_fn)
    seconds = time.perf_counter() - started
    log_p = predict(recipe, model, task.train)
    confidence = None
    if isinstance(loss_fn, ICELoss):
        confidence = loss_fn.confidence().cpu()
        confidence[held_out] = torch.nan  # never visited, so nothing is known
    labels = task.train.labels.cpu()
    return TextResult(
        recipe=recipe,
        scores=_scores(recipe, task, model, log_p, held_out),
        losses=losses,
        held_out=torch.zeros(len(labels), dtype=torch.bool).index_fill_(0, held_out, True),
        confidence=confidence,
        guess=log_p.argmax(-1),
        p_label=log_p.gather(1, labels[:, None]).squeeze(1).exp(),
        seconds=seconds,
    )


def split_rows(recipe: TextRecipe, rows: int) -> tuple[Tensor, Tensor]:
    """The rows to train on and those held out: a function of the seed, the same for every method."""
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(recipe.seed))
    held_out = round(recipe.held_out * rows)
    if recipe.held_out and not 0 < held_out < rows:
        raise InputError(f"held_out={recipe.held_out} of {rows} rows leaves none to score or to train on")
    return order[held_out:].sort().values, order[:held_out].sort().values


def _loss(recipe: TextRecipe, task: TextTask) -> nn.Module:
    of_ice = {"step_size": recipe.step_size, "start": recipe.start}
    settings = {} if recipe.method == "cross_entropy" else of_ice
    return make_loss(recipe.method, Problem(len(task.train), len(task.classes)), **settings)


def _scores(
    recipe: TextRecipe, task: TextTask, model: nn.Module, log_p: Tensor, held_out: Tensor
) -> dict[str, float]:
    if len(held_out):
        return scores(recipe.data, task.train.labels.cpu()[held_out], log_p.argmax(-1)[held_out])
    found: dict[str, float] = {}
    for name, test in task.tests.items():
        guess = predict(recipe, model, test).argmax(-1)
        of_test = scores(recipe.data, test.labels.cpu(), guess)
        found |= {f"{metric}_{name}" if name else metric: value for metric, value in of_test.items()}
    return found
