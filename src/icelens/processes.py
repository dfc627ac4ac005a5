"""Work in processes of its own, which Ctrl-C ends without a word of theirs."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import active_children, get_context
from typing import Any

Submit = Callable[..., "Future[Any]"]
_state = {"interrupted": False}


@contextmanager
def process_pool(
    workers: int, initializer: Callable[..., None] | None = None, initargs: tuple[Any, ...] = ()
) -> Iterator[Submit]:
    """Fresh processes for jobs; yields what submits one, with the arguments of `Executor.submit`.

    An error drops the jobs that are not begun, and is raised once the others are through. Ctrl-C ends those,
    too: each sees KeyboardInterrupt, and until they have tidied up another Ctrl-C does nothing. A terminal
    sends it to all processes at once, and one that waits or imports would print a traceback; so they hear it
    only while they run a job.

    Args:
        workers: how many processes.
        initializer: called in each of them before its first job.
        initargs: with these.
    """
    others, jobs = set(active_children()), list[Future[Any]]()
    # Fresh: a fork would share a CUDA context, which CUDA does not allow.
    pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer, initargs)
    try:
        with _through(jobs):
            yield partial(_submit, pool, jobs)
    except KeyboardInterrupt:
        with _ignoring():
            _interrupt(set(active_children()) - others)
        raise
    finally:
        # Left to the end of Python, or broken into, this wait can last for ever.
        with _ignoring():
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _through(jobs: list[Future[Any]]) -> Iterator[None]:
    """After an error, drop the jobs that are not begun and wait for the others, until Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException:
        for job in jobs:
            job.cancel()
        wait(jobs)
        raise


def _interrupt(processes: set[Any]) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGINT)


@contextmanager
def _ignoring() -> Iterator[None]:
    """Let Ctrl-C do nothing, where a mask would only put it off, and Windows has none."""
    if threading.current_thread() is not threading.main_thread():  # Ctrl-C never breaks into another
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _submit(
    pool: ProcessPoolExecutor, jobs: list[Future[Any]], function: Callable[..., Any], *arguments: Any
) -> Future[Any]:
    with _deaf():  # a process that is started here does not hear it either
        jobs.append(pool.submit(_run, function, arguments))
    return jobs[-1]


@contextmanager
def _deaf() -> Iterator[None]:
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """A job in its process. After Ctrl-C those that wait there are not begun."""
    if _state["interrupted"]:
        raise KeyboardInterrupt
    signal.signal(signal.SIGINT, _once)
    if not hasattr(signal, "pthread_sigmask"):
        return function(*arguments)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        return function(*arguments)
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def _once(*_: Any) -> None:
    """From the terminal and from the first process: the second one would break into what tidies up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _state["interrupted"] = True
    raise KeyboardInterrupt
