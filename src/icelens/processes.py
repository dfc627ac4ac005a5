"""Work in processes of its own, which Ctrl-C ends without a word of theirs."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
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

    An error drops the jobs that are not begun. Ctrl-C ends those that run, too: each sees KeyboardInterrupt.
    A terminal sends it to all processes at once, and one that waits or imports would print a traceback;
    so they hear it only while they run a job.

    Args:
        workers: how many processes.
        initializer: called in each of them before its first job.
        initargs: with these.
    """
    others = set(active_children())
    # Fresh: a fork would share a CUDA context, which CUDA does not allow.
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer, initargs) as pool:
        try:
            yield partial(_submit, pool)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            _interrupt(set(active_children()) - others)
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _interrupt(processes: set[Any]) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGINT)


def _submit(pool: ProcessPoolExecutor, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
    with _deaf():  # a process that is started here does not hear it either
        return pool.submit(_run, function, arguments)


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
