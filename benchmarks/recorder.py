"""What the flight recorder costs: in a training step, alone, and in memory.

    python benchmarks/recorder.py                            # all parts: some minutes
    python benchmarks/recorder.py --device cuda --json PATH  # on a GPU, the figures for a program too
    python benchmarks/recorder.py --parts log memory         # without the training step, slow on a CPU

Ratios are medians over interleaved rounds: in each round every row runs once, in a new random order, and its
time is divided by that of the plain loop in the same round. "plain loop again" shows what noise alone does.
On CUDA a row runs for 64 steps a round and the recorder's buffer holds as many, so that each time pays for a
part: far more often than with the buffer of 2^20 rows that people have.
On a CPU, where a step takes seconds, times are those of all threads: other work on it does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from loss import compare, machine, timed
from torch import Tensor

from icelens import FlightRecorder, ICELoss, read_dynamics
from icelens.models import network

EXAMPLES = 50_000
STEPS = 64  # of a row in a round, on CUDA
CALLS = 100  # of log(), timed together
UNWRITTEN = 1 << 21  # a buffer that holds all that is logged while log() is timed alone
BASE = "plain loop"
MEBIBYTE = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rounds", type=int, default=20, help="interleaved rounds per table (default 20)")
    parser.add_argument("--batches", type=int, nargs="+", default=[128, 512], help="batch sizes of the step")
    parser.add_argument("--examples", type=int, default=10_000_000, help="of the part on memory")
    parser.add_argument("--epochs", type=int, default=3, help="of the part on memory")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--json", help="also write all figures to this file")
    options = parser.parse_args()
    device = torch.device(options.device)
    print(machine(device), flush=True)
    figures: dict[str, Any] = {"machine": machine(device), "rounds": options.rounds}
    for part in (name for name in PARTS if name in options.parts):
        with tempfile.TemporaryDirectory() as folder:
            figures[part] = PARTS[part](device, options, Path(folder))
        if options.json:
            Path(options.json).write_text(json.dumps(figures, indent=1))


def in_a_step(device: torch.device, options: Any, folder: Path) -> dict[str, Any]:
    """A whole training step of ResNet-18 on images of CIFAR's shape, eager, mixed precision."""
    tables = {}
    for batch in options.batches:
        steps = STEPS if device.type == "cuda" else 1
        buffer = {"buffer": steps * batch} if device.type == "cuda" else {}
        with (
            FlightRecorder(folder / f"ce-{batch}", EXAMPLES, **buffer) as plain,
            FlightRecorder(folder / f"ice-{batch}", EXAMPLES, **buffer) as with_table,
        ):
            trainer, ice = Trainer(device, batch), ICELoss(EXAMPLES, device=device)
            rows = {
                BASE: trainer.step(),
                f"{BASE} again": trainer.step(),
                "recorder": trainer.step(plain.log),
                "recorder, and C": trainer.step(partial(with_table.log, confidence=ice)),
            }
            print(f"\ntraining step, ResNet-18, {batch} images of 3 x 32 x 32, n = {options.rounds} rounds")
            tables[str(batch)] = compare(
                rows, options.rounds, steps, device, base=BASE, clock=clock_of(device)
            )
        where = folder / f"alone-{batch}"
        tables[str(batch)]["log alone"] = share(trainer, where, tables[str(batch)][BASE]["milliseconds"])
    return tables


def share(trainer: Trainer, folder: Path, milliseconds: float) -> dict[str, float]:
    """log() timed by itself, which the noise of whole steps does not hide, as a share of the plain loop.

    Without the writing of parts, which a thread does while the loop goes on.
    """
    logits = torch.randn(trainer.batch, 10, device=trainer.device)
    _, seconds, _ = quartiles_of_log(folder, logits, trainer.labels, trainer.order[: trainer.batch])
    alone = 1000 * seconds
    print(f"  log() alone        {alone:10.3f} ms, {alone / milliseconds:.3%} of the plain loop", flush=True)
    return {"milliseconds": alone, "share": alone / milliseconds}


class Trainer:
    """One network, optimizer and batch, which all rows share."""

    def __init__(self, device: torch.device, batch: int) -> None:
        self.device, self.batch = device, batch
        model = network("resnet18", (3, 32, 32), 10).to(device, memory_format=torch.channels_last)
        self.model = model.train()
        # A rate of 0: the weights stay, so that every round does the same work on the same numbers.
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.0, momentum=0.9)
        images = torch.randn(batch, 3, 32, 32, device=device)
        self.images = images.contiguous(memory_format=torch.channels_last)
        self.labels = torch.randint(10, (batch,), device=device)
        self.order = torch.randperm(EXAMPLES, device=device)
        self.done = 0

    def step(self, log: Callable[..., None] | None = None) -> Callable[[], None]:
        def run() -> None:
            start = self.done * self.batch % (EXAMPLES - self.batch)
            index, self.done = self.order[start : start + self.batch], self.done + 1
            with torch.autocast(self.device.type, torch.bfloat16):
                logits = self.model(self.images)
                loss = F.cross_entropy(logits, self.labels)
            if log is not None:
                log(logits, self.labels, index)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

        return run


def clock_of(device: torch.device) -> Callable[[], float]:
    """The wall's on CUDA; on a CPU that of all threads, since the recorder has one of its own."""
    return time.perf_counter if device.type == "cuda" else time.process_time


def alone(device: torch.device, options: Any, folder: Path) -> dict[str, Any]:
    """log() alone, and what its thread does for each million rows."""
    found: dict[str, Any] = {}
    print("\nlog() alone, microseconds a call, done on the device: median (quartiles) of 30 times 100 calls")
    for batch, classes in ((128, 10), (512, 10), (512, 1000)):
        logits = torch.randn(batch, classes, device=device)
        labels = torch.randint(classes, (batch,), device=device)
        index = torch.randint(EXAMPLES, (batch,), device=device)
        low, middle, high = quartiles_of_log(folder / f"{batch}-{classes}", logits, labels, index)
        key = f"batch {batch}, K = {classes:,}"
        found[key] = {"microseconds": 1e6 * middle, "lower": 1e6 * low, "upper": 1e6 * high}
        print(f"  {key:24} {1e6 * middle:8.1f}   ({1e6 * low:.1f} to {1e6 * high:.1f})", flush=True)
    found["writing"] = writing(device, folder / "written")
    return found


def quartiles_of_log(folder: Path, logits: Tensor, labels: Tensor, index: Tensor) -> list[float]:
    """Seconds a call of log(), with the work on the logits that calls leave to later ones."""
    with FlightRecorder(folder, EXAMPLES, buffer=UNWRITTEN) as recorder:

        def run() -> None:
            for _ in range(CALLS):
                recorder.log(logits, labels, index)
            assert recorder._buffer is not None
            recorder._buffer.settle()

        clock = clock_of(logits.device)
        timed(run, 1, logits.device, clock)
        times = [timed(run, 1, logits.device, clock) / CALLS for _ in range(30)]
        return statistics.quantiles(times, n=4)


def writing(device: torch.device, folder: Path) -> dict[str, float]:
    rows, batch = 1 << 20, 1 << 14
    seconds = []
    with FlightRecorder(folder, rows, buffer=rows) as recorder:
        for _ in range(5):
            for index in torch.randperm(rows, device=device).split(batch):
                recorder.log(torch.randn(batch, 10, device=device), index % 10, index)
            seconds.append(timed(recorder.flush, 1, device, clock_of(device)))
    size = sum(path.stat().st_size for path in folder.iterdir()) / (5 * rows)
    low, middle, high = statistics.quantiles((second / rows * 1e6 for second in seconds), n=4)
    print(
        f"  its thread: {middle:.2f} s a million rows (quartiles {low:.2f} to {high:.2f}, n = 5), "
        f"{size:.1f} bytes a row on disk",
        flush=True,
    )
    return {"seconds_per_million": middle, "lower": low, "upper": high, "bytes_per_row": size}


def memory(device: torch.device, options: Any, folder: Path) -> dict[str, Any]:
    """Recording and reading many examples: what the process grows by."""
    examples, epochs, batch = options.examples, options.epochs, 4096
    print(f"\nmemory: {examples:,} examples x {epochs} epochs, batches of {batch:,}, K = 10")
    with FlightRecorder(folder / "first", 10) as recorder:  # loads what is loaded once
        recorder.log(torch.randn(10, 10, device=device), torch.arange(10, device=device), torch.arange(10))
    read_dynamics(folder / "first")
    found: dict[str, Any] = {"examples": examples, "epochs": epochs, "recording": []}
    labels = torch.randint(10, (examples,), dtype=torch.uint8)
    order, held = torch.empty(examples, dtype=torch.int64), allocated(device)
    start, resident = time.perf_counter(), resident_bytes()
    with FlightRecorder(folder / "many", examples) as recorder:
        for epoch in range(epochs):
            torch.randperm(examples, out=order)
            with watched(resident) as peak:
                for index in order.split(batch):
                    at = index.to(device)
                    recorder.log(torch.randn(len(at), 10, device=device), labels[index].to(device), at)
            found["recording"].append(peak())
            on_device = f", {(allocated(device) - held) / MEBIBYTE:.0f} MiB on it" if held else ""
            print(
                f"  recording, epoch {epoch}: at most {peak() / MEBIBYTE:,.0f} MiB more{on_device}",
                flush=True,
            )
    found["recording_seconds"] = time.perf_counter() - start
    del order, labels
    found["bytes_on_disk"] = sum(path.stat().st_size for path in (folder / "many").iterdir())
    start = time.perf_counter()
    with watched(resident_bytes()) as peak:
        dynamics = read_dynamics(folder / "many")
    found["reading"], found["reading_seconds"] = peak(), time.perf_counter() - start
    assert (dynamics.examples["visits"] == epochs).all()
    on_disk = found["bytes_on_disk"] / MEBIBYTE
    print(f"  recording took {found['recording_seconds']:.0f} s, {on_disk:,.0f} MiB on disk")
    print(f"  reading: at most {found['reading'] / MEBIBYTE:,.0f} MiB more, {found['reading_seconds']:.0f} s")
    return found


@contextmanager
def watched(before: int) -> Iterator[Callable[[], int]]:
    """Look every few milliseconds by how much the process has grown; the value yielded gives the most."""
    most, over = [0], threading.Event()

    def look() -> None:
        while not over.wait(0.005):
            most[0] = max(most[0], resident_bytes() - before)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield lambda: most[0]
    finally:
        over.set()
        thread.join()


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def allocated(device: torch.device) -> int:
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else 0


# Memory first: what other parts have left to the process would hide what it grows by.
PARTS: dict[str, Callable[[torch.device, Any, Path], dict[str, Any]]] = {
    "memory": memory,
    "log": alone,
    "step": in_a_step,
}


if __name__ == "__main__":
    main()
