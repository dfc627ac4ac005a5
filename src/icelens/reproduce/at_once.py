"""Several trials at once, each in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any, TypeVar

Job = TypeVar("Job", bound=tuple[Any, ...])


def run_jobs(function: Callable[..., None], jobs: Sequence[Job], workers: int) -> Iterator[Job]:
    """Call the function with the arguments of each job; yield each job as it ends.

    One worker is this process itself, in the order of the jobs. Where one fails, those not begun are dropped.
    """
    if workers == 1 or len(jobs) < 2:
        for job in jobs:
            function(*job)
            yield job
        return
    workers = min(workers, len(jobs))
    # Fresh processes: a fork would share a CUDA context, which CUDA does not allow.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, share_cores, (workers,)) as pool:
        running = {pool.submit(function, *job): job for job in jobs}
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
