"""How well icelens finds wrong labels, beside cleanlab, AUM, training loss and argmax with the same network.

    python benchmarks/detect.py --root data                          # all cases that this machine can run
    python benchmarks/detect.py --root data --cases hausa --seeds 1  # a quick look
    python benchmarks/detect.py --show                               # print what is in the results folder

Cases are data sets whose wrong labels are known, planted with the trial's seed or real. In a trial all tools
get the same inputs, network, epochs, batches and optimizer; cleanlab five folds of it. A finished trial is
a file in the results folder and is not run again.

Cost is in model-epochs: rows drawn for training, over the rows there are. Seconds are those of training and
judging, without reading the data; those of AUM, training loss and argmax in-sample are of one run that all
three are read from, with a prediction of all rows after each epoch. An F1 is that of the list which a tool
gives by default. cleanlab's list and count do not depend on its score; AUM and training loss have no list.
"""

from __future__ import annotations

import argparse
import ast
import functools
import hashlib
import json
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from detect_cases import CASES, Known
from detect_tables import print_case, print_summary, summary
from detect_tools import ICELENS, Judged, Trial, judge_all, judge_icelens
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

import icelens
from icelens.auditing.features import inputs_of
from icelens.train.run import versions, write_text
from icelens.train.task import choose_device


def main() -> None:
    arguments = read_arguments()
    engine()  # before anyone changes the source that this process has read
    if not arguments.show:
        run(arguments)
    records = read_records(arguments)
    for name, trials in records.items():
        print_case(name, trials)
    if records:
        figures = summary(records)
        print_summary(figures)
        if arguments.json:
            write_text(arguments.json, json.dumps({"summary": figures, "trials": records}, indent=1) + "\n")


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, default=Path("data"), help="the folder of data sets")
    parser.add_argument("--results", type=Path, default=Path("results/detect"), help="a file for each trial")
    parser.add_argument("--cases", nargs="+", choices=CASES, metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--seeds", type=int, default=5, help="trials of each case (default 5)")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--runs", type=Path, help="keep the runs of unfinished trials here, to go on from")
    parser.add_argument(
        "--again",
        action="store_true",
        help="in finished trials, measure icelens once more; the other tools keep their figures",
    )
    parser.add_argument("--show", action="store_true", help="run nothing, print what there is")
    parser.add_argument("--json", type=Path, help="also write all figures to this file")
    arguments = parser.parse_args()
    arguments.device = choose_device(arguments.device)
    on_gpu = arguments.device.type == "cuda"
    gpu_alone = [name for name in arguments.cases or () if CASES[name].gpu]
    if gpu_alone and not on_gpu and not arguments.show:
        parser.error(f"{gpu_alone[0]} needs a GPU, and the device is '{arguments.device}'")
    arguments.cases = arguments.cases or [
        name for name in CASES if arguments.show or on_gpu or not CASES[name].gpu
    ]
    return arguments


def run(arguments: argparse.Namespace) -> None:
    for name in arguments.cases:
        seeds = [seed for seed in range(arguments.seeds) if is_wanted(arguments, name, seed)]
        if not seeds:
            continue
        say(f"{name}: reading")
        labelled, clean = CASES[name].read(arguments.root)
        # Inputs are made of the examples alone, so all trials of a case share them.
        inputs = inputs_of(labelled, arguments.device)
        for seed in seeds:
            known, started = CASES[name].draw(labelled, clean, seed), time.perf_counter()
            runs = arguments.runs / f"{name}-{seed}-{engine()}" if arguments.runs else None
            trial = Trial(known.data, inputs, seed, runs, functools.partial(say, f"{name} {seed}:"))
            there = place(arguments, name, seed)
            old = json.loads(there.read_text()) if there.exists() else None
            record = {"case": name, "seed": seed, **measure(known, trial, old)}
            write_text(there, json.dumps(record, indent=1) + "\n")
            say(f"{name} {seed}: in {time.perf_counter() - started:.0f} s")


def is_wanted(arguments: argparse.Namespace, name: str, seed: int) -> bool:
    """Whether a trial is still to be run: one that is missing, or with --again one of another engine."""
    there = place(arguments, name, seed)
    if not there.exists():
        return True
    return bool(arguments.again) and json.loads(there.read_text())["engine"] != engine()


def place(arguments: argparse.Namespace, name: str, seed: int) -> Path:
    return arguments.results / f"{name}-{seed}.json"


def read_records(arguments: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """The finished trials of each case that has any."""
    records = {}
    for name in arguments.cases:
        paths = [place(arguments, name, seed) for seed in range(arguments.seeds)]
        trials = [json.loads(path.read_text()) for path in paths if path.exists()]
        if trials:
            records[name] = trials
    engines = {trial["engine"] for trials in records.values() for trial in trials}
    if engines - {engine()}:
        say(f"note: trials of {len(engines)} versions of the engine; this one is {engine()}")
    return records


def measure(known: Known, trial: Trial, old: dict[str, Any] | None) -> dict[str, Any]:
    """What a trial gave, as its file holds it.

    Of an old record the figures of the other tools stay, with cleanlab's version; the rest is of this run.
    """
    judged = {ICELENS: judge_icelens(trial)} if old else judge_all(trial)
    kept = old or {"versions": {"cleanlab": version("cleanlab")}, "tools": {}}
    figures = {name: score(one, known.wrong) for name, one in judged.items()}
    return {
        "examples": len(known.data),
        "classes": len(known.data.classes),
        "errors": int(known.wrong.sum()),
        "model": trial.inputs.model,
        "epochs": trial.inputs.plan().epochs,
        "device": trial.labels.device.type,
        "engine": engine(),
        "versions": {**versions(), "cleanlab": kept["versions"]["cleanlab"]},
        "tools": {**kept["tools"], **figures},
    }


def score(judged: Judged, wrong: NDArray[np.bool_]) -> dict[str, float | None]:
    """How good a verdict is; None where there is nothing to say."""
    verdict = judged.verdict
    low, high = verdict.interval or (None, None)
    return {
        **ranked(verdict.score, wrong),
        **listed(verdict.issues, wrong),
        "estimate": verdict.estimate,
        "low": low,
        "high": high,
        "model_epochs": judged.model_epochs,
        "seconds": judged.seconds,
    }


def ranked(score: NDArray[Any] | None, wrong: NDArray[np.bool_]) -> dict[str, float | None]:
    if score is None or not wrong.any():
        return {"average_precision": None, "auroc": None}
    return {
        "average_precision": float(average_precision_score(wrong, -score)),
        "auroc": float(roc_auc_score(wrong, -score)),
    }


def listed(issues: NDArray[np.bool_] | None, wrong: NDArray[np.bool_]) -> dict[str, float | None]:
    """The quality of a list; nothing found is precision 0."""
    if issues is None:
        return dict.fromkeys(("issues", "precision", "recall", "f1"))
    count, found, errors = int(issues.sum()), int((issues & wrong).sum()), int(wrong.sum())
    if not errors:
        return {"issues": count, "precision": None, "recall": None, "f1": None}
    return {
        "issues": count,
        "precision": found / max(1, count),
        "recall": found / errors,
        "f1": 2 * found / (count + errors),
    }


@functools.cache
def engine() -> str:
    """A digest of the code that judges labels, so that results of another one are seen to be that."""
    folder = Path(icelens.__file__).parent
    judging = ("audit", "estimate", "evidence", "features", "fit", "inputs", "noise_model")
    names = [f"auditing/{name}" for name in (*judging, "ranking", "shared", "stages")]
    names += ["losses/channel", "losses/held"]
    codes = "".join(code((folder / f"{name}.py").read_text()) for name in names)
    return hashlib.sha256(codes.encode()).hexdigest()[:12]


def code(source: str) -> str:
    """What a module does, without its comments and docstrings, and alike in all versions of Python."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            node.body.pop(0)
    return repr(shape(tree))


def shape(node: Any) -> Any:
    """A syntax tree as nested tuples. Fields that are empty are left out: newer Pythons have more of them."""
    if isinstance(node, list):
        return [shape(part) for part in node]
    if not isinstance(node, ast.AST):
        return node
    fields = ((name, value) for name, value in ast.iter_fields(node) if value not in (None, []))
    return (type(node).__name__, *((name, shape(value)) for name, value in fields))


def say(*words: str) -> None:
    print(*words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
