"""Table 2 from its recipes: the trials of an experiment on text, and the choice of its settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

from icelens.errors import InputError, unknown
from icelens.reproduce.experiment import Experiment, Place, settings_of
from icelens.reproduce.store import trial_path
from icelens.reproduce.text_choice import Choice, candidates, run_choice
from icelens.reproduce.text_recipe import TextRecipe
from icelens.reproduce.text_trials import Trial, is_finished, run_missing


def text_recipe(experiment: Experiment, method: str, encoder: str, **changes: Any) -> TextRecipe:
    """The recipe of a method's trials; `changes` are seed, device and the like."""
    settings = {**settings_of(experiment, method), **changes}
    known = [setting.name for setting in fields(TextRecipe)]
    for name in settings:
        if name not in known:
            raise InputError(f"{experiment.title}: {unknown('setting', name, known)}")
    return TextRecipe(**{**settings, "method": method, "encoder": encoder})


def text_trials(
    experiment: Experiment, place: Place, encoder: str, *, methods: Sequence[str] = (), count: int = 0
) -> list[Trial]:
    """The trials of an experiment; those of seed 0 also keep their training rows."""
    return [
        Trial(
            text_recipe(experiment, method, encoder, seed=seed, device=place.device),
            trial_path(place.results, experiment.table, experiment.data, method, seed),
            keep_rows=seed == 0,
        )
        for seed in range(count or experiment.trials)
        for method in methods or experiment.methods
    ]


def run_text(
    experiment: Experiment,
    place: Place,
    encoder: str,
    *,
    methods: Sequence[str] = (),
    trials: int = 0,
    workers: int = 1,
    told: Callable[[str], None] = lambda _: None,
) -> int:
    """Run the trials that have no record yet; how many those were. `told` hears of each that is done."""
    wanted = text_trials(experiment, place, encoder, methods=methods, count=trials)
    missing = [trial for trial in wanted if not is_finished(trial)]
    run_missing(missing, place.root, jobs=workers, told=told)
    return len(missing)


def choose(
    experiments: Sequence[Experiment],
    place: Place,
    encoder: str,
    *,
    step_sizes: Sequence[float],
    starts: Sequence[float],
    rises: Sequence[float],
    held_out: float = 0.1,
    trials: int = 5,
    workers: int = 1,
) -> list[Choice]:
    """Compare settings of the confidences by scores on held-out training rows, the best first."""
    if not 0 < held_out < 1:
        raise InputError(f"held_out must lie in (0, 1), got {held_out}: the dev set is not for choosing by")
    recipes = [
        text_recipe(experiment, "cross_entropy", encoder, held_out=held_out, device=place.device)
        for experiment in experiments
    ]
    compared = candidates(experiments[0].methods, step_sizes, starts, rises)
    return run_choice(recipes, place.root, place.results, compared, seeds=range(trials), jobs=workers)
