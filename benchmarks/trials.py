"""How long a trial of Table 1 takes on a GPU, by how many run at once, and what share of the chip that uses.

    python benchmarks/trials.py                             # whole trials: some minutes on an H200
    python benchmarks/trials.py --iterations 500            # shorter ones, for a quick look

Images are random, of the real sizes: the time does not depend on what they show. Compilation is left out by a
short trial before the clock starts. "Seconds per trial" is the time for all, divided by how many they were.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from icelens.data import Examples, Split
from icelens.models import network
from icelens.reproduce.at_once import share_cores
from icelens.reproduce.experiment import Place, read_experiment
from icelens.reproduce.images import Trial, recipe_of, train
from icelens.train import Recipe

SHAPES = {"mnist": (60_000, (1, 28, 28)), "cifar10": (50_000, (3, 32, 32))}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--methods", nargs="+", default=["cross_entropy", "ice_linear"])
    parser.add_argument("--at-once", nargs="+", type=int, default=[1, 2, 3, 4])
    parser.add_argument("--iterations", type=int, default=0, help="0 is as many as the paper's")
    parser.add_argument("--set", nargs="*", default=[], help="settings to change, such as compiled=false")
    parser.add_argument("--json", type=Path, help="also write all figures to this file")
    arguments = parser.parse_args()
    rate = matrix_rate()
    print(
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}; an 8192 x 8192 x 8192 bfloat16 product "
        f"runs at {rate / 1e12:.0f} TFLOP/s",
        flush=True,
    )
    figures: dict[str, Any] = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "matrix_rate": rate,
    }
    for data in arguments.data:
        for method in arguments.methods:
            for at_once in arguments.at_once:
                name = f"{data}, {method}, {at_once} at once"
                figures[name] = measure(data, method, at_once, arguments, rate)
                if arguments.json:
                    arguments.json.write_text(json.dumps(figures, indent=1) + "\n")


def measure(
    data: str, method: str, at_once: int, arguments: argparse.Namespace, rate: float
) -> dict[str, float]:
    recipe = recipe_of(
        read_experiment(f"table1-{data}"), Trial(method, 0), Place(Path(), Path(), Path(), "cuda")
    )
    recipe = replace(recipe, snapshots=0, **dict(_pair(text) for text in arguments.set))
    if arguments.iterations:
        recipe = replace(recipe, iterations=arguments.iterations)
    context = multiprocessing.get_context("spawn")
    barrier = context.Manager().Barrier(at_once)
    with ProcessPoolExecutor(
        at_once, mp_context=context, initializer=share_cores, initargs=(at_once,)
    ) as pool:
        spans = list(pool.map(timed_trial, [(recipe, barrier, seed) for seed in range(at_once)]))
    seconds = (max(end for _, end in spans) - min(start for start, _ in spans)) / at_once
    share = flops(recipe) / seconds / rate
    print(f"  {data:8} {method:14} {at_once} at once: {seconds:6.2f} s per trial of {recipe.iterations} "
          f"iterations; {share:.0%} of that rate", flush=True)  # fmt: skip
    return {"seconds_per_trial": seconds, "iterations": recipe.iterations, "share_of_matrix_rate": share}


def timed_trial(job: tuple[Recipe, Any, int]) -> tuple[float, float]:
    """When the trial began and ended, by a clock that all processes share."""
    recipe, barrier, seed = job
    split = random_split(recipe.data)
    with tempfile.TemporaryDirectory() as work:
        short = replace(recipe, iterations=120, warmup=0, evaluations=1, seed=seed)
        train(short, split, Path(work) / "short", replace(short, loss="cross_entropy"))
        barrier.wait()
        start = time.time()
        whole = replace(recipe, seed=seed)
        train(whole, split, Path(work), replace(whole, loss="cross_entropy"))
        torch.cuda.synchronize()
        return start, time.time()


def random_split(data: str) -> Split:
    count, shape = SHAPES[data]
    generator = torch.Generator().manual_seed(0)
    return Split(*(
        Examples(
            torch.randint(256, (n, *shape), dtype=torch.uint8, generator=generator),
            torch.randint(10, (n,), generator=generator),
            tuple("0123456789"),
        )
        for n in (count, 10_000)
    ))  # fmt: skip


def flops(recipe: Recipe) -> float:
    """Multiplications and additions of the network in all of a trial's training steps, counted by torch."""
    _, shape = SHAPES[recipe.data]
    model = network(recipe.model, shape, 10, **recipe.model_settings)
    counter = FlopCounterMode(display=False)
    with counter:
        model(torch.randn(8, *shape)).sum().backward()
    return counter.get_total_flops() / 8 * recipe.batch_size * recipe.iterations


def matrix_rate(size: int = 8192, repeats: int = 20) -> float:
    """Operations per second of a large bfloat16 matrix product."""
    a, b = torch.randn(2, size, size, device="cuda", dtype=torch.bfloat16)
    for _ in range(3):
        a @ b
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        a @ b
    torch.cuda.synchronize()
    return 2 * size**3 * repeats / (time.perf_counter() - start)


def _pair(text: str) -> tuple[str, Any]:
    key, _, value = text.partition("=")
    return key, {"true": True, "false": False}.get(value, value)


if __name__ == "__main__":
    main()
