"""What ICE adds to a training step over several ranks: bytes that travel, time, and the table by its size.

    python benchmarks/distributed.py                 # two processes on this machine's CPU, minutes
    python benchmarks/distributed.py --device cuda   # on its GPUs, which more processes than GPUs share

Bytes are those of the tensors that are handed to torch.distributed. Ratios are medians over interleaved
rounds: in each round all rows run once, in a new random order that all ranks share, and a row's time is
divided by cross entropy's of the same round. The row "cross entropy again" shows what the noise alone does.
"""

from __future__ import annotations

import argparse
import os
import random
import socket
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing
from loss import BASE, SIZES, machine, plain_or_named, report, timed
from torch import Tensor
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from icelens import ranks
from icelens.losses import ICELoss
from icelens.models import network
from icelens.train.joining import join

EXAMPLES = 50_000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--batch", type=int, help="images of a process (default 32 on a CPU, 256 on a GPU)")
    parser.add_argument("--rounds", type=int, default=30, help="interleaved rounds per table (default 30)")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    arguments = parser.parse_args()
    arguments.batch = arguments.batch or (32 if arguments.device == "cpu" else 256)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    torch.multiprocessing.spawn(one_process, (port, arguments), arguments.processes)


def one_process(rank: int, port: int, arguments: argparse.Namespace) -> None:
    count = str(arguments.processes)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // arguments.processes))
    join()
    device = torch.device(arguments.device)
    if device.type == "cuda":
        device = torch.device("cuda", torch.cuda.current_device())
    cores = f"on {os.cpu_count()} cores" if device.type == "cpu" else f"on {torch.cuda.device_count()} GPU"
    say(f"{arguments.processes} processes {cores} ({dist.get_backend_config()}), each: {machine(device)}")
    bench = Bench(device, arguments.batch, arguments.rounds)
    for part in arguments.parts:
        PARTS[part](bench)
    dist.destroy_process_group()


class Bench:
    """One network under DDP, optimizer and batch, which all losses share."""

    def __init__(self, device: torch.device, batch: int, rounds: int) -> None:
        self.device, self.batch, self.rounds = device, batch, rounds
        torch.manual_seed(0)
        self.model = network("resnet18", (3, 32, 32), 10).to(device)
        self.forward = DistributedDataParallel(self.model)
        # A rate of 0: the weights stay, so that every round does the same work on the same numbers.
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.0, momentum=0.9)
        self.images = torch.randn(batch, 3, 32, 32, device=device)
        self.labels = torch.randint(10, (batch,), device=device)

    def step(self, loss: Callable[..., Tensor], examples: int) -> Callable[[], None]:
        index = torch.randint(examples, (self.batch,), device=self.device)

        def run() -> None:
            value = loss(self.forward(self.images), self.labels, index)
            self.optimizer.zero_grad()
            value.backward()
            self.optimizer.step()

        return run

    def loss_alone(self, loss: Callable[..., Tensor], examples: int) -> Callable[[], None]:
        logits = torch.randn(self.batch, 10, device=self.device, requires_grad=True)
        index = torch.randint(examples, (self.batch,), device=self.device)

        def run() -> None:
            logits.grad = None
            loss(logits, self.labels, index).backward()

        return run


def bytes_of_a_step(bench: Bench) -> None:
    """Bytes that a rank hands over in one step, after the first, in which ranks agree on a capacity."""
    # With a hook in Python, gradients take the same way as all else, where they can be counted.
    counted = Bench(bench.device, bench.batch, bench.rounds)
    counted.forward.register_comm_hook(None, allreduce_hook)
    run = counted.step(ICELoss(EXAMPLES), EXAMPLES)
    run()
    with Counted() as handed_over:
        run()
    gradients, exchange = handed_over.pop("all_reduce"), sum(handed_over.values())
    say(f"\nbytes that a rank hands over in a step of ResNet-18, {bench.batch} images a rank")
    say(f"  gradients, to be summed                 {gradients:12,}")
    share = exchange / gradients
    say(f"  ICE's rows and steps, to be gathered    {exchange:12,}   {share:.4%} of the gradients")


class Counted:
    """Inside, the bytes of the tensors that this rank hands to torch.distributed, by collective."""

    NAMES = ("all_reduce", "all_gather_single", "all_gather_into_tensor", "all_gather", "broadcast",
             "reduce_scatter_tensor", "all_to_all_single", "reduce", "gather", "scatter", "send")  # fmt: skip
    SECOND = ("all_gather_single", "all_gather_into_tensor", "all_gather", "reduce_scatter_tensor")

    def __enter__(self) -> Counter[str]:
        self.bytes: Counter[str] = Counter()
        self.kept = {name: getattr(dist, name) for name in self.NAMES if hasattr(dist, name)}
        for name, function in self.kept.items():
            setattr(dist, name, partial(self.count, name, function))
        return self.bytes

    def count(self, name: str, function: Callable[..., Any], *tensors: Any, **settings: Any) -> Any:
        self.bytes[name] += tensors[name in self.SECOND].nbytes
        return function(*tensors, **settings)

    def __exit__(self, *_: object) -> None:
        for name, function in self.kept.items():
            setattr(dist, name, function)


def time_of_a_step(bench: Bench) -> None:
    """A whole DDP step with cross entropy, and with ICE for the smallest and the largest table."""
    plain = plain_or_named("cross_entropy", EXAMPLES, 10)
    rows = {BASE: bench.step(plain, EXAMPLES), f"{BASE} again": bench.step(plain, EXAMPLES)}
    for size in (SIZES[0], SIZES[-1]):
        rows[f"ICE-LIN, N = {size:.0e}"] = bench.step(ICELoss(size), size)
    say(f"\nDDP step of ResNet-18, {bench.batch} images of 3 x 32 x 32 a rank, n = {bench.rounds} rounds")
    compare(rows, bench, repeats=1 if bench.device.type == "cpu" else 5)


def table_by_examples(bench: Bench) -> None:
    """The loss alone, exchange included, for tables of 1e4 to 1e8 examples, and what a table takes."""
    tables = {size: ICELoss(size, device=bench.device) for size in SIZES}
    rows = {f"ICE-LIN, N = {size:.0e}": bench.loss_alone(loss, size) for size, loss in tables.items()}
    say(f"\nloss alone with its exchange, forward and backward, batch {bench.batch} a rank, K = 10, "
        f"n = {bench.rounds} rounds")  # fmt: skip
    compare(rows, bench, repeats=20, base=next(iter(rows)))
    say("\nbytes of the table on each rank, all that ICE keeps")
    for size, loss in tables.items():
        held = sum(tensor.nbytes for tensor in loss.state_dict().values())
        say(f"  N = {size:11,} {held:14,}")


def table_on_the_cpu(bench: Bench) -> None:
    """With logits on a GPU, the table there or on the CPU."""
    if bench.device.type == "cpu":
        return
    rows = {"table on the GPU": bench.step(ICELoss(EXAMPLES), EXAMPLES)}
    rows["table on the CPU"] = bench.step(ICELoss(EXAMPLES, device="cpu"), EXAMPLES)
    say(f"\nDDP step of ResNet-18 with ICE-LIN, {bench.batch} images a rank, n = {bench.rounds} rounds")
    compare(rows, bench, repeats=5, base="table on the GPU")


PARTS: dict[str, Callable[[Bench], None]] = {
    "bytes": bytes_of_a_step,
    "step": time_of_a_step,
    "table": table_by_examples,
    "cpu_table": table_on_the_cpu,
}


def compare(rows: dict[str, Callable[[], None]], bench: Bench, *, repeats: int, base: str = BASE) -> None:
    """Run all rows in random order, the same on all ranks; print the first rank's milliseconds and ratios."""
    times: dict[str, list[float]] = {name: [] for name in rows}
    order, shuffled = list(rows), random.Random(0)
    for counted in [False, *[True] * bench.rounds]:
        shuffled.shuffle(order)
        for name in order:
            ranks.Ranks.here().wait()
            seconds = timed(rows[name], repeats, bench.device)
            times[name] += [seconds] if counted else []
    if dist.get_rank() == 0:
        for name in rows:
            report(name, times[name], times[base])


def say(text: str) -> None:
    if dist.get_rank() == 0:
        print(text, flush=True)


if __name__ == "__main__":
    main()
