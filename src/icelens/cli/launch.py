"""Commands under torchrun: several processes do one command's work, and the first one speaks."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from icelens.errors import InputError, TrainingError

_group: dict[str, Any] = {"store": None}


def processes() -> int:
    """How many processes torchrun, or another launcher that names them, started; 1 without one."""
    named = all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))
    return int(os.environ["WORLD_SIZE"]) if named else 1


def speaks() -> bool:
    """Whether this process is the one that shows progress and results."""
    return processes() == 1 or os.environ["RANK"] == "0"


def refuse_several(command: str) -> None:
    """Raise for a command that several processes cannot share, in one of them; the others leave."""
    if not speaks():
        raise SystemExit(2)
    if processes() > 1:
        raise InputError(
            f"icelens {command} does not share its work between processes; start it without torchrun"
        )


@contextmanager
def all_processes(timeout: timedelta | None = None) -> Iterator[None]:
    """Inside, the processes are ranks of one group; without torchrun there is one, and no group.

    Args:
        timeout: how long a rank may wait for the others; None is torch's own.
    """
    if processes() == 1:
        yield
        return
    from torch import distributed as dist

    from icelens.train.joining import join

    try:
        _group["store"] = join(timeout)
        yield
    except RuntimeError as error:
        if isinstance(error, TrainingError) or not _is_lost_contact(error):
            raise
        raise TrainingError(
            "another process ended or cannot be reached; the same command goes on from what is saved"
        ) from error
    # DDP's models are cycles. One that outlives its group waits, holding Python's lock, for a thread of gloo
    # that waits for that lock (seen with torch 2.13).
    gc.collect()
    dist.destroy_process_group()


def is_first_to_fail() -> bool:
    """Whether no other process has failed before: its message is the one that says why the command ended."""
    if _group["store"] is None:
        return True
    try:
        return int(_group["store"].add("icelens-failed", 1)) == 1
    except RuntimeError:  # the store was in a process that is gone
        return True


def _is_lost_contact(error: RuntimeError) -> bool:
    from torch import distributed as dist

    # gloo has no type of its own for it.
    return isinstance(error, dist.DistError) or "gloo" in str(error).lower()
