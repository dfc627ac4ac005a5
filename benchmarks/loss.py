"""What ICE costs beside cross entropy, and beside the losses that keep a row of classes per example.

    python benchmarks/loss.py                     # all parts: minutes on a GPU, an hour on two cores
    python benchmarks/loss.py --parts loss state  # without the training step, which is slow on a CPU
    python benchmarks/loss.py --json out.json     # the same figures for a program

Every ratio is a median over interleaved rounds: in each round all rows run once, in a new random order,
and a row's time is divided by cross entropy's of the same round. The row "cross entropy again" shows what
the noise alone does.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from icelens.losses import Problem, find_method, make_loss
from icelens.models import network
from icelens.train.loop import compile_loss

BATCH = 512
BASE = "cross entropy"
METHODS = {
    "ICE-LIN": "ice_linear", "ICE-POW": "ice_power", "ICE-HELD": "ice_held", "ELR": "elr", "SOP": "sop",
}  # fmt: skip
SIZES = (10**4, 10**5, 10**6, 10**7, 10**8)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rounds", type=int, default=60, help="interleaved rounds per table (default 60)")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), metavar="METHOD",
                        help=", ".join(METHODS))  # fmt: skip
    parser.add_argument("--json", help="also write all figures to this file")
    arguments = parser.parse_args()
    for title in METHODS.keys() - set(arguments.methods):
        del METHODS[title]
    device = torch.device(arguments.device)
    print(machine(device), flush=True)
    figures: dict[str, Any] = {"machine": machine(device), "rounds": arguments.rounds}
    for part in arguments.parts:
        figures[part] = PARTS[part](device, arguments.rounds)
        if arguments.json:
            with open(arguments.json, "w") as file:
                json.dump(figures, file, indent=1)


def loss_alone(device: torch.device, rounds: int) -> dict[str, Any]:
    """Forward and backward of the loss on given logits."""
    tables = {}
    for classes in (10, 1_000, 100_000):
        rows = {
            BASE: alone("cross_entropy", classes, device),
            f"{BASE} again": alone("cross_entropy", classes, device),
        }
        # ICE-HELD counts flips from each class to each.
        fit = {title: name for title, name in METHODS.items() if name != "ice_held" or classes <= 1_000}
        rows |= {title: alone(name, classes, device) for title, name in fit.items()}
        repeats = 20 if classes == 10 else 5 if classes == 1_000 else 1
        print(f"\nloss alone, forward and backward, batch {BATCH}, K = {classes:,}")
        tables[str(classes)] = compare(rows, rounds, repeats, device)
        del rows
    return tables


def training_step(
    device: torch.device, rounds: int, *, captured: bool = False, compiled: bool = False
) -> dict[str, Any]:
    """A whole training step of ResNet-18 on 512 images of CIFAR's shape, mixed precision."""
    if device.type == "cpu":  # a step takes seconds there: the table by the number of examples says it all
        return {}
    trainer = Trainer(device, captured=captured, compiled=compiled)
    rows = {BASE: trainer.step("cross_entropy", 10**4), f"{BASE} again": trainer.step("cross_entropy", 10**4)}
    rows |= {title: trainer.step(name, 50_000) for title, name in METHODS.items()}
    how = "one CUDA graph, as icelens trains" if captured else "eager"
    how = f"compiled, {how}" if compiled else how
    print(f"\ntraining step, ResNet-18 ({how}), {BATCH} images of 3 x 32 x 32, K = 10, N = 50,000")
    return compare(rows, rounds, 5, device)


def captured_step(device: torch.device, rounds: int) -> dict[str, Any]:
    """The same step as a CUDA graph. Eager, a fast GPU may wait for Python, and then Python is timed too."""
    return training_step(device, rounds, captured=True)


def compiled_step(device: torch.device, rounds: int) -> dict[str, Any]:
    """The same with a compiled network, and with it the losses that icelens compiles then."""
    return training_step(device, rounds, captured=True, compiled=True)


def step_by_examples(device: torch.device, rounds: int) -> dict[str, Any]:
    """The same step with ICE, for tables of 1e4 to 1e8 examples."""
    trainer = Trainer(device, captured=device.type == "cuda")
    rows = {BASE: trainer.step("cross_entropy", 10**4), f"{BASE} again": trainer.step("cross_entropy", 10**4)}
    sizes = SIZES if device.type == "cuda" else (SIZES[0], SIZES[-1])
    rows |= {f"ICE-LIN, N = {size:.0e}": trainer.step("ice_linear", size) for size in sizes}
    if device.type == "cpu":
        rows["ICE-POW, N = 1e+04"] = trainer.step("ice_power", SIZES[0])
    print(
        f"\ntraining step of ICE by the number of examples, ResNet-18, {BATCH} images of 3 x 32 x 32, K = 10"
    )
    return compare(rows, rounds, 5 if device.type == "cuda" else 1, device)


def loss_by_examples(device: torch.device, rounds: int) -> dict[str, Any]:
    """The loss alone with ICE, for tables of 1e4 to 1e8 examples."""
    rows = {BASE: alone("cross_entropy", 10, device)}
    rows |= {f"ICE-LIN, N = {size:.0e}": alone("ice_linear", 10, device, size) for size in SIZES}
    print(f"\nloss alone by the number of examples, batch {BATCH}, K = 10")
    return compare(rows, rounds, 20, device)


def state(device: torch.device, rounds: int) -> dict[str, Any]:
    """Bytes that a loss keeps per example, read from the tensors that it holds."""
    table: dict[str, Any] = {}
    print("\nbytes of state per example")
    for title, name in METHODS.items():
        for classes in (10, 1_000):
            sizes = SIZES if name == "ice_linear" and classes == 10 else SIZES[:1]
            for size in sizes:
                loss = make_loss(name, Problem(size, classes)).to(device)
                held = sum(tensor.nbytes for tensor in loss.state_dict().values())
                key = f"{title}, K = {classes:,}, N = {size:,}"
                table[key] = held / size
                print(f"  {key:38} {held / size:10,.4g}")
                del loss
    return table


PARTS: dict[str, Callable[[torch.device, int], dict[str, Any]]] = {
    "loss": loss_alone,
    "loss_by_examples": loss_by_examples,
    "state": state,
    "step": training_step,
    "captured_step": captured_step,
    "compiled_step": compiled_step,
    "step_by_examples": step_by_examples,
}


def alone(name: str, classes: int, device: torch.device, examples: int | None = None) -> Callable[[], None]:
    """A function that runs the loss of that name once, forward and backward."""
    # ELR and SOP keep examples x classes numbers: with many classes only as many examples as the batch has.
    examples = examples or (50_000 if classes <= 1_000 else BATCH)
    loss = plain_or_named(name, examples, classes)
    logits = torch.randn(BATCH, classes, device=device, requires_grad=True)
    labels = torch.randint(classes, (BATCH,), device=device)
    index = torch.randint(examples, (BATCH,), device=device)

    def run() -> None:
        logits.grad = None
        loss(logits, labels, index).backward()

    return run


class Trainer:
    """One network, optimizer and batch, which all losses share."""

    def __init__(self, device: torch.device, *, captured: bool, compiled: bool = False) -> None:
        self.device, self.captured, self.compiled = device, captured, compiled
        model = network("resnet18", (3, 32, 32), 10).to(device, memory_format=torch.channels_last)
        self.model = model.train()
        self.forward = torch.compile(model, dynamic=False) if compiled else model
        # A rate of 0: the weights stay, so that every round does the same work on the same numbers.
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.0, momentum=0.9)
        images = torch.randn(BATCH, 3, 32, 32, device=device)
        self.images = images.contiguous(memory_format=torch.channels_last)
        self.labels = torch.randint(10, (BATCH,), device=device)

    def step(self, name: str, examples: int) -> Callable[[], None]:
        loss = plain_or_named(name, examples, 10)
        if self.compiled and find_method(name).compiles:
            loss = compile_loss(loss)
        index = torch.randint(examples, (BATCH,), device=self.device)

        def run() -> None:
            # Without a cache of cast weights, which a captured graph would find gone.
            with torch.autocast(self.device.type, torch.bfloat16, cache_enabled=not self.captured):
                value = loss(self.forward(self.images), self.labels, index)
            self.optimizer.zero_grad()
            value.backward()
            self.optimizer.step()

        return capture(run) if self.captured else run


def capture(run: Callable[[], None]) -> Callable[[], None]:
    """The same work as one CUDA graph, which the host starts with one call."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()

    def replay(_keeps_its_tensors: Callable[[], None] = run) -> None:
        graph.replay()

    return replay


def plain_or_named(name: str, examples: int, classes: int) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """torch's own function for cross entropy, which is what others are measured against."""
    if name == "cross_entropy":
        return lambda logits, labels, index: F.cross_entropy(logits, labels)
    loss: nn.Module = make_loss(name, Problem(examples, classes))
    return loss


def compare(
    rows: dict[str, Callable[[], None]],
    rounds: int,
    repeats: int,
    device: torch.device,
    *,
    base: str = BASE,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, dict[str, float]]:
    """Run all rows `rounds` times in random order; print and return milliseconds and ratios to the base."""
    times: dict[str, list[float]] = {name: [] for name in rows}
    for run in rows.values():
        for _ in range(3 if device.type == "cuda" else 1):
            timed(run, repeats, device, clock)
    order = list(rows)
    for _ in range(rounds):
        random.shuffle(order)
        for name in order:
            times[name].append(timed(rows[name], repeats, device, clock))
    return {name: report(name, times[name], times[base]) for name in rows}


def timed(
    run: Callable[[], Any],
    repeats: int,
    device: torch.device,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Seconds per call."""
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    wait()
    start = clock()
    for _ in range(repeats):
        run()
    wait()
    return (clock() - start) / repeats


def report(name: str, times: list[float], base: list[float]) -> dict[str, float]:
    ratios = [mine / theirs for mine, theirs in zip(times, base, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    milliseconds = 1000 * statistics.median(times)
    print(
        f"  {name:24} {milliseconds:12.4f} ms   ratio {middle:7.4f}   (quartiles {low:.4f} to {high:.4f})",
        flush=True,
    )
    return {"milliseconds": milliseconds, "ratio": middle, "lower": low, "upper": high}


def machine(device: torch.device) -> str:
    """What the figures were measured on."""
    where = (
        torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else f"{platform.machine()} CPU, {torch.get_num_threads()} threads"
    )
    return f"{where}, torch {torch.__version__}, Python {platform.python_version()}"


if __name__ == "__main__":
    main()
