"""From a recipe to a finished run folder, from the start or from the last checkpoint."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from icelens import progress
from icelens.data import Split
from icelens.losses import WITH_CONFIDENCES, find_method
from icelens.ranks import Ranks
from icelens.train.checkpoint import NAME as CHECKPOINT
from icelens.train.checkpoint import load_checkpoint, save_checkpoint
from icelens.train.distributed import check_over_ranks, over_ranks
from icelens.train.loop import State, advance, begin
from icelens.train.predict import log_probabilities
from icelens.train.pretrain import transition_for
from icelens.train.recipe import Recipe, make_recipe
from icelens.train.run import Run
from icelens.train.task import Task, choose_device, prepare

if TYPE_CHECKING:
    import pandas as pd


def run_recipe(recipe: Recipe, out: str | Path, *, split: Split | None = None) -> Run:
    """Train by a recipe into a run folder, or go on with the run that lies there.

    A run that was killed goes on from its last checkpoint and ends with the numbers it would have had;
    one that is finished is left as it is.

    Where torch.distributed runs with several ranks, all of them call this together and share each batch; the
    first one writes the folder, which the others need not see.

    Args:
        recipe: the settings.
        out: the folder of the run.
        split: data to train and test on, in place of the recipe's.
    """
    recipe, ranks = make_recipe({**asdict(recipe), "device": str(choose_device(recipe.device))}), Ranks.here()
    check_over_ranks(recipe, ranks)
    task, run = prepare(recipe, split), Run(out)
    fingerprints = task.fingerprints()
    ranks.agree("settings and data", (asdict(recipe), fingerprints))
    # A name or setting that is not known is told before a folder is made.
    begin(over_ranks(recipe, ranks), task, torch.eye(len(task.classes)))
    if ranks.is_first:
        run.start(recipe, fingerprints)
    if not ranks.of_first(lambda: run.finished):
        _train(over_ranks(recipe, ranks), task, run)
    if ranks.is_first:
        (run.folder / CHECKPOINT).unlink(missing_ok=True)
    ranks.wait()
    return run


def _train(recipe: Recipe, task: Task, run: Run) -> None:
    """Train from the last checkpoint, or from the start, to the end."""
    transition = transition_for(recipe, task, run.folder)
    state = begin(recipe, task, transition)
    parts = {"model": state.model, "loss": state.loss, "optimizer": state.optimizer, "data": task.train}
    if state.average is not None:
        parts["average"] = state.average
    _resume(run, state, load_checkpoint(run.folder, parts, state.ranks))

    def evaluated(state: State) -> None:
        if not state.ranks.is_first:
            return
        run.write_metrics(state.metrics)
        _write_history(run, state)
        reached = {"iteration": state.iteration, "seconds": state.seconds}
        save_checkpoint(run.folder, parts, reached)

    advance(recipe, task, state, title=f"training {recipe.loss}", evaluated=evaluated)
    table = examples_table(recipe, task, state)  # by all ranks, since they predict together
    if state.ranks.is_first:
        shape, outputs = (
            tuple(task.train.inputs.shape[1:]),
            find_method(recipe.loss).outputs(len(task.classes)),
        )
        run.write_model(state.predictor, shape, outputs)
        run.write_examples(table)


def _resume(run: Run, state: State, reached: dict[str, float] | None) -> None:
    if reached is None:
        return
    state.iteration, state.seconds = int(reached["iteration"]), reached["seconds"]
    if not state.ranks.is_first:
        return
    state.metrics = [row for row in run.metrics() if row["iteration"] <= state.iteration]
    if (run.folder / "history.safetensors").exists():
        at, confidence = run.history()
        state.snapshots = [(int(i), c) for i, c in zip(at, confidence, strict=True) if i <= state.iteration]


def _write_history(run: Run, state: State) -> None:
    if state.snapshots:
        at, confidence = zip(*state.snapshots, strict=True)
        run.write_history(torch.tensor(at), torch.stack([c.float() for c in confidence]))


def examples_table(recipe: Recipe, task: Task, state: State) -> pd.DataFrame:
    """One row per example of the training set, held out or not."""
    import pandas as pd

    method, classes = find_method(recipe.loss), len(task.classes)
    with progress.bar("predicting all examples", state.ranks.part(len(task.train)).stop) as tick:
        log_p = log_probabilities(recipe, state.predictor, task.train, method, classes, tick=tick).cpu()
    labels, guess = task.train.labels.cpu(), log_p.argmax(-1)
    columns: dict[str, object] = {
        "index": torch.arange(len(labels)).numpy(),
        "label": _named(task, labels),
        "guess": _named(task, guess),
        "p_label": log_p.gather(1, labels[:, None]).squeeze(1).exp().numpy(),
        "held_out": torch.isin(torch.arange(len(labels)), task.valid_rows).numpy(),
    }
    if isinstance(state.loss, WITH_CONFIDENCES):
        confidence = state.loss.confidence().cpu()
        confidence[task.valid_rows] = torch.nan  # never visited, so nothing is known
        columns["confidence"] = confidence.numpy()
    if task.truth_is_known:
        columns["clean_label"] = _named(task, task.clean_labels)
        columns["moved"] = task.moved.numpy()
    return pd.DataFrame({"id": [str(row) for row in range(len(labels))], **columns})


def _named(task: Task, labels: Tensor) -> pd.Categorical[str]:
    import pandas as pd

    return pd.Categorical.from_codes(labels.tolist(), categories=pd.Index(task.classes))
