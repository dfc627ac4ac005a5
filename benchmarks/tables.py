"""ICEClassifier on the tables that scikit-learn ships, with flipped training labels, beside what people use.

    python benchmarks/tables.py                              # all trials: about six minutes on one core
    python benchmarks/tables.py --tables iris --splits 1     # a quick look
    python benchmarks/tables.py --show                       # print what is in the results folder

A trial is a split (three quarters to train, stratified), a share of training labels that are flipped, each to
one of the other classes with the same probability, and one classifier. Test labels are as published. "MLP" is
the network of ICEClassifier with the same epochs, batches and optimizer, but cross entropy. "CleanLearning"
is cleanlab's, with its defaults, around that MLP. The others have scikit-learn's defaults, LogisticRegression
behind a StandardScaler. How settings were chosen is told in docs/sklearn.md. Seconds are one core's time in
`fit`: other work on the machine does not count. A finished trial is a file in the results folder and is not
run again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from icelens.integrations.sklearn import ICEClassifier
from icelens.noise import add_noise
from icelens.train.run import versions, write_text

TABLES = ("iris", "wine", "breast_cancer", "digits")
RATES = (0.0, 0.2, 0.4)
ICE, MLP = "ICEClassifier", "MLP"


class PlainMLP(ICEClassifier):
    """The same network with cross entropy."""

    _ice = False


def clean_learning(seed: int) -> Any:
    from cleanlab.classification import CleanLearning

    return CleanLearning(PlainMLP(random_state=seed, device="cpu"), seed=seed)


CLASSIFIERS = {
    ICE: lambda seed: ICEClassifier(random_state=seed, device="cpu"),
    MLP: lambda seed: PlainMLP(random_state=seed, device="cpu"),
    "CleanLearning": clean_learning,
    "LogisticRegression": lambda seed: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "RandomForest": lambda seed: RandomForestClassifier(random_state=seed),
    "HistGradientBoosting": lambda seed: HistGradientBoostingClassifier(random_state=seed),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=Path("results/tables"), help="a file for each trial")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES)
    parser.add_argument("--classifiers", nargs="+", choices=CLASSIFIERS, default=list(CLASSIFIERS))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--show", action="store_true", help="run nothing, print what there is")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if not arguments.show:
        for name in arguments.classifiers:  # what a library loads on its first use is not timed
            measure(name, *data("iris", 0.0, 0), seed=0)
        for split in range(arguments.splits):
            for table in arguments.tables:
                for rate in RATES:
                    run(arguments, table, rate, split)
    show([json.loads(path.read_text()) for path in sorted(arguments.results.glob("*.json"))])


def run(arguments: argparse.Namespace, table: str, rate: float, split: int) -> None:
    for name in arguments.classifiers:
        path = arguments.results / f"{table}-{rate * 100:.0f}-{name}-{split}.json"
        if not path.exists():
            record = {"table": table, "rate": rate, "split": split, "classifier": name}
            record |= measure(name, *data(table, rate, split), seed=split)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, json.dumps(record, indent=1) + "\n")


def data(table: str, rate: float, split: int) -> list[Any]:
    """Training and test rows, training labels with flips, and test labels."""
    X, y = getattr(datasets, f"load_{table}")(return_X_y=True)
    parts = train_test_split(X, y.astype(np.int64), test_size=0.25, stratify=y, random_state=split)
    if rate:
        labels = torch.from_numpy(parts[2])
        parts[2] = add_noise("symmetric", labels, len(np.unique(y)), rate, seed=split).labels.numpy()
    return parts


def measure(name: str, X: Any, X_test: Any, y: Any, y_test: Any, *, seed: int) -> dict[str, Any]:
    model = CLASSIFIERS[name](seed)
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    seconds = time.process_time() - started
    return {
        "accuracy": float((model.predict(X_test) == y_test).mean()),
        "fit_seconds": round(seconds, 3),
        "versions": {**versions(), **{name: version(name) for name in ("scikit-learn", "cleanlab")}},
    }


def show(records: list[dict[str, Any]]) -> None:
    """One line for each table and rate, one column for each classifier."""
    found: dict[tuple[str, float, str], list[dict[str, Any]]] = {}
    for record in records:
        found.setdefault((record["table"], record["rate"], record["classifier"]), []).append(record)
    names = [name for name in CLASSIFIERS if any(key[2] == name for key in found)]
    print("test accuracy in %, mean (standard deviation) over splits; then seconds of one core in fit, mean")
    print(f"{'table':14}{'flips':>6}{'n':>3}" + "".join(f"{name:>22}" for name in names))
    for table in TABLES:
        for rate in RATES:
            trials = [found.get((table, rate, name), []) for name in names]
            if any(trials):
                count = max(map(len, trials))
                print(f"{table:14}{rate:6.0%}{count:3}" + "".join(f"{cell(some):>22}" for some in trials))
    for rate in RATES:
        print(f"{'mean':14}{rate:6.0%}   " + "".join(f"{mean_of(found, rate, n):>22}" for n in names))
    show_clean(found)


def cell(trials: list[dict[str, Any]]) -> str:
    if not trials:
        return "-"
    accuracy = [100 * trial["accuracy"] for trial in trials]
    spread = f"{statistics.stdev(accuracy):.1f}" if len(accuracy) > 1 else "-"
    seconds = statistics.fmean(trial["fit_seconds"] for trial in trials)
    return f"{statistics.fmean(accuracy):.1f} ({spread}) {seconds:5.2f} s"


def mean_of(found: dict[tuple[str, float, str], list[dict[str, Any]]], rate: float, name: str) -> str:
    """Over tables, each with the same weight."""
    trials = [found.get((table, rate, name), []) for table in TABLES]
    if not all(trials):
        return "-"
    accuracy = statistics.fmean(100 * statistics.fmean(one["accuracy"] for one in some) for some in trials)
    seconds = statistics.fmean(statistics.fmean(one["fit_seconds"] for one in some) for some in trials)
    return f"{accuracy:.1f} {seconds:11.2f} s"


def show_clean(found: dict[tuple[str, float, str], list[dict[str, Any]]]) -> None:
    """What ICE costs where no label was flipped, paired by split."""
    for table in TABLES:
        mine, plain = (found.get((table, 0.0, name), []) for name in (ICE, MLP))
        if mine and len(mine) == len(plain):
            differences = [a["accuracy"] - b["accuracy"] for a, b in zip(mine, plain, strict=True)]
            mean = 100 * statistics.fmean(differences)
            print(f"{table} without flips: ICEClassifier - MLP = {mean:+.2f} points")


if __name__ == "__main__":
    main()
