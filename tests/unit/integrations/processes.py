"""Several processes as torchrun starts them: one machine, gloo, a rank and a port in the environment."""

import gc
import multiprocessing.forkserver
import os
import signal
import socket
import sys
import warnings

import pytest
import torch
import torch.distributed as dist
from torch.multiprocessing import ProcessExitedException, ProcessRaisedException


def run(worker, ranks, folder, *args, **settings):
    """What the worker returns in each rank."""
    start(worker, ranks, folder, args, settings)
    files = [folder / f"{worker.__name__}-{rank}.pt" for rank in range(ranks)]
    return [torch.load(file, weights_only=False) for file in files]


def run_until_killed(worker, ranks, folder, *args, **settings):
    """Run a worker of which one rank ends with `kill_this_process`, and the others after it."""
    with pytest.raises((ProcessExitedException, ProcessRaisedException)) as found:
        start(worker, ranks, folder, args, settings)
    # A rank that waits for the killed one may be the first to say that it is gone.
    said = str(found.value)
    assert "SIGKILL" in said or "onnection" in said or "gloo" in said.lower(), said


def kill_this_process():
    os.kill(os.getpid(), signal.SIGKILL)


def start(worker, ranks, folder, args, settings):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        place = (ranks, probe.getsockname()[1], folder)
    torch.multiprocessing.start_processes(
        in_rank, (place, worker, args, settings), nprocs=ranks, start_method="forkserver"
    )


# What a worker that trains would else import at its first step, its first table and its first digits.
LATE = ("torch._dynamo", "pandas", "pyarrow.parquet", "sklearn.datasets")


def preload(*modules):
    """Fork workers from a server that has paid for the imports; one that other tests started has not."""
    server = multiprocessing.forkserver._forkserver
    server._stop()
    server.set_forkserver_preload(["pytest", *modules])  # every file of tests needs that


def in_rank(rank, place, worker, args, settings):
    ranks, port, folder = place
    torch.set_num_threads(1)
    warnings.simplefilter("error")
    named = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks}
    named |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "GROUP_RANK": 0, "TORCHELASTIC_RUN_ID": "x"}
    os.environ.update({name: str(value) for name, value in named.items()})
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # as torchrun does; accelerate warns otherwise
    if sys.platform == "linux":
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    result = worker(*args, **settings)
    torch.save(result, folder / f"{worker.__name__}-{rank}.pt")
    if dist.is_initialized():
        dist.barrier()
        gc.collect()  # a DDP model that outlives its group can wait for ever
        dist.destroy_process_group()
