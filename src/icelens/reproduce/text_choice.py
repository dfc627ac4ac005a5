"""How the settings of the confidences are chosen: by scores on a held-out part of the training set."""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from icelens.reproduce.store import read_trial
from icelens.reproduce.tables import markdown
from icelens.reproduce.text_recipe import TextRecipe
from icelens.reproduce.text_trials import Trial, run_missing

FOLDER = "table2_choice"
_COMPARED = ("step_size", "start", "rise")


@dataclass(frozen=True)
class Candidate:
    """A method with the step, the start and the rise of its confidences; cross entropy has none."""

    method: str
    step_size: float | None = None
    start: float | None = None
    rise: float | None = None


@dataclass(frozen=True)
class Choice:
    """A candidate with its mean score on each task in percent, their mean, and the trials of a task."""

    candidate: Candidate
    tasks: dict[str, float]
    mean: float
    n: int


def candidates(
    methods: Sequence[str], step_sizes: Sequence[float], starts: Sequence[float], rises: Sequence[float]
) -> list[Candidate]:
    """All that is to be compared: each method with each step, start and rise."""
    found = []
    for method in methods:
        if method == "cross_entropy":
            found.append(Candidate(method))
        else:
            found += [Candidate(method, *each) for each in itertools.product(step_sizes, starts, rises)]
    return found


def choice_trials(
    recipe: TextRecipe, results: Path, compared: Iterable[Candidate], seeds: Iterable[int]
) -> list[Trial]:
    """A trial of each candidate and seed on the task of a recipe, scored on the share that it holds out.

    The rows held out are those of the seed, the same for all candidates. The dev set is not looked at.
    """
    return [
        _trial(replace(recipe, method=candidate.method, seed=seed), candidate, results)
        for seed in seeds
        for candidate in compared
    ]


def run_choice(
    recipes: Iterable[TextRecipe],
    root: Path | str,
    results: Path | str,
    compared: Sequence[Candidate],
    *,
    seeds: Iterable[int],
    jobs: int = 1,
) -> list[Choice]:
    """Run what is missing of the comparison, and give the candidates, the best first.

    Args:
        recipes: one for each task.
        root: the folder that holds `glue`.
        results: the folder of results; records go to `table2_choice` in it.
        compared: the candidates.
        seeds: the seeds of each candidate.
        jobs: processes.
    """
    seeds = list(seeds)
    trials = [t for recipe in recipes for t in choice_trials(recipe, Path(results), compared, seeds)]
    run_missing(trials, root, jobs=jobs)
    return choices(read_trial(trial.path) for trial in trials)


def choices(records: Iterable[dict[str, Any]]) -> list[Choice]:
    """The candidates with the mean of their scores over seeds, then over tasks, the best first.

    A task counts by the first of its measures. Compare only candidates that have the same tasks and seeds.
    """
    values: dict[Candidate, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        settings = record["settings"]
        candidate = Candidate(record["method"], *(settings.get(name) for name in _COMPARED))
        values[candidate][record["data"]].append(100 * next(iter(record["scores"].values())))
    found = [_choice(candidate, of) for candidate, of in values.items()]
    return sorted(found, key=lambda choice: -choice.mean)


def choices_markdown(found: Sequence[Choice]) -> str:
    """The comparison in Markdown."""
    tasks = sorted({task for choice in found for task in choice.tasks})
    lines = [["method", *_COMPARED, "n", *tasks, "mean"]]
    for choice in found:
        values = [getattr(choice.candidate, name) for name in _COMPARED]
        named = ["" if value is None else f"{value:g}" for value in values]
        scores = [f"{choice.tasks[task]:.2f}" if task in choice.tasks else "" for task in tasks]
        lines.append([choice.candidate.method, *named, str(choice.n), *scores, f"{choice.mean:.2f}"])
    return markdown(lines)


def _choice(candidate: Candidate, of: dict[str, list[float]]) -> Choice:
    tasks = {task: statistics.mean(values) for task, values in of.items()}
    return Choice(candidate, tasks, statistics.mean(tasks.values()), min(map(len, of.values())))


def _trial(recipe: TextRecipe, candidate: Candidate, results: Path) -> Trial:
    given = {name: getattr(candidate, name) for name in _COMPARED}
    given = {name: float(value) for name, value in given.items() if value is not None}
    recipe = replace(recipe, **given)
    named = "-".join([recipe.data, recipe.method, *(f"{name}{value:g}" for name, value in given.items())])
    return Trial(recipe, results / FOLDER / f"{named}-{recipe.seed}.json")
