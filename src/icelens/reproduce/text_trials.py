"""Trials on text as files: what is finished is left alone, the rest is run, in several processes if asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icelens import progress
from icelens.data import DATASETS
from icelens.errors import FileError, InputError
from icelens.files import replacing
from icelens.reproduce.at_once import run_jobs
from icelens.reproduce.store import circumstances, write_trial
from icelens.reproduce.text import TextResult, run_text_trial
from icelens.reproduce.text_data import TextTask, prepare_text
from icelens.reproduce.text_recipe import TextRecipe
from icelens.train.task import choose_device

# Named elsewhere in a record, or without a bearing on its numbers.
_NOT_SETTINGS = ("data", "method", "seed", "encoder", "device")


@dataclass(frozen=True)
class Trial:
    """A recipe and the file for its record; `keep_rows` keeps its training rows in a .npz beside that."""

    recipe: TextRecipe
    path: Path
    keep_rows: bool = False


def run_missing(
    trials: Sequence[Trial],
    root: Path | str,
    *,
    jobs: int = 1,
    told: Callable[[str], None] = lambda _: None,
) -> None:
    """Run the trials that have no record, the longest first.

    Several programs may share a folder of results: a record appears whole or not at all, and is looked for
    again before each trial.

    Args:
        trials: what there should be.
        root: the folder that holds `glue`.
        jobs: processes. A small encoder leaves a GPU idle most of the time, so that a dozen can share it.
        told: is called with a line for each finished trial.
    """
    if jobs < 1:
        raise InputError(f"jobs must be at least 1, got {jobs}")
    missing = sorted((trial for trial in trials if not is_finished(trial)), key=_length, reverse=True)
    with progress.bar("trials", len(missing)) as tick:
        todo = [(trial, str(root)) for trial in missing]
        ended = run_jobs(run_one, todo, jobs, lambda job: job[0].path.stem)
        for done, (trial, _) in enumerate(ended, start=1):
            tick(1)
            told(f"{done} of {len(missing)} trials: {trial.path.stem}")


def run_one(trial: Trial, root: str) -> None:
    """Run a trial, unless another program has in the meantime; its record is written last."""
    if is_finished(trial):
        return
    recipe = trial.recipe
    result = run_text_trial(
        recipe, root, task=_task(recipe.data, root, recipe.encoder, recipe.max_length, recipe.device)
    )
    if trial.keep_rows:
        write_rows(trial.path.with_suffix(".npz"), result)
    write_trial(trial.path, record(result))


def is_finished(trial: Trial) -> bool:
    """Whether the trial has a record; one that was made with other settings is refused."""
    try:
        there = json.loads(trial.path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False
    except (OSError, ValueError) as error:
        raise FileError(f"{trial.path}: not the record of a trial: {error}") from None
    for name, value in {"encoder": _basename(trial.recipe), **settings(trial.recipe)}.items():
        found = there.get(name) if name == "encoder" else there.get("settings", {}).get(name)
        if found != value:
            raise InputError(
                f"{trial.path}: was made with {name}={found!r}, not {value!r}; give another folder of results"
            )
    return True


def record(result: TextResult) -> dict[str, Any]:
    """What is kept of a trial in JSON."""
    recipe = result.recipe
    around = circumstances(str(choose_device(recipe.device)))
    return {
        "data": recipe.data,
        "method": recipe.method,
        "seed": recipe.seed,
        "encoder": _basename(recipe),
        "scored_on": "held out" if recipe.held_out else "dev",
        "scores": result.scores,
        "losses": [round(loss, 6) for loss in result.losses],
        "seconds": round(result.seconds, 2),
        "settings": settings(recipe),
        **around,
        "versions": {**around["versions"], "transformers": version("transformers")},
    }


def settings(recipe: TextRecipe) -> dict[str, Any]:
    """The settings that a number depends on."""
    unused = (*_NOT_SETTINGS, *(("step_size", "start", "rise") if recipe.method == "cross_entropy" else ()))
    return {name: value for name, value in asdict(recipe).items() if name not in unused}


def write_rows(path: Path, result: TextResult) -> None:
    """Keep what is known of each training row: confidence, guess, and the probability of the label."""
    rows: dict[str, NDArray[Any]] = {
        "guess": result.guess.numpy().astype(np.int8),
        "p_label": result.p_label.numpy().astype(np.float16),
    }
    if result.confidence is not None:
        rows["confidence"] = result.confidence.numpy().astype(np.float32)
    with replacing(path) as part, part.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **rows)


def _basename(recipe: TextRecipe) -> str:
    """The encoder without the folders that it lies in, which are nobody's business."""
    return Path(recipe.encoder).name


def _length(trial: Trial) -> int:
    return DATASETS[trial.recipe.data].rows[0] * trial.recipe.epochs


@lru_cache(maxsize=1)
def _task(data: str, root: str, encoder: str, max_length: int, device: str) -> TextTask:
    return prepare_text(data, root, encoder, max_length, choose_device(device))
