"""What some methods need before they start: a transition matrix from a cross-entropy run."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from torch import Tensor

from icelens.losses import find_method
from icelens.noise import anchor_transition, count_transition
from icelens.train.checkpoint import read_safetensors, write_safetensors
from icelens.train.loop import advance, begin
from icelens.train.predict import log_probabilities
from icelens.train.recipe import Recipe
from icelens.train.task import Task

ANCHOR_CLASSES = 100  # from this many classes on, the plain argmax, as published for CIFAR-100


def transition_for(recipe: Recipe, task: Task, folder: Path) -> Tensor | None:
    """The matrix that the recipe's method asks for, or None where it asks for none.

    Forward correction wants the predictions on anchors, noise adaptation the confusion of guesses and
    given labels. Both come from the same recipe run with cross entropy first, and are kept in the folder.
    """
    wanted = find_method(recipe.loss).pretrain
    if wanted is None:
        return None
    path = folder / "transition.safetensors"
    if path.exists():
        return read_safetensors(path)[0]["transition"]
    plain = dataclasses.replace(recipe, loss="cross_entropy", loss_settings={}, snapshots=0)
    state = advance(plain, task, begin(plain, task), title="training cross_entropy first")
    classes = len(task.classes)
    log_p = log_probabilities(
        plain, state.model, task.train, find_method(plain.loss), classes, rows=task.train_rows
    )
    if wanted == "anchors":
        matrix = anchor_transition(log_p.exp(), percentile=None if classes >= ANCHOR_CLASSES else 97.0)
    else:
        given = task.train.labels[task.train_rows.to(task.device)]
        matrix = count_transition(log_p.argmax(-1), given, classes)
    write_safetensors(path, {"transition": matrix}, {})
    return matrix
