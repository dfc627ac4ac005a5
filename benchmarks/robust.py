"""Methods for noisy labels on one panel: accuracy, and how well wrong labels are found, in one table.

    python benchmarks/robust.py --root data --device cuda --at-once 2   # what is missing, then the table
    python benchmarks/robust.py --cases digits-30 --methods elr ice_linear --seeds 3

One JSON file for each finished trial, so that a second call goes on. All methods share network, schedule,
augmentation and length; ice_plus alone, which is for large networks on images, goes on for longer after
ice_held, with more augmentation. Those that have settings take their papers' for the data. Labels are found
by each method's own score at its own cut: C < 1/2 for ICE, the average of predictions for ELR, the last
prediction for the others, which list what they contradict. "step" is the time of a step over cross entropy's
in the same case and seed; it says something where trials ran one at a time. The records of ice_held and
ice_plus also have the course of a trial: what was believed at each evaluation, and how well it told labels.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from robust_cases import ALL, BY_HEART, CASES, load_case
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score
from torch import Tensor, nn

from icelens.losses import ELRLoss, HeldLoss, find_method
from icelens.reproduce.at_once import run_jobs
from icelens.reproduce.store import circumstances, write_trial
from icelens.train.loop import State, advance, begin
from icelens.train.predict import log_probabilities
from icelens.train.recipe import Recipe, make_recipe
from icelens.train.task import Task, choose_device, prepare

METHODS = ("cross_entropy", "gce", "elr", "sop", "ice_linear", "ice_power", "ice_held", "ice_plus")
# ELR's and SOP's papers have other settings for CIFAR-100.
SETTINGS = {
    ("elr", "cifar100"): {"strength": 7.0, "beta": 0.9},
    ("sop", "cifar100"): {"step_u": 1 / 128},
}
TOLD = ("data", "loss", "seed", "root", "device")  # settings that case, method, seed and place tell
PLUS = "ice_plus"  # ice_held, and then a second stage

Job = tuple[str, str, int, "Place"]


@dataclass(frozen=True)
class Place:
    """Where data and records are, what is changed in a recipe, and what a record says besides."""

    root: Path
    results: Path
    device: str
    changes: dict[str, Any] = field(default_factory=dict)
    said: dict[str, Any] = field(default_factory=dict)

    def record(self, case: str, method: str, seed: int) -> Path:
        return self.results / f"{case}-{method}-{seed}.json"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, default=Path("data"), help="the folder of data sets")
    parser.add_argument("--results", type=Path, default=Path("results/robust"), help="a file for each trial")
    cases = [case for case in ALL if case not in BY_HEART]
    parser.add_argument(
        "--cases", nargs="+", choices=cases, default=list(CASES), metavar="CASE", help=", ".join(cases)
    )
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=1, help="trials that share the device")
    parser.add_argument("--device", default="auto")
    add_set(parser)
    parser.add_argument("--show", action="store_true", help="train nothing, print what there is")
    arguments = parser.parse_args()
    place = Place(arguments.root, arguments.results, arguments.device, read_changes(parser, arguments))
    unfit = [case for case in arguments.cases if not ALL[case].plus]
    if PLUS in arguments.methods and unfit:
        print(f"{PLUS} is for large networks on images, so there is none on {', '.join(unfit)}")
    if not arguments.show:
        jobs = list(missing(arguments, place))
        for number, (case, method, seed, _) in enumerate(
            run_jobs(run_one, jobs, arguments.at_once, lambda job: "-".join(map(str, job[:3]))), start=1
        ):
            print(f"{number} of {len(jobs)}: {case} {method} {seed}", flush=True)
    print("\n".join(table(arguments, place)))


def add_set(parser: argparse.ArgumentParser) -> None:
    """The option that changes settings of all trials."""
    what = "settings to change, values as in JSON; the records go to a folder of their own (--results)"
    parser.add_argument("--set", nargs="+", action="extend", default=[], metavar="KEY=VALUE", help=what)


def read_changes(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings to change by their names.

    A record is found by case, method and seed alone, so what these say cannot be changed, and changed trials
    may not lie beside others.
    """
    changes = {}
    for word in arguments.set:
        name, _, value = word.partition("=")
        if name in TOLD:
            parser.error(f"--set {word}: '{name}' is told by another option")
        try:
            changes[name] = json.loads(value)
        except json.JSONDecodeError:
            parser.error(f"""--set {word}: should read KEY=VALUE, such as refine=50 or 'optimizer="adam"'""")
    if changes and arguments.results == parser.get_default("results"):
        parser.error(f"--set makes other trials than those in {arguments.results}; give them --results")
    return changes


def missing(arguments: argparse.Namespace, place: Place) -> Iterator[Job]:
    """The trials that have no record, one seed of all before the next."""
    for seed in range(arguments.seeds):
        for case in arguments.cases:
            for method in arguments.methods:
                fits = method != PLUS or ALL[case].plus
                if fits and not place.record(case, method, seed).exists():
                    yield case, method, seed, place


def run_one(case: str, method: str, seed: int, place: Place) -> None:
    """Train one method on one case and write what came out."""
    split, settings = load_case(case, place.root, seed)
    longer = ALL[case].plus if method == PLUS else {}
    recipe = recipe_of({**settings, **longer}, method, seed, place)
    task, started = prepare(recipe, split), time.perf_counter()
    course: list[dict[str, float]] = []
    state = advance(
        recipe,
        task,
        begin(recipe, task),
        title=f"{case}, {method}, seed {seed}",
        evaluated=lambda state: course.extend(beliefs(task, state)),
    )
    seconds = time.perf_counter() - started
    accuracies = [row["test_accuracy"] for row in state.metrics]
    record = {
        "case": case,
        "method": method,
        **place.said,
        "seed": seed,
        "accuracy": accuracies[-1],
        "accuracy_best": max(accuracies),
        "curve": accuracies,
        "recall": recall(recipe, task, state),
        **({"course": course} if course else {}),
        **detection(recipe, task, state),
        "bytes_per_example": state_bytes(state.loss, len(task.train)) / len(task.train),
        "milliseconds_per_step": 1000 * state.seconds / state.iterations,
        "seconds": round(seconds, 2),
        "settings": {
            **{k: v for k, v in asdict(recipe).items() if k not in ("root", "device", "seed")},
            "data": ALL[case].data,
        },
        **circumstances(recipe.device),
    }
    write_trial(place.record(case, method, seed), record)


def recipe_of(settings: dict[str, Any], method: str, seed: int, place: Place) -> Recipe:
    """The recipe of a trial: that of the case, with the method and its settings for the data."""
    device = choose_device(place.device)
    own = {} if device.type == "cuda" else {"compiled": False, "precision": "float32", "channels_last": False}
    loss = "ice_held" if method == PLUS else method
    given = {"loss": loss, "loss_settings": SETTINGS.get((method, settings["data"]), {}), "seed": seed}
    where = {"root": str(place.root), "device": str(device)}
    return make_recipe({**settings, **own, **given, **place.changes, **where})


def detection(recipe: Recipe, task: Task, state: State) -> dict[str, Any]:
    """How well the method's own score tells wrong labels; nothing where none is wrong."""
    method = find_method(recipe.loss)
    log_p = log_probabilities(recipe, state.predictor, task.train, method, len(task.classes)).cpu()
    labels, wrong = task.train.labels.cpu(), task.moved.numpy().astype(bool)
    score, listed = judged(state.loss, log_p, labels)
    found: dict[str, Any] = {"wrong": int(wrong.sum()), "listed": int(listed.sum())}
    if wrong.any():
        found |= {**ranking(wrong, score), "f1": float(f1_score(wrong, listed))}
        parts = {name: ranking(wrong, part) for name, part in read_from(state.loss)}
        found |= {"read_from": parts} if parts else {}
    return found


def recall(recipe: Recipe, task: Task, state: State) -> list[float | None]:
    """The share of each class of the test set that is found at the end."""
    method, classes = find_method(recipe.loss), len(task.classes)
    log_p = log_probabilities(recipe, state.predictor, task.test, method, classes)
    return shares_found(log_p.argmax(1), task.test.labels, classes)


def shares_found(guess: Tensor, labels: Tensor, classes: int) -> list[float | None]:
    """By class; None of one that is not there."""
    found = (guess == labels).float()
    shares = (found[labels == code] for code in range(classes))
    return [round(float(share.mean()), 4) if len(share) else None for share in shares]


def ranking(wrong: NDArray[np.bool_], score: NDArray[Any]) -> dict[str, float]:
    """How far a score, low = suspicious, puts wrong labels first."""
    return {
        "auroc": float(roc_auc_score(wrong, -score)),
        "average_precision": float(average_precision_score(wrong, -score)),
    }


def read_from(loss: nn.Module) -> Iterator[tuple[str, NDArray[Any]]]:
    """What the confidence of ICE-HELD is read from, each as a score of its own."""
    if isinstance(loss, HeldLoss):
        yield "C", loss.table.v.float().cpu().numpy()
        yield "support", loss.support.float().cpu().numpy()


def beliefs(task: Task, state: State) -> Iterator[dict[str, float]]:
    """What a loss that keeps beliefs has at this moment; nothing of another loss."""
    if not isinstance(loss := state.loss, HeldLoss):
        return
    wrong, leaders = task.moved.numpy().astype(bool), loss.leader.long().cpu()
    now = {name: float(getattr(loss, name)) for name in ("contradicted", "steady", "settled")}
    now["right"] = float((leaders == task.clean_labels.cpu()).float().mean())
    now["kept"] = float(loss.kept.mean())
    if wrong.any():
        now["auroc"] = float(roc_auc_score(wrong, -loss.confidence().cpu().numpy()))
    yield {name: round(value, 5) for name, value in now.items()}


def judged(loss: nn.Module, log_p: Tensor, labels: Tensor) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """A score of every label, low = suspicious, and which are listed at the method's own cut."""
    if hasattr(loss, "confidence"):
        confidence = loss.confidence().cpu().numpy()
        return confidence, confidence < 0.5
    p = loss.target.cpu() if isinstance(loss, ELRLoss) else log_p.exp()
    return p.gather(1, labels[:, None]).squeeze(1).numpy(), (p.argmax(1) != labels).numpy()


def state_bytes(loss: nn.Module, examples: int) -> int:
    """The bytes of all tensors of a loss that have a row for each example."""
    tensors = [value for module in loss.modules() for value in vars(module).values()]
    tensors += list(loss.buffers())
    rows = {id(t): t for t in tensors if isinstance(t, Tensor) and t.shape[:1] == (examples,)}
    return sum(value.numel() * value.element_size() for value in rows.values())


def table(arguments: argparse.Namespace, place: Place) -> Iterator[str]:
    """Means over the seeds that are there, and their standard deviation."""
    for case in arguments.cases:
        records = {method: list(read(place, case, method, arguments.seeds)) for method in arguments.methods}
        if not any(records.values()):
            continue
        yield f"\n{case}"
        heads = zip(
            ("last", "best", "AUROC", "AP", "F1", "bytes", "step"), (14, 14, 8, 8, 8, 6, 6), strict=True
        )
        yield f"  {'':14} " + " ".join(head.rjust(width) for head, width in heads) + "  n"
        for method, found in records.items():
            if found:
                step = step_ratio(found, records.get("cross_entropy", []))
                yield f"  {method:14} " + " ".join([*cells(found), step]) + f"  {len(found)}"


def read(place: Place, case: str, method: str, seeds: int) -> Iterator[dict[str, Any]]:
    for seed in range(seeds):
        path = place.record(case, method, seed)
        if path.exists():
            yield json.loads(path.read_text())


def step_ratio(records: list[dict[str, Any]], plain: list[dict[str, Any]]) -> str:
    """The time of a step over that of cross entropy, the median over seeds."""
    times = {record["seed"]: record["milliseconds_per_step"] for record in plain}
    ratios = [r["milliseconds_per_step"] / times[r["seed"]] for r in records if r["seed"] in times]
    return (f"{statistics.median(ratios):.2f}" if ratios else "-").rjust(6)


def cells(records: list[dict[str, Any]]) -> Iterator[str]:
    for name in ("accuracy", "accuracy_best"):
        values = [100 * record[name] for record in records]
        spread = f" ({statistics.stdev(values):.2f})" if len(values) > 1 else ""
        yield f"{statistics.fmean(values):.2f}{spread}".rjust(14)
    for name in ("auroc", "average_precision", "f1"):
        values = [record[name] for record in records if name in record]
        yield (f"{statistics.fmean(values):.4f}" if values else "-").rjust(8)
    yield f"{records[0]['bytes_per_example']:.0f}".rjust(6)


if __name__ == "__main__":
    main()
