"""What some methods need before they start: a transition matrix from a cross-entropy run."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from torch import Tensor

from icelens.losses import find_method
from icelens.noise import anchor_transition, count_transition
from icelens.ranks import Ranks
from icelens.train.checkpoint import read_safetensors, write_safetensors
from icelens.train.loop import State, advance, begin
from icelens.train.predict import log_probabilities
from icelens.train.recipe import Recipe
from icelens.train.task import Task

ANCHOR_CLASSES = 100  # from this many classes on, the plain argmax, as published for CIFAR-100
NAME = "transition.safetensors"


def transition_for(recipe: Recipe, task: Task, folder: Path, *, plain: Recipe | None = None) -> Tensor | None:
    """The matrix that the recipe's method asks for, or None where it asks for none.

    Forward correction wants the predictions on anchors, noise adaptation the confusion of guesses and
    given labels. Both come from a run with cross entropy first, and are kept in the folder.

    Args:
        recipe: what is to be trained.
        task: its data.
        folder: where the matrices are, or are put, by the first rank.
        plain: the run with cross entropy; the recipe itself with that loss where left out.
    """
    wanted = find_method(recipe.loss).pretrain
    if wanted is None:
        return None
    ranks = Ranks.here()
    if not ranks.of_first((folder / NAME).exists):
        plain = plain or dataclasses.replace(recipe, loss="cross_entropy", loss_settings={})
        state = advance(plain, task, begin(plain, task), title="training cross_entropy first")
        save_transitions(plain, task, state, folder)
    return ranks.tensors(read_safetensors(folder / NAME)[0] if ranks.is_first else {})[wanted]


def save_transitions(recipe: Recipe, task: Task, state: State, folder: Path) -> None:
    """Estimate both matrices from the predictions of a cross-entropy run on its training rows."""
    classes = len(task.classes)
    log_p = log_probabilities(
        recipe, state.predictor, task.train, find_method(recipe.loss), classes, rows=task.train_rows
    )
    given = task.train.labels[task.train_rows.to(task.device)]
    percentile = None if classes >= ANCHOR_CLASSES else 97.0
    matrices = {
        "anchors": anchor_transition(log_p.exp(), percentile=percentile),
        "confusion": count_transition(log_p.argmax(-1), given, classes),
    }
    if state.ranks.is_first:
        write_safetensors(folder / NAME, matrices, {})
