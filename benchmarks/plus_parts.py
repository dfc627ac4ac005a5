"""What each part of ICE+ does: the same run without it, on cases of benchmarks/robust.py.

    python benchmarks/plus_parts.py --root data --device cuda --cases cifar10n-worst
    python benchmarks/plus_parts.py --show

One JSON file for each finished trial, so that a second call goes on. "all" is read from the records of
benchmarks/robust.py where these are, and trained like the others where they are not.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

from robust import PLUS, Place, run_one
from robust_cases import CASES

from icelens.train import refine

WHOLE = Path("results/robust")
HELD = "no second stage, as many steps of ICE-HELD"
# By name, what stands in the place of the part in icelens.train.refine.
PARTS: dict[str, dict[str, Any]] = {
    "all": {},
    "images are not mixed": {"share_of": lambda *_: 1.0},
    "images are not distorted": {"STRONG": 0.0},
    "the network itself, not an average": {"DECAY": 0.0},
    "beliefs move from the start": {"FROZEN": 0.0},
    "beliefs never move": {"FROZEN": 1.0},
    HELD: {},
}


def main() -> None:
    able = [case for case in CASES if CASES[case].plus]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, default=Path("data"), help="the folder of data sets")
    parser.add_argument("--results", type=Path, default=Path("results/plus_parts"), help="a folder per part")
    parser.add_argument("--cases", nargs="+", choices=able, default=["cifar10n-worst"], metavar="CASE",
                        help=", ".join(able))  # fmt: skip
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART",
                        help=", ".join(f"'{part}'" for part in PARTS))  # fmt: skip
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--show", action="store_true", help="train nothing, print what there is")
    arguments = parser.parse_args()
    for seed in range(0 if arguments.show else arguments.seeds):
        for case in arguments.cases:
            for part in arguments.parts:
                if not record(arguments, case, part, seed).exists():
                    print(f"{case}: {part}, seed {seed}", flush=True)
                    train(arguments, case, part, seed)
    for case in arguments.cases:
        print("\n".join(table(arguments, case)))


def place_of(arguments: argparse.Namespace, case: str, part: str) -> Place:
    """Where the records of a part are, and what is changed in its recipe."""
    changes = [f"iterations={steps(case)}"] if part == HELD else []
    folder = arguments.results / part.replace(",", "").replace(" ", "_")
    return Place(argparse.Namespace(**{**vars(arguments), "results": folder, "set": changes}))


def record(arguments: argparse.Namespace, case: str, part: str, seed: int) -> Path:
    """The file of a trial."""
    method = "ice_held" if part == HELD else PLUS
    whole = WHOLE / f"{case}-{PLUS}-{seed}.json"
    if part == "all" and whole.exists():
        return whole
    return place_of(arguments, case, part).record(case, method, seed)


def train(arguments: argparse.Namespace, case: str, part: str, seed: int) -> None:
    """Train without the part and write what came out."""
    without: AbstractContextManager[Any] = nullcontext()
    if PARTS[part]:
        without = patch.multiple(refine, **PARTS[part])
    method = "ice_held" if part == HELD else PLUS
    with without:
        run_one(case, method, seed, place_of(arguments, case, part))


def steps(case: str) -> int:
    """Of both stages together, on the 50,000 images of CIFAR."""
    plus, batch = CASES[case].plus, CASES[case].settings["batch_size"]
    return int(plus["iterations"] + math.ceil(plus["refine"] * math.ceil(50_000 / batch)))


def table(arguments: argparse.Namespace, case: str) -> Iterator[str]:
    """A line for each part, means over the seeds that are there."""
    yield f"\n{case}\n  {'':44} accuracy  AUROC     F1  beliefs right  n"
    for part in arguments.parts:
        paths = (record(arguments, case, part, seed) for seed in range(arguments.seeds))
        found = [json.loads(path.read_text()) for path in paths if path.exists()]
        if found:
            means = [statistics.fmean(trial[name] for trial in found) for name in ("accuracy", "auroc", "f1")]
            right = statistics.fmean(trial["course"][-1]["right"] for trial in found)
            accuracy, auroc, f1 = means
            yield f"  {part:44} {accuracy:8.2%} {auroc:6.3f} {f1:6.3f} {right:14.1%} {len(found):2}"


if __name__ == "__main__":
    main()
