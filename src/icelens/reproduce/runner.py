"""Run what is missing of an experiment, several trials at once if asked."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from icelens import progress
from icelens.errors import InputError
from icelens.reproduce.experiment import Experiment
from icelens.reproduce.images import Place, Trial, missing, run_trial, trials_of
from icelens.reproduce.text_experiment import run_text


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
        told: is called with a line for each finished trial on images.
    """
    if workers < 1:
        raise InputError(f"workers must be at least 1, got {workers}")
    if experiment.kind == "text":
        if not encoder:
            raise InputError(
                f"{experiment.title} needs an encoder: a folder, or its name on the hub (--encoder)"
            )
        return run_text(experiment, place, encoder, methods=methods, trials=trials, workers=workers)
    todo = missing(experiment, trials_of(experiment, methods, trials), place)
    done = 0
    with progress.bar(f"trials of {experiment.title}", len(todo)) as tick:
        for trial in _run(experiment, todo, place, workers):
            done += 1
            tick(1, note=f"{trial.method}, seed {trial.seed}")
            told(f"{done} of {len(todo)} trials: {experiment.data}, {trial.method}, seed {trial.seed}")
    return len(todo)


def _run(experiment: Experiment, todo: Sequence[Trial], place: Place, workers: int) -> Iterator[Trial]:
    """Run the trials, one after the other or several at once; each as it ends."""
    if workers == 1:
        for trial in todo:
            run_trial(experiment, trial, place)
            yield trial
        return
    # Fresh processes: a fork would share a CUDA context, which CUDA does not allow.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        workers, mp_context=context, initializer=share_cores, initargs=(workers,)
    ) as pool:
        running = {pool.submit(run_trial, experiment, trial, place): trial for trial in todo}
        try:
            for done in as_completed(running):
                done.result()
                yield running[done]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def share_cores(workers: int) -> None:
    """Take this process's part of the CPU: threads of all, waiting for each other, would slow all down."""
    import torch

    torch.set_num_threads(max(1, (os.cpu_count() or 1) // workers))
