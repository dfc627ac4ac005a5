"""An encoder fine-tuned on SST-2 of which a part of the labels is flipped: ICE against other losses.

    python benchmarks/text_flips.py --root data --device cuda --at-once 6

One JSON file for each finished trial, so that a second call does only what is missing; then a table: accuracy
on the dev set, and the average precision of the ranking of the training rows by C (ICE) or by the probability
of the given label (others). All methods share network, steps, order and flips; their settings are their own
defaults, none of them chosen on this task.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from sklearn.metrics import average_precision_score
from torch import Tensor, nn

from icelens.losses import Problem, make_loss
from icelens.models.encoder import load_encoder
from icelens.noise import add_noise
from icelens.reproduce.at_once import run_jobs
from icelens.reproduce.store import circumstances, read_trial, write_trial
from icelens.reproduce.text_data import TextTask, prepare_text
from icelens.reproduce.text_loop import predict, train
from icelens.reproduce.text_recipe import TextRecipe
from icelens.train.task import choose_device

METHODS = {
    "cross_entropy": {},
    "label_smoothing": {},
    "gce": {},
    "ice_linear": {},
}
TASK = "sst2"


@dataclass(frozen=True)
class Place:
    """Where data, encoder and records are."""

    root: Path
    encoder: str
    results: Path
    device: str


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, default=Path("data"))
    parser.add_argument("--encoder", default="data/models/all-MiniLM-L6-v2")
    parser.add_argument("--results", type=Path, default=Path("results/text_flips"))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--rates", nargs="+", type=float, default=[0.0, 0.2, 0.4])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--show", action="store_true", help="print the table of what is there, train nothing")
    arguments = parser.parse_args()
    place = Place(arguments.root, arguments.encoder, arguments.results, arguments.device)
    jobs = [
        (place, method, rate, seed)
        for seed in range(arguments.seeds)
        for rate in arguments.rates
        for method in arguments.methods
        if not path_of(place, method, rate, seed).exists()
    ]
    if not arguments.show:
        for _, *job in run_jobs(run_one, jobs, arguments.at_once, lambda job: str(job[1:])):
            print(*job, flush=True)
    print("\n".join(table(place, arguments.rates)))


def path_of(place: Place, method: str, rate: float, seed: int) -> Path:
    return place.results / f"{TASK}-{round(100 * rate)}-{method}-{seed}.json"


def run_one(place: Place, method: str, rate: float, seed: int) -> None:
    """Fine-tune once and write the record."""
    recipe = TextRecipe(
        data=TASK, encoder=place.encoder, epochs=3, batch_size=128, learning_rate=1e-4, max_length=64,
        seed=seed, device=place.device,
    )  # fmt: skip
    device = choose_device(recipe.device)
    task = _task(recipe.encoder, recipe.max_length, recipe.device, place.root)
    noisy = add_noise("symmetric", task.train.labels.cpu(), len(task.classes), rate, seed=seed)
    given = replace(task.train, labels=noisy.labels.to(device))
    torch.manual_seed(seed)
    model = load_encoder(recipe.encoder, len(task.classes)).to(device)
    problem = Problem(len(given), len(task.classes))
    loss_fn = make_loss(method, problem, **METHODS[method]).to(device)
    losses = train(recipe, given, torch.arange(len(given)), model, loss_fn)
    score = _score(predict(recipe, model, given), noisy.labels, loss_fn)
    guess = predict(recipe, model, task.tests[""]).argmax(-1)
    record: dict[str, Any] = {
        "data": TASK,
        "method": method,
        "settings": METHODS[method],
        "rate": rate,
        "seed": seed,
        "encoder": Path(place.encoder).name,
        "accuracy": float((guess == task.tests[""].labels.cpu()).double().mean()),
        "losses": losses,
        **circumstances(str(device)),
    }
    if rate:
        record["average_precision"] = float(average_precision_score(noisy.moved, -score))
    write_trial(path_of(place, method, rate, seed), record)


@lru_cache(maxsize=1)
def _task(encoder: str, max_length: int, device: str, root: Path) -> TextTask:
    return prepare_text(TASK, root, encoder, max_length, choose_device(device))


def _score(log_p: Tensor, labels: Tensor, loss_fn: nn.Module) -> Tensor:
    """Low = suspicious."""
    if hasattr(loss_fn, "confidence"):
        return loss_fn.confidence().cpu()
    return log_p.gather(1, labels[:, None]).squeeze(1)


def table(place: Place, rates: list[float]) -> Iterator[str]:
    """Mean (standard deviation) of what has been measured."""
    heads: list[str] = []
    for rate in rates:
        heads += [f"{rate:.0%} accuracy"] + ([f"{rate:.0%} AP"] if rate else [])
    yield f"| {TASK} | " + " | ".join(heads) + " |"
    yield "|---" * (len(heads) + 1) + "|"
    for method in METHODS:
        cells = [cell for rate in rates for cell in _cells(place, method, rate)]
        if any(cells):
            yield f"| {method} | " + " | ".join(cells) + " |"


def _cells(place: Place, method: str, rate: float) -> Iterator[str]:
    pattern = f"{TASK}-{round(100 * rate)}-{method}-*.json"
    found = [read_trial(path) for path in sorted(place.results.glob(pattern))]
    yield _mean([100 * trial["accuracy"] for trial in found], 2)
    if rate:
        yield _mean([trial["average_precision"] for trial in found], 4)


def _mean(values: list[float], digits: int) -> str:
    if len(values) < 2:
        return "".join(f"{value:.{digits}f}" for value in values)
    mean, deviation = statistics.mean(values), statistics.stdev(values)
    return f"{mean:.{digits}f} ({deviation:.{digits}f}), n = {len(values)}"


if __name__ == "__main__":
    main()
