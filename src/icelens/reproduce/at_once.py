"""Several trials at once, each in a process of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from typing import Any, TypeVar

from icelens.errors import TrainingError
from icelens.processes import process_pool

Job = TypeVar("Job", bound=tuple[Any, ...])


def run_jobs(
    function: Callable[..., None], jobs: Sequence[Job], workers: int, named: Callable[[Job], str]
) -> Iterator[Job]:
    """Call the function with the arguments of each job; yield each job as it ends.

    One worker is this process itself, in the order of the jobs. A training that fails is told when the others
    are through; any other error, which would befall them too, drops those not begun.
    """
    failed: list[str] = []
    for job, result in _ended(function, jobs, workers):
        try:
            result()
        except TrainingError as error:
            failed.append(f"{named(job)}: {error}")
        else:
            yield job
    if failed:
        raise TrainingError(f"{len(failed)} of {len(jobs)} trials failed\n" + "\n".join(failed))


def _ended(
    function: Callable[..., None], jobs: Sequence[Job], workers: int
) -> Iterator[tuple[Job, Callable[[], None]]]:
    """Each job with a call that raises what it raised."""
    if workers == 1 or len(jobs) < 2:
        for job in jobs:
            yield job, lambda job=job: function(*job)  # type: ignore[misc]
        return
    workers = min(workers, len(jobs))
    with process_pool(workers, share_cores, (workers,)) as submit:
        running = {submit(function, *job): job for job in jobs}
        for done in as_completed(running):
            yield running[done], done.result


def share_cores(workers: int) -> None:
    """Take this process's part of the CPU: threads of all, waiting for each other, would slow all down."""
    import torch

    torch.set_num_threads(max(1, (os.cpu_count() or 1) // workers))
