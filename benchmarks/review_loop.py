"""What a review finds whose verdicts teach the ranking, beside one without and the best there could be.

    python benchmarks/review_loop.py --root data              # all trials that are not there yet
    python benchmarks/review_loop.py --root data --cases hausa --seeds 1
    python benchmarks/review_loop.py --show                   # print what is in the results folder

A simulated reviewer answers from the true labels, a batch at a time from the top of the list, until a tenth
of the data is judged; after each batch the rest is ranked again. A finished trial is a file in the results
folder and is not run again. Test accuracies are those of the audit's own network, trained by its own loss on
the given labels, on those after the review of a tenth, and on the true ones; n-grams and scales are read from
training and test inputs together.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from detect_cases import FASHION_ROWS, FASHION_WIDTH, HAUSA, Case, Known, _titles, hausa, labelled
from numpy.typing import NDArray

from icelens.auditing.audit import audit_labelled
from icelens.auditing.features import inputs_of
from icelens.auditing.fit import fit
from icelens.data import Labelled, load
from icelens.review.rerank import Evidence, Left, Reranked, rerank
from icelens.train.run import versions, write_text

SHARES = (0.05, 0.1)


@dataclass(frozen=True)
class Loop:
    """A case, and its inputs and true labels with those of the test part after them."""

    case: Case
    whole: Callable[[Path], tuple[Labelled, NDArray[np.int64]]]


def main() -> None:
    arguments = read_arguments()
    if not arguments.show:
        run(arguments)
    for name in arguments.cases:
        paths = [place(arguments, name, seed) for seed in range(arguments.seeds)]
        trials = [json.loads(path.read_text()) for path in paths if path.exists()]
        if trials:
            print_case(name, trials)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, default=Path("data"), help="the folder of data sets")
    parser.add_argument("--results", type=Path, default=Path("results/review"), help="a file for each trial")
    parser.add_argument("--cases", nargs="+", choices=LOOPS, default=list(LOOPS), metavar="CASE")
    parser.add_argument("--seeds", type=int, default=5, help="trials of each case (default 5)")
    parser.add_argument("--batch", type=int, default=10, help="verdicts between two rankings (default 10)")
    parser.add_argument("--show", action="store_true", help="run nothing, print what there is")
    return parser.parse_args()


def run(arguments: argparse.Namespace) -> None:
    for name in arguments.cases:
        seeds = [seed for seed in range(arguments.seeds) if not place(arguments, name, seed).exists()]
        if not seeds:
            continue
        together, clean = LOOPS[name].whole(arguments.root)
        train, true = LOOPS[name].case.read(arguments.root)
        for seed in seeds:
            started, known = time.perf_counter(), LOOPS[name].case.draw(train, true, seed)
            audit = audit_labelled(known.data, seed=seed, device="cpu", reviewed=True)
            say(f"{name} {seed}: audited in {time.perf_counter() - started:.0f} s")
            found = review(audit.aids, audit.examples["trust"].to_numpy(), known, true, arguments.batch)
            judged = found.pop("judged")
            accuracy = accuracies(together, clean, known.data.labels, judged, seed)
            record = {
                "case": name, "seed": seed, "examples": len(train), "errors": int(known.wrong.sum()),
                "batch": arguments.batch, **found, "accuracy": accuracy, "versions": versions(),
            }  # fmt: skip
            write_text(place(arguments, name, seed), json.dumps(record, indent=1) + "\n")
            say(f"{name} {seed}: {time.perf_counter() - started:.0f} s")


def place(arguments: argparse.Namespace, name: str, seed: int) -> Path:
    return arguments.results / f"{name}-{seed}.json"


def review(
    aids: Any, trust: NDArray[np.float64], known: Known, true: NDArray[np.int64], batch: int
) -> dict[str, Any]:
    """A review of a tenth of the data; what is left is looked at after each of SHARES."""
    wrong = known.wrong
    evidence = Evidence(**{field.name: getattr(aids, field.name) for field in fields(Evidence)})
    budgets = [round(share * len(wrong)) for share in SHARES]
    without = wrong[np.argsort(trust, kind="stable")]
    judged, marks, seconds = np.empty(0, np.int64), [], []
    ranked = rerank(evidence, judged, wrong[judged], truth=true[judged])
    for budget in budgets:
        while len(judged) < budget:
            judged = np.concatenate([judged, ranked.rows[: min(batch, budget - len(judged))]])
            started = time.perf_counter()
            ranked = rerank(evidence, judged, wrong[judged], truth=true[judged])
            seconds.append(time.perf_counter() - started)
        counts = {"without": without[:budget].sum(), "with": wrong[judged].sum()}
        counts["best"] = min(budget, wrong.sum())
        marks.append(
            {"n": budget, **{key: int(count) for key, count in counts.items()}, **left(ranked, wrong)}
        )
    return {"judged": judged, "marks": marks, "suspects": len(evidence.rows), "slowest_s": max(seconds)}


def left(ranked: Reranked, wrong: NDArray[np.bool_]) -> dict[str, Any]:
    """What was expected of the rest of the list and of the next of it, and what is true."""

    def compared(expected: Left) -> dict[str, float]:
        return {**vars(expected), "true": int(wrong[ranked.rows[: expected.examples]].sum())}

    return {"rest": compared(ranked.rest), "ahead": compared(ranked.ahead)}


def accuracies(
    together: Labelled,
    clean: NDArray[np.int64],
    given: NDArray[np.int64],
    judged: NDArray[np.int64],
    seed: int,
) -> dict[str, float]:
    """On the test part, which follows the training part, after training on each of three sets of labels."""
    rows = torch.arange(len(given))
    inputs, test = inputs_of(together, torch.device("cpu")), torch.arange(len(given), len(clean))
    reviewed = given.copy()
    reviewed[judged] = clean[judged]
    figures = {}
    for name, labels in {"before": given, "after": reviewed, "clean": clean[: len(given)]}.items():
        all_labels = torch.from_numpy(np.concatenate([labels, clean[len(given) :]]))
        ran = fit(inputs, all_labels, len(together.classes), rows=rows, read=test, seed=seed, title=name)
        figures[name] = float((ran.log_p.argmax(1) == clean[len(given) :]).mean())
    return figures


def print_case(name: str, trials: list[dict[str, Any]]) -> None:
    first = trials[0]
    errors = statistics.fmean(trial["errors"] for trial in trials)
    print(f"\n{name}: {first['examples']:,} examples, {errors:,.0f} wrong labels, n = {len(trials)}")
    print(_cells("errors found in the first", "without", "with", "best", "gap closed", "not less"))
    for number, share in enumerate(SHARES):
        print_share(share, [trial["marks"][number] for trial in trials])
    shown = {key: _mean([100 * trial["accuracy"][key] for trial in trials], 2) for key in first["accuracy"]}
    print(f"  test accuracy, %: before {shown['before']}, after {shown['after']}, all clean {shown['clean']}")
    print(f"  slowest ranking {max(trial['slowest_s'] for trial in trials):.2f} s")


def print_share(share: float, marks: list[dict[str, Any]]) -> None:
    """What was found in this share of the data, and whether the intervals hold what is left."""
    gap = sum(mark["best"] - mark["without"] for mark in marks)
    closed = sum(mark["with"] - mark["without"] for mark in marks) / gap if gap else math.nan
    least = sum(mark["with"] >= mark["without"] for mark in marks)
    found = [_mean([mark[key] for mark in marks]) for key in ("without", "with", "best")]
    print(_cells(f"{share:.0%} ({marks[0]['n']:,})", *found, f"{closed:.0%}", f"{least}/{len(marks)}"))
    for key, what in (("rest", "rest of the list"), ("ahead", "next 100")):
        lefts = [mark[key] for mark in marks]
        held = sum(one["low"] <= one["true"] <= one["high"] for one in lefts)
        low, high, true = (statistics.fmean(one[part] for one in lefts) for part in ("low", "high", "true"))
        interval = f"{true:,.0f} wrong, interval {low:,.0f} to {high:,.0f}"
        print(f"    {what}: {interval}, holds in {held}/{len(marks)}")


def _cells(title: str, *cells: str) -> str:
    return f"  {title:27}" + "".join(f"{cell:>17}" for cell in cells)


def _mean(values: list[float], digits: int = 1) -> str:
    """Mean ± standard error."""
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{statistics.fmean(values):,.{digits}f} ± {error:.{digits}f}"


def whole_fashion(root: Path) -> tuple[Labelled, NDArray[np.int64]]:
    """Principal components of the training rows of `detect_cases.fashion`, then of all test images."""
    from sklearn.decomposition import PCA

    split = load("fashion-mnist", root)
    rows = np.random.default_rng(0).permutation(len(split.train))[:FASHION_ROWS]
    pixels = [
        part.flatten(1).numpy().astype(np.float32) / 255
        for part in (split.train.inputs[rows], split.test.inputs)
    ]
    components = PCA(FASHION_WIDTH, random_state=0).fit(pixels[0])
    features = np.concatenate([components.transform(part) for part in pixels]).astype(np.float32)
    labels = np.concatenate([split.train.labels[rows].numpy(), split.test.labels.numpy()])
    return labelled("table", features, labels, split.train.classes, "fashion-mnist"), labels


def train_fashion(root: Path) -> tuple[Labelled, NDArray[np.int64]]:
    whole, labels = whole_fashion(root)
    return whole.take(np.arange(FASHION_ROWS)), labels[:FASHION_ROWS]


def whole_hausa(root: Path) -> tuple[Labelled, NDArray[np.int64]]:
    """Training titles, then those of the test part."""
    train, clean = hausa(root)
    test = _titles(root / HAUSA / "test.tsv")
    labels = np.concatenate([clean, [train.classes.index(label) for _, label in test]])
    return labelled(
        "text", [*train.inputs, *((title,) for title, _ in test)], labels, train.classes, HAUSA
    ), labels


def say(*words: str) -> None:
    print(*words, file=sys.stderr, flush=True)


LOOPS = {
    "hausa": Loop(Case(hausa), whole_hausa),
    "fashion-symmetric-10": Loop(Case(train_fashion, "symmetric", 0.1), whole_fashion),
}

if __name__ == "__main__":
    main()
