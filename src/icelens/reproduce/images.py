"""Trials on images: a recipe trained without a run folder, and the record of what came out."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icelens.data import Split, load
from icelens.errors import InputError
from icelens.losses import find_method
from icelens.reproduce.experiment import Experiment, Place, loss_of, settings_of
from icelens.reproduce.figures.confidences import store_ridges
from icelens.reproduce.figures.galleries import store_gallery
from icelens.reproduce.store import circumstances, read_trial, trial_path, write_trial
from icelens.train.driver import examples_table, run_recipe
from icelens.train.loop import advance, begin
from icelens.train.pretrain import save_transitions, transition_for
from icelens.train.recipe import Recipe, make_recipe
from icelens.train.task import choose_device, prepare

if TYPE_CHECKING:
    import pandas as pd


LOWEST = 500  # least confident examples whose classes are counted


@dataclass(frozen=True)
class Trial:
    """One cell of an experiment: a method and a seed."""

    method: str
    seed: int


def trials_of(experiment: Experiment, methods: Sequence[str] = (), count: int = 0) -> list[Trial]:
    """The trials in the order to run them: cross entropy first, whose matrices others start from."""
    chosen = list(methods or experiment.methods)
    for method in chosen:
        find_method(loss_of(experiment, method))
    chosen.sort(key=lambda method: find_method(loss_of(experiment, method)).pretrain is not None)
    return [Trial(method, seed) for seed in range(count or experiment.trials) for method in chosen]


def missing(experiment: Experiment, trials: Sequence[Trial], place: Place) -> list[Trial]:
    """Those that have no record yet. A record that was made with other settings is refused."""
    return [trial for trial in trials if not _is_finished(experiment, trial, place)]


def _is_finished(experiment: Experiment, trial: Trial, place: Place) -> bool:
    path = _path(experiment, trial, place)
    if not path.exists():
        return False
    there, wanted = read_trial(path).get("settings", {}), _settings(recipe_of(experiment, trial, place))
    for name in sorted({*there, *wanted}):
        default = getattr(Recipe(), name, None)
        if there.get(name, default) != wanted.get(name, default):
            raise InputError(
                f"{path} was made with {name}={there.get(name, default)!r}, not "
                f"{wanted.get(name, default)!r}; give another --results"
            )
    return True


def run_trial(experiment: Experiment, trial: Trial, place: Place) -> None:
    """Train one trial and write its record, and what else the experiment keeps of it."""
    recipe = recipe_of(experiment, trial, place)
    split = _split(recipe.data, recipe.root)
    started = time.perf_counter()
    if _is_kept(experiment, trial):
        name = f"{experiment.table}-{experiment.data}-{trial.method}"
        run = run_recipe(recipe, place.work / name, split=split)
        metrics, table = run.metrics(), run.examples()
        store = store_ridges if experiment.keep == "ridgeline" else partial(store_gallery, split=split)
        store(run, place.results)
    else:
        baseline = recipe_of(experiment, Trial("cross_entropy", trial.seed), place)
        metrics, table = train(dataclasses.replace(recipe, snapshots=0), split, place.work, baseline)
    record = {
        "table": experiment.table,
        "data": recipe.data,
        "method": trial.method,
        "loss": recipe.loss,
        "seed": recipe.seed,
        **_accuracies(metrics),
        **(_detection(table) if "moved" in table else _original(table)),
        "seconds": round(time.perf_counter() - started, 2),
        "seconds_training": metrics[-1]["seconds"],
        "settings": _settings(recipe),
        **circumstances(recipe.device),
    }
    write_trial(_path(experiment, trial, place), record)


def recipe_of(experiment: Experiment, trial: Trial, place: Place) -> Recipe:
    """The recipe of a trial."""
    settings = settings_of(experiment, trial.method)
    here = {"root": str(place.root), "device": str(choose_device(place.device))}
    if not here["device"].startswith("cuda"):
        settings |= {"compiled": False, "precision": "float32", "channels_last": False}
    return make_recipe({**settings, **here, "loss": loss_of(experiment, trial.method), "seed": trial.seed})


def train(
    recipe: Recipe, split: Split, work: Path, baseline: Recipe
) -> tuple[list[dict[str, Any]], pd.DataFrame]:
    """Metrics and examples of a recipe, trained without a run folder: if it is killed, it starts again.

    Args:
        recipe: what to train.
        split: the data.
        work: where the matrices of baselines are kept.
        baseline: the cross-entropy run on the same data whose predictions some methods start from.
    """
    task, folder = prepare(recipe, split), _matrices(baseline, work)
    state = begin(recipe, task, transition_for(recipe, task, folder, plain=baseline))
    advance(recipe, task, state, title=f"{recipe.data}, {recipe.loss}, seed {recipe.seed}")
    if recipe == baseline:
        save_transitions(recipe, task, state, folder)
    return state.metrics, examples_table(recipe, task, state)


def _matrices(baseline: Recipe, work: Path) -> Path:
    """Where a cross-entropy run leaves the matrices that other methods start from: one place per settings."""
    settings = json.dumps(_settings(baseline), sort_keys=True)
    digest = hashlib.sha256(settings.encode()).hexdigest()[:12]
    return work / f"{baseline.data}-{baseline.seed}-{digest}"


def _is_kept(experiment: Experiment, trial: Trial) -> bool:
    # A variant would overwrite what is kept of its loss.
    own = trial.method.startswith("ice_") and trial.method == loss_of(experiment, trial.method)
    return bool(experiment.keep) and trial.seed == 0 and own


def _accuracies(rows: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {"accuracy": rows[-1]["test_accuracy"]}
    if "valid_accuracy" in rows[-1]:
        best = max(rows, key=lambda row: row["valid_accuracy"])
        found["accuracy_at_best_validation"] = best["test_accuracy"]
        found["best_iteration"] = best["iteration"]
        found["valid_accuracy"] = rows[-1]["valid_accuracy"]
    found["curve"] = [[row["iteration"], row["test_accuracy"]] for row in rows]
    return found


def _detection(table: pd.DataFrame) -> dict[str, Any]:
    """How well the score tells flipped from original labels, among those that were trained on."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    table = table[~table["held_out"]]
    score = "confidence" if "confidence" in table else "p_label"
    return {
        "score": score,
        "auroc": float(roc_auc_score(table["moved"], -table[score])),
        "average_precision": float(average_precision_score(table["moved"], -table[score])),
    }


def _original(table: pd.DataFrame) -> dict[str, Any]:
    """Of original labels: the mean confidence of each class, and what the least confident are taken for."""
    if "confidence" not in table:
        return {}
    by_class = table.groupby("label", observed=True)["confidence"].mean()
    lowest = table.nsmallest(LOWEST, "confidence")
    pairs = Counter(zip(lowest["label"].astype(str), lowest["guess"].astype(str), strict=True))
    return {
        "confidence_by_class": {str(name): float(mean) for name, mean in by_class.items()},
        "lowest": LOWEST,
        "lowest_pairs": [[label, guess, count] for (label, guess), count in pairs.most_common(20)],
    }


def _settings(recipe: Recipe) -> dict[str, Any]:
    """The settings that are not the default's, less those of this machine and this trial."""
    default = dataclasses.asdict(Recipe())
    here = ("root", "device", "data", "loss", "seed")
    return {
        name: value
        for name, value in dataclasses.asdict(recipe).items()
        if name not in here and value != default[name]
    }


def _path(experiment: Experiment, trial: Trial, place: Place) -> Path:
    return trial_path(place.results, experiment.table, experiment.data, trial.method, trial.seed)


@lru_cache(maxsize=1)
def _split(data: str, root: str) -> Split:
    return load(data, root)
