"""Run what is missing of an experiment, several trials at once if asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from icelens import progress
from icelens.errors import InputError
from icelens.reproduce.at_once import run_jobs
from icelens.reproduce.experiment import Experiment, Place

if TYPE_CHECKING:
    from icelens.reproduce.images import Trial


def run_experiment(
    experiment: Experiment,
    place: Place,
    *,
    methods: Sequence[str] = (),
    trials: int = 0,
    workers: int = 1,
    encoder: str = "",
    told: Callable[[str], None] = lambda _: None,
) -> int:
    """Train the trials that have no record yet; how many those were.

    Args:
        experiment: what to train.
        place: where data and results lie.
        methods: other methods than the experiment's own.
        trials: how many seeds; 0 is as many as the experiment says.
        workers: trials at once, each in a process of its own.
        encoder: for text, a folder with a pretrained encoder, or its name on the hub.
        told: is called with a line for each finished trial.
    """
    if workers < 1:
        raise InputError(f"workers must be at least 1, got {workers}")
    if experiment.kind == "text":
        if not encoder:
            raise InputError(
                f"{experiment.title} needs an encoder: a folder, or its name on the hub (--encoder)"
            )
        from icelens.reproduce.text_experiment import run_text

        return run_text(
            experiment, place, encoder, methods=methods, trials=trials, workers=workers, told=told
        )
    from icelens.reproduce.images import missing, run_trial, trials_of

    todo = missing(experiment, trials_of(experiment, methods, trials), place)
    jobs = [(experiment, trial, place) for trial in todo]
    with progress.bar(f"trials of {experiment.title}", len(jobs)) as tick:
        for done, job in enumerate(run_jobs(run_trial, jobs, workers, _named), start=1):
            tick(1, note=_named(job))
            told(f"{done} of {len(jobs)} trials: {_named(job)}")
    return len(jobs)


def _named(job: tuple[Experiment, Trial, Place]) -> str:
    experiment, trial, _ = job
    return f"{experiment.data}, {trial.method}, seed {trial.seed}"
