"""What each part of ICE-HELD and of ICE+ does: the same run without it.

    python benchmarks/parts.py ice_held --root data --at-once 2          # CPU: 2 minutes a trial
    python benchmarks/parts.py ice_plus --root data --device cuda --seeds 1
    python benchmarks/parts.py ice_plus --device cuda --seeds 1 --set refine=50 --results results/parts_short
    python benchmarks/parts.py ice_held --show

ICE-HELD is taken apart with an MLP that learns its labels by heart, ICE+ on CIFAR-10N with ResNet-18. One
JSON file for each finished trial, so that a second call goes on. A method as it is, without a change, is read
from the records of benchmarks/robust.py where these are.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import waiting
from robust import PLUS, Place, add_set, read_changes, run_one
from robust_cases import ALL, BY_HEART, FEW_CLASSES, TWO_CLASSES

from icelens.losses import held
from icelens.reproduce.at_once import run_jobs
from icelens.train import refine

WHOLE = Path("results/robust")


@dataclass(frozen=True)
class Part:
    """A run without a part: the method, what else stands in a module, and what is changed in its recipe."""

    method: str
    module: ModuleType | type = held
    instead: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    only: tuple[str, ...] = ()  # cases that it is another run for, where that is not so for all
    longer: bool = False  # as many steps as both stages of ICE+


def unmixed(*_: Any) -> float:
    return 1.0


PARTS: dict[str, dict[str, Part]] = {
    "ice_held": {
        "ICE-HELD": Part("ice_held"),
        "no second term: cross entropy": Part("cross_entropy"),
        "all K numbers of belief: ELR": Part("elr"),
        # But for the first pass, in which nothing is known yet that could last.
        "does not wait": Part("ice_held", instead={"_SLACK": 1e9}),
        "waits half as long": Part("ice_held", instead={"_VISITS": 1.0}),
        "holds from the third visit on": Part("ice_held", held.HeldLoss, waiting.THIRD_VISIT),
        "holds from the fifth visit on": Part("ice_held", held.HeldLoss, waiting.FIFTH_VISIT),
        "waits by doubted labels": Part("ice_held", held.HeldLoss, waiting.DOUBTED),
        "waits by doubted labels, steeper": Part("ice_held", held.HeldLoss, waiting.DOUBTED_STEEPER),
        "waits by doubted labels, for good": Part("ice_held", held.HeldLoss, waiting.DOUBTED_FOR_GOOD),
        "holds few classes no harder": Part("ice_held", instead={"_CHANCE": 0.0}, only=FEW_CLASSES),
        "holds two classes by 8": Part("ice_held", instead={"_CHANCE": 4 / 3}, only=TWO_CLASSES),
        "holds two classes by 11": Part("ice_held", instead={"_CHANCE": 11 / 6}, only=TWO_CLASSES),
        "holds firm beliefs no harder": Part("ice_held", instead={"_FIRMER": 0.0}),
        "never lets go": Part("ice_held", settings={"doubt": 1e-9}),
        "does not wait, never lets go": Part("ice_held", settings={"doubt": 0.0}),
    },
    PLUS: {
        "ICE+": Part(PLUS),
        "images are not mixed": Part(PLUS, refine, {"share_of": unmixed}),
        "images are not distorted": Part(PLUS, refine, {"STRONG": 0.0}),
        "the network itself, not an average": Part(PLUS, refine, {"DECAY": 0.0}),
        "beliefs move from the start": Part(PLUS, refine, {"FROZEN": 0.0}),
        "beliefs never move": Part(PLUS, refine, {"FROZEN": 1.0}),
        "no second stage, as many steps of ICE-HELD": Part("ice_held", longer=True),
    },
}
DEFAULT_CASES = {"ice_held": list(BY_HEART), PLUS: ["cifar10n-worst"]}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("form", choices=PARTS)
    parser.add_argument("--root", type=Path, default=Path("data"), help="the folder of data sets")
    parser.add_argument("--results", type=Path, default=Path("results/parts"), help="a folder for each part")
    parser.add_argument("--cases", nargs="+", choices=ALL, metavar="CASE", help=", ".join(ALL))
    parser.add_argument("--parts", nargs="+", metavar="PART", help="the first words of a name are enough")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=1, help="trials that share the device")
    parser.add_argument("--device", default="auto")
    add_set(parser)
    parser.add_argument("--show", action="store_true", help="train nothing, print what there is")
    arguments = parser.parse_args()
    arguments.changes = read_changes(parser, arguments)
    cases = arguments.cases or DEFAULT_CASES[arguments.form]
    if unfit := [case for case in cases if arguments.form == PLUS and not ALL[case].plus]:
        parser.error(f"{PLUS} is for large networks on images, so there is none on {', '.join(unfit)}")
    all_parts = list(PARTS[arguments.form])
    for word in arguments.parts or []:
        if not named(word, all_parts):
            parser.error(f"no part begins with '{word}'; parts are {'; '.join(all_parts)}")
    parts = [part for word in arguments.parts or [""] for part in named(word, all_parts)]
    if not arguments.show:
        wanted = trials(arguments.form, cases, parts, seeds=arguments.seeds)
        jobs = [(arguments, *trial) for trial in wanted if not find_record(arguments, *trial).exists()]
        for number, (_, case, part, seed) in enumerate(
            run_jobs(train, jobs, arguments.at_once, lambda job: ", ".join(map(str, job[1:]))), start=1
        ):
            print(f"{number} of {len(jobs)}: {case}, {part}, seed {seed}", flush=True)
    for case in cases:
        print("\n".join(table(arguments, case, parts)))


def trials(form: str, cases: list[str], parts: list[str], *, seeds: int) -> list[tuple[str, str, int]]:
    """Case, part and seed of what is to be run, one seed of all before the next."""
    fits = [(case, part) for case in cases for part in parts if case in (PARTS[form][part].only or ALL)]
    return [(case, part, seed) for seed in range(seeds) for case, part in fits]


def train(arguments: argparse.Namespace, case: str, part: str, seed: int) -> None:
    """Train without the part and write what came out."""
    found = PARTS[arguments.form][part]
    with ExitStack() as stack:
        if found.instead:
            stack.enter_context(patch.multiple(found.module, **found.instead))
        run_one(case, found.method, seed, place_of(arguments, case, part))


def named(word: str, parts: list[str]) -> list[str]:
    """The part of that name, else those that begin so."""
    return [word] if word in parts else [part for part in parts if part.startswith(word)]


def place_of(arguments: argparse.Namespace, case: str, part: str) -> Place:
    """Where the records of a part are, what is changed in its recipe, and that they say so."""
    found = PARTS[arguments.form][part]
    settings = {**arguments.changes.get("loss_settings", {}), **found.settings}
    changes = {**arguments.changes, **({"loss_settings": settings} if settings else {})}
    changes |= {"iterations": steps_of_both(case, arguments.changes), "refine": 0.0} if found.longer else {}
    folder = arguments.results / "".join(letter if letter.isalnum() else "_" for letter in part)
    said = {
        "part": part,
        "instead": {name: getattr(value, "__name__", value) for name, value in found.instead.items()},
    }
    return Place(arguments.root, folder, arguments.device, changes, said)


def find_record(arguments: argparse.Namespace, case: str, part: str, seed: int) -> Path:
    """The file of a trial."""
    found = PARTS[arguments.form][part]
    whole = WHOLE / f"{case}-{found.method}-{seed}.json"
    if found == Part(found.method) and whole.exists() and not arguments.changes:
        return whole
    return place_of(arguments, case, part).record(case, found.method, seed)


def steps_of_both(case: str, changes: dict[str, Any]) -> int:
    """Of both stages together, on the 50,000 images of CIFAR."""
    settings = {**ALL[case].settings, **ALL[case].plus, **changes}
    second = math.ceil(settings["refine"] * math.ceil(50_000 / settings["batch_size"]))
    return int(settings["iterations"] + second)


def table(arguments: argparse.Namespace, case: str, parts: list[str]) -> Iterator[str]:
    """A line for each part, means over the seeds that are there."""
    yield f"\n{case}\n  {'':42}       accuracy  AUROC     AP     F1  n  commit"
    for part in parts:
        paths = (find_record(arguments, case, part, seed) for seed in range(arguments.seeds))
        found = [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()]
        if found:
            accuracies = [100 * trial["accuracy"] for trial in found]
            spread = f" ({statistics.stdev(accuracies):.2f})" if len(found) > 1 else ""
            accuracy = f"{statistics.fmean(accuracies):.2f}{spread}"
            scores = " ".join(mean_of(found, name) for name in ("auroc", "average_precision", "f1"))
            commits = ", ".join(sorted({str(trial["commit"])[:7] for trial in found}))
            yield f"  {part:42} {accuracy:>14} {scores} {len(found):2}  {commits}"


def mean_of(trials: list[dict[str, Any]], name: str) -> str:
    values = [trial[name] for trial in trials if name in trial]
    return (f"{statistics.fmean(values):.4f}" if values else "-").rjust(6)


if __name__ == "__main__":
    main()
