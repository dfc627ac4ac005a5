"""The tables of benchmarks/detect.py: one for each case, and what all of them say together."""

from __future__ import annotations

import math
import statistics
from typing import Any

from detect_cases import CASES, UNTOUCHED
from detect_tools import ARGMAX, ARGMAX_FOLDS, ICELENS, NORMALIZED_MARGIN, SELF_CONFIDENCE, TOOLS

Record = dict[str, Any]
COLUMNS = ("AP", "AUROC", "precision", "recall", "F1", "issues", "estimate", "interval", "holds", "cost", "s")
WIDTHS = (7, 7, 10, 7, 7, 8, 9, 17, 6, 7, 8)
ENOUGH = 100  # errors, from which on the width of the interval is looked at
SMALL = 10_000  # examples, below which cost is seconds
F1_OTHERS = {
    "f1_cleanlab": "cleanlab's list",
    "f1_argmax": ARGMAX,
    "f1_argmax_folds": ARGMAX_FOLDS,
}
PAIRED = {
    "average_precision": "AP, cleanlab best",
    "auroc": "AUROC, best",
    "f1_cleanlab": "F1, cleanlab",
    "f1_argmax": "F1, argmax",
    "f1_argmax_folds": "F1, argmax 5-fold",
}
SUMMARY_WIDTHS = (*(19 for _ in PAIRED), 7, 7, 7)


def print_case(name: str, trials: list[Record]) -> None:
    """A row for each tool, means over the trials."""
    first = trials[0]
    errors = statistics.fmean(trial["errors"] for trial in trials)
    print(
        f"\n{name}: {first['examples']:,} examples, {first['classes']} classes, {errors:,.1f} wrong labels; "
        f"{first['model']}, {first['epochs']} epochs, {first['device']}; n = {len(trials)}"
    )
    print(f"  {'':26}" + _cells(COLUMNS))
    for tool in TOOLS:
        print(f"  {tool:26}" + _cells(_row(tool, trials)))


def _row(tool: str, trials: list[Record]) -> tuple[str, ...]:
    mean = {key: _mean(tool, key, trials) for key in trials[0]["tools"][tool]}
    quality = [
        _number(mean[key], ".4f") for key in ("average_precision", "auroc", "precision", "recall", "f1")
    ]
    has_interval = mean["low"] is not None
    interval = f"{mean['low']:,.0f} to {mean['high']:,.0f}" if has_interval else "-"
    holds = f"{sum(_holds(trial) for trial in trials)}/{len(trials)}" if has_interval else "-"
    counts = (_number(mean["issues"], ",.1f"), _number(mean["estimate"], ",.1f"), interval, holds)
    return (*quality, *counts, _number(mean["model_epochs"], ",.1f"), _number(mean["seconds"], ",.1f"))


def summary(records: dict[str, list[Record]]) -> Record:
    """What icelens gains over cleanlab and argmax: in each case with wrong labels, and in all of a CPU."""
    cases = {name: _compared(trials) for name, trials in records.items() if name != UNTOUCHED}
    on_cpu = {name: case for name, case in cases.items() if not CASES[name].gpu}
    figures: Record = {"cases": cases}
    if on_cpu:
        figures["cpu"] = _together(on_cpu, {name: records[name] for name in on_cpu})
    if UNTOUCHED in records:
        shares = [trial["tools"][ICELENS]["issues"] / trial["examples"] for trial in records[UNTOUCHED]]
        figures["untouched"] = {"mean": statistics.fmean(shares), "most": max(shares)}
    return figures


def _compared(trials: list[Record]) -> Record:
    """Paired differences: icelens minus the other in the same trial, with their standard error."""
    mine = [trial["tools"][ICELENS] for trial in trials]
    widths = [_width(trial) for trial in trials if trial["errors"] >= ENOUGH]
    f1_of = {"f1_cleanlab": SELF_CONFIDENCE, "f1_argmax": ARGMAX, "f1_argmax_folds": ARGMAX_FOLDS}
    return {
        "n": len(trials),
        **{key: _paired(mine, _best(trials, key), key) for key in ("average_precision", "auroc")},
        **{
            key: _paired(mine, [trial["tools"][tool]["f1"] for trial in trials], "f1")
            for key, tool in f1_of.items()
        },
        "cost": _mean(ICELENS, "model_epochs", trials) / _mean(SELF_CONFIDENCE, "model_epochs", trials),
        "held": sum(_holds(trial) for trial in trials),
        "width": statistics.fmean(widths) if widths else None,
    }


def _together(cases: dict[str, Record], records: dict[str, list[Record]]) -> Record:
    """What the cases say together; a case counts as at least equal by its mean over trials."""
    gained = {key: {name: case[key]["mean"] for name, case in cases.items()} for key in PAIRED}
    equal = {key: {name for name, mean in gained[key].items() if mean >= 0} for key in PAIRED}
    small = {name for name in cases if records[name][0]["examples"] < SMALL}
    return {
        "cases": len(cases),
        "at_least": {key: len(names) for key, names in equal.items()},
        "f1_at_least_all": len(set.intersection(*(equal[key] for key in F1_OTHERS))),
        "worst": {key: min((mean, name) for name, mean in gained[key].items()) for key in PAIRED},
        "cost_small": max((cases[name]["cost"] for name in small), default=None),
        "cost_large": max((cases[name]["cost"] for name in cases if name not in small), default=None),
        **_intervals([trial for trials in records.values() for trial in trials]),
    }


def _intervals(trials: list[Record]) -> Record:
    widths = [_width(trial) for trial in trials if trial["errors"] >= ENOUGH]
    return {
        "trials": len(trials),
        "held": sum(_holds(trial) for trial in trials),
        "wide_trials": len(widths),
        "over_half": sum(width > 0.5 for width in widths),
        "width_mean": statistics.fmean(widths) if widths else None,
        "width_most": max(widths, default=None),
    }


def print_summary(figures: Record) -> None:
    print("\nicelens minus the other in the same trial: mean over trials ± standard error")
    print(f"  {'':27}" + _cells((*PAIRED.values(), "cost", "holds", "width"), SUMMARY_WIDTHS))
    for name, case in figures["cases"].items():
        differences = [_difference(case[key]) for key in PAIRED]
        rest = (f"{case['cost']:.3f}", f"{case['held']}/{case['n']}", _number(case["width"], ".2f"))
        print(f"  {name:27}" + _cells((*differences, *rest), SUMMARY_WIDTHS))
    print(
        "  best: the better of cleanlab's two scores in that trial; cost: over that of five folds;\n"
        "  holds: trials in which the 90 % interval holds the true number of errors;\n"
        f"  width: of the interval over that number, where it is {ENOUGH} or more"
    )
    if "cpu" in figures:
        _print_together(figures["cpu"])
    if "untouched" in figures:
        share = figures["untouched"]
        print(f"  untouched digits called issues: {share['mean']:.2%}, at most {share['most']:.2%}")


def _print_together(found: Record) -> None:
    n, equal = found["cases"], found["at_least"]
    worst = {key: f"worst {mean:+.4f} ({name})" for key, (mean, name) in found["worst"].items()}
    print(f"\nover the {n} noisy cases of a CPU, by means over trials")
    for key, other in {"average_precision": "the better of cleanlab's scores", **F1_OTHERS}.items():
        what = "F1" if key in F1_OTHERS else "average precision"
        print(f"  {what} at least that of {other}: {equal[key]} of {n}; {worst[key]}")
    shown = {key: _number(found[key], ".3f") for key in found if key.startswith(("cost", "width"))}
    print(
        f"  F1 at least that of all three: {found['f1_at_least_all']} of {n}\n"
        f"  cost over that of five folds: at most {shown['cost_small']} under {SMALL:,} rows, "
        f"{shown['cost_large']} from there on\n"
        f"  the 90 % interval holds the truth in {found['held']} of {found['trials']} trials "
        f"({found['held'] / found['trials']:.0%})\n"
        f"  its width over the truth, where that is {ENOUGH} or more: mean {shown['width_mean']}, at most "
        f"{shown['width_most']}; over 0.5 in {found['over_half']} of {found['wide_trials']} trials"
    )


def _best(trials: list[Record], key: str) -> list[float]:
    """The better of cleanlab's two scores, in each trial."""
    scores = (SELF_CONFIDENCE, NORMALIZED_MARGIN)
    return [max(trial["tools"][score][key] for score in scores) for trial in trials]


def _paired(mine: list[Record], others: list[float], key: str) -> Record:
    differences = [one[key] - other for one, other in zip(mine, others, strict=True)]
    error = statistics.stdev(differences) / math.sqrt(len(differences)) if len(differences) > 1 else None
    return {"mean": statistics.fmean(differences), "standard_error": error}


def _holds(trial: Record) -> bool:
    mine = trial["tools"][ICELENS]
    return bool(mine["low"] <= trial["errors"] <= mine["high"])


def _width(trial: Record) -> float:
    mine = trial["tools"][ICELENS]
    return float((mine["high"] - mine["low"]) / trial["errors"])


def _mean(tool: str, key: str, trials: list[Record]) -> Any:
    values = [trial["tools"][tool][key] for trial in trials]
    return None if None in values else statistics.fmean(values)


def _difference(paired: Record) -> str:
    error = paired["standard_error"]
    return f"{paired['mean']:+.4f}" + (f" ± {error:.4f}" if error is not None else "")


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _cells(cells: tuple[str, ...], widths: tuple[int, ...] = WIDTHS) -> str:
    return " ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
