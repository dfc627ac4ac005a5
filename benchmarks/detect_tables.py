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
    """icelens beside cleanlab and argmax, trial by trial: for each case with wrong labels, and over those of a CPU."""
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
    return {
        "n": len(trials),
        "average_precision": _paired(mine, _best(trials, "average_precision"), "average_precision"),
        "auroc": _paired(mine, _best(trials, "auroc"), "auroc"),
        "f1_cleanlab": _paired(mine, [trial["tools"][SELF_CONFIDENCE]["f1"] for trial in trials], "f1"),
        "f1_argmax": _paired(mine, [trial["tools"][ARGMAX]["f1"] for trial in trials], "f1"),
        "f1_argmax_folds": _paired(mine, [trial["tools"][ARGMAX_FOLDS]["f1"] for trial in trials], "f1"),
        "cost": _mean(ICELENS, "model_epochs", trials) / _mean(SELF_CONFIDENCE, "model_epochs", trials),
        "held": sum(_holds(trial) for trial in trials),
        "width": statistics.fmean(widths) if widths else None,
    }


def _together(cases: dict[str, Record], records: dict[str, list[Record]]) -> Record:
    trials = [trial for some in records.values() for trial in some]
    widths = [_width(trial) for trial in trials if trial["errors"] >= ENOUGH]
    versus = ("f1_cleanlab", "f1_argmax", "f1_argmax_folds")
    small = [name for name in cases if records[name][0]["examples"] < 10_000]
    large = [name for name in cases if name not in small]
    return {
        "cases": len(cases),
        "average_precision_at_least": sum(case["average_precision"]["mean"] >= 0 for case in cases.values()),
        "average_precision_worst": min((case["average_precision"]["mean"], name) for name, case in cases.items()),
        **{f"{key}_at_least": sum(case[key]["mean"] >= 0 for case in cases.values()) for key in versus},
        "f1_all_at_least": sum(all(case[key]["mean"] >= 0 for key in versus) for case in cases.values()),
        "f1_worst": min((case[key]["mean"], name, key) for name, case in cases.items() for key in versus),
        "cost_small": max((cases[name]["cost"] for name in small), default=None),
        "cost_large": max((cases[name]["cost"] for name in large), default=None),
        "held": sum(_holds(trial) for trial in trials),
        "trials": len(trials),
        "width_mean": statistics.fmean(widths) if widths else None,
        "width_most": max(widths, default=None),
        "width_over_half": sum(width > 0.5 for width in widths),
        "width_trials": len(widths),
    }  # fmt: skip


def print_summary(figures: Record) -> None:
    print("\nicelens minus the other in the same trial: mean over trials ± standard error")
    head = ("AP, cleanlab best", "AUROC, best", "F1, cleanlab", "F1, argmax", "F1, argmax 5-fold",
            "cost", "holds", "width")  # fmt: skip
    print(f"  {'':27}" + _cells(head, SUMMARY_WIDTHS))
    for name, case in figures["cases"].items():
        differences = [_difference(case[key]) for key in PAIRED]
        rest = (f"{case['cost']:.3f}", f"{case['held']}/{case['n']}", _number(case["width"], ".2f"))
        print(f"  {name:27}" + _cells((*differences, *rest), SUMMARY_WIDTHS))
    print(
        "  best: of cleanlab's two scores in that trial; cost: over that of five folds; holds: the 90 % interval"
    )
    print(f"  the true number; width: of the interval over the true number, where that is {ENOUGH} or more")
    if "cpu" in figures:
        _print_together(figures["cpu"])
    if "untouched" in figures:
        share = figures["untouched"]
        print(
            f"  untouched digits called issues: {share['mean']:.2%}, at most {share['most']:.2%} in a trial"
        )


def _print_together(all_cases: Record) -> None:
    n = all_cases["cases"]
    worst, where = all_cases["average_precision_worst"]
    f1, f1_where, f1_other = all_cases["f1_worst"]
    print(f"\nover the {n} noisy cases of a CPU")
    print(f"  average precision at least that of the better score of cleanlab: "
          f"{all_cases['average_precision_at_least']} of {n}; worst {worst:+.4f} ({where})")  # fmt: skip
    print(f"  F1 at least that of cleanlab's list: {all_cases['f1_cleanlab_at_least']} of {n}, "
          f"of argmax in-sample: {all_cases['f1_argmax_at_least']}, "
          f"of argmax five-fold: {all_cases['f1_argmax_folds_at_least']}, "
          f"of all three: {all_cases['f1_all_at_least']}; "
          f"worst {f1:+.4f} ({f1_where}, {F1_OTHERS[f1_other]})")  # fmt: skip
    print(f"  cost over that of five folds: {_number(all_cases['cost_small'], '.3f')} at most under 10,000 rows, "
          f"{_number(all_cases['cost_large'], '.3f')} at most above")  # fmt: skip
    print(f"  the 90 % interval holds the truth in {all_cases['held']} of {all_cases['trials']} trials "
          f"({all_cases['held'] / all_cases['trials']:.0%}); its width over the truth, where that is {ENOUGH} or "
          f"more: mean {_number(all_cases['width_mean'], '.2f')}, at most {_number(all_cases['width_most'], '.2f')}, "
          f"over 0.5 in {all_cases['width_over_half']} of {all_cases['width_trials']} trials")  # fmt: skip


PAIRED = ("average_precision", "auroc", "f1_cleanlab", "f1_argmax", "f1_argmax_folds")
SUMMARY_WIDTHS = (19, 19, 19, 19, 19, 7, 7, 7)
F1_OTHERS = {
    "f1_cleanlab": "cleanlab's list", "f1_argmax": ARGMAX, "f1_argmax_folds": ARGMAX_FOLDS,
}  # fmt: skip


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
