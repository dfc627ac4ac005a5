"""Joining the group of processes that torchrun started."""

from __future__ import annotations

import os
import time
import uuid
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from icelens.errors import TrainingError

PATIENCE = timedelta(minutes=10)  # until all processes have loaded their libraries
LOOK = 0.02  # seconds between two looks at who has come


def join(timeout: timedelta | None = None) -> Any:
    """Join the group that the environment tells of; returns the store that its ranks share.

    On a machine with GPUs each process takes the one of its local rank. More processes than GPUs share them
    by gloo, since NCCL refuses that.

    Args:
        timeout: how long a rank may wait for the others later; None is torch's own.
    """
    store, rank, world = next(rendezvous("env://"))
    store = unused_part(store, rank, world)
    gpus, local = torch.cuda.device_count(), int(os.environ.get("LOCAL_RANK", rank))
    backend = "gloo"
    if gpus:
        torch.cuda.set_device(local % gpus)
        if int(os.environ.get("LOCAL_WORLD_SIZE", gpus)) <= gpus:
            backend = "cpu:gloo,cuda:nccl"
    dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=timeout)
    return store


def unused_part(store: Any, rank: int, world: int) -> Any:
    """A part of the store that no process wrote to before these did.

    torchrun keeps one store over all restarts, and a rank that comes first would read there where ranks of
    the last attempt were to be reached. So the first rank names a part, and each of the others asks it for
    the name under a key of its own, which nobody used before.
    """
    mine = uuid.uuid4().hex
    if rank:
        store.set(f"icelens/asks/{rank}", mine)
        store.wait([f"icelens/answer/{mine}"], PATIENCE)
        mine = store.get(f"icelens/answer/{mine}").decode()
        store.set(f"icelens/{mine}/{rank}", "here")
    else:
        _answer(store, mine, set(range(1, world)))
    return PrefixStore(f"icelens/{mine}", store)


def _answer(store: Any, name: str, missing: set[int]) -> None:
    """Tell each rank that asks the name, until all have it; some questions are of the last attempt."""
    deadline = time.monotonic() + PATIENCE.total_seconds()
    while missing:
        for rank in [rank for rank in missing if store.check([f"icelens/asks/{rank}"])]:
            asked = store.get(f"icelens/asks/{rank}").decode()
            store.set(f"icelens/answer/{asked}", name)
            if store.check([f"icelens/{name}/{rank}"]):
                missing.remove(rank)
        if time.monotonic() > deadline:
            raise TrainingError(f"process {min(missing)} did not come within {PATIENCE}")
        time.sleep(LOOK)
