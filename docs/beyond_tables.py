"""The tables of docs/beyond.md and docs/beyond_tried.md, from the records in results/."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from icelens.reproduce.store import read_trials
from icelens.reproduce.tables import markdown

RESULTS = Path(__file__).parent.parent / "results"
PANEL = {  # of benchmarks/robust.py
    "cifar10-0": "CIFAR-10, as published", "cifar10-20": "20 % at random", "cifar10-50": "50 %",
    "cifar10-80": "80 %", "cifar10-asymmetric-40": "like to like, 40 % of five classes",
    "cifar10-instance-40": "by instance, 40 %", "cifar10n-aggregate": "CIFAR-10N, majority",
    "cifar10n-worst": "CIFAR-10N, worst", "cifar100-50": "CIFAR-100, 50 %",
    "fashion-mnist-50": "Fashion-MNIST, 50 %", "hausa": "Hausa news", "digits-30": "digits, 30 %",
}  # fmt: skip
UNSEEN = {  # of its cases beside the panel
    "mnist-mlp-pair-40": "MNIST, pairs 40 %", "mnist-mlp-dirichlet-40": "by class, 40 %",
    "mnist-mlp-60": "at random 60 %", "high-20": "MNIST, 5 and above or not, 20 %",
    "four-nine-30": "MNIST, fours or nines, 30 %", "cifar10-mlp-30": "CIFAR-10, at random 30 %",
    "vehicles-30": "CIFAR-10, vehicles or animals, 30 %",
    "footwear-40": "Fashion-MNIST, three kinds of footwear, 40 %",
    "tops-40": "Fashion-MNIST, four kinds of tops, 40 %",
    "coats-20": "Fashion-MNIST, coats or pullovers, 20 %", "cola-20": "CoLA, grammatical or not, 20 %",
}  # fmt: skip
FEW = {  # by the first six it was chosen how hard few classes are held
    "sst2-0": "SST-2, as published", "sst2-20": "at random 20 %", "sst2-40": "40 %",
    "odd-30": "odd digits, 30 %", "shirts-0": "shirts, as published", "shirts-20": "20 %",
    "high-20": "digits from 5 on, 20 %", "four-nine-30": "fours or nines, 30 %",
    "coats-20": "coats or pullovers, 20 %", "vehicles-30": "vehicles, 30 %", "cola-20": "CoLA, 20 %",
}  # fmt: skip
RULES = {  # of when to hold, by the parts of benchmarks/parts.py
    "third visit": "holds from the third visit on", "fifth visit": "holds from the fifth visit on",
    "doubted": "waits by doubted labels", "steeper": "waits by doubted labels, steeper",
    "for good": "waits by doubted labels, for good",
}  # fmt: skip


def held() -> str:
    """Cross entropy, ELR and ICE-HELD with a network that learns Fashion-MNIST's labels by heart."""
    lines = (RESULTS / "robust_search.jsonl").read_text(encoding="utf-8").splitlines()
    runs = [run for run in map(json.loads, lines) if "mlp" in run.get("network", "")]
    noises = {
        "clean": "none", "sym05": "5 %", "pair10": "pairs 10 %", "inst10": "by instance 10 %",
        "sym20": "20 %", "pair40": "pairs 40 %", "inst40": "by instance 40 %", "sym50": "50 %",
    }  # fmt: skip
    names = {
        "m_ce": "cross entropy", "m_elr": "ELR", "held": "ICE-HELD",
        "grow8": "no growth allowed for, lets go below 10 %",
        "waiting": "waits for a share of 85 %, lets go below 5 %",
        "full": "does not wait, never lets go", "g10": "does not wait, lets go by counted flips",
    }  # fmt: skip
    table = [["", *noises.values()]]
    for name, title in names.items():
        found = [[run for run in runs if (run["noise"], run["name"]) == (noise, name)] for noise in noises]
        table.append([title, *map(_held_cell, found)])
    return markdown(table).rstrip()


def _held_cell(runs: list[dict[str, Any]]) -> str:
    """Mean accuracy (standard deviation) / mean AUROC of the method's own score."""
    if not runs:
        return "—"
    last = [run["accuracy"][-1] for run in runs]
    accuracy = f"{statistics.fmean(last):.2f}" + (f" ({statistics.stdev(last):.2f})" if len(last) > 1 else "")
    scores = [next((run[name] for name in ("C", "t_y", "p_y") if name in run), {}) for run in runs]
    aurocs = [score["auroc"] for score in scores if "auroc" in score]
    return accuracy + (f" / {statistics.fmean(aurocs):.4f}".replace("0.", ".") if aurocs else "")


def held_scores() -> str:
    """What a confidence of ICE-HELD could be read from: differences to ELR's average in the same data."""
    runs = json.loads((RESULTS / "held_scores.json").read_text(encoding="utf-8"))
    table = [["", "AUROC ahead in", "least", "mean", "F1 ahead in", "least", "mean"]]
    for score in runs[0]["scores"]:
        row = [score]
        for name in ("auroc", "f1"):
            gains = [run["scores"][score][name] - run["elr"][name] for run in runs]
            ahead = sum(gain > 0 for gain in gains)
            row += [f"{ahead} of {len(gains)}", f"{min(gains):+.4f}", f"{statistics.fmean(gains):+.4f}"]
        table.append(row)
    return markdown(table).rstrip()


def held_weights() -> str:
    """The AUROC of ICE-HELD's confidence by how much of it is C."""
    runs = json.loads((RESULTS / "held_weights.json").read_text(encoding="utf-8"))["runs"]
    names = {
        "cifar10n-aggregate": "CIFAR-10N, majority", "fashion-mnist sym05": "Fashion-MNIST, 5 %",
        "fashion-mnist pair10": "pairs 10 %", "fashion-mnist inst10": "by instance 10 %",
        "fashion-mnist sym20": "20 %", "fashion-mnist pair40": "pairs 40 %",
        "fashion-mnist inst40": "by instance 40 %", "fashion-mnist sym50": "50 %",
    }  # fmt: skip
    table = [["", *names.values()]]
    for score in runs[0]["scores"]:
        aurocs = [[run["scores"][score]["auroc"] for run in runs if run["case"] == name] for name in names]
        title = "ELR's average" if score == "elr" else f"{float(score):.0%} of C".replace("%", " %")
        table.append([title, *(f"{statistics.fmean(values):.4f}".replace("0.", ".") for values in aurocs)])
    return markdown(table).rstrip()


def held_floor() -> str:
    """AUROC / average precision of what a confidence of ICE-HELD could be, a row for each."""
    runs = json.loads((RESULTS / "held_floor.json").read_text(encoding="utf-8"))["runs"]
    table = [["", *(run["noise"] for run in runs)]]
    for score in runs[0]["scores"]:
        found = [run["scores"][score] for run in runs]
        pairs = ((own["auroc"], own["average_precision"]) for own in found)
        table.append([score, *(f"{auroc:.4f} / {ap:.3f}".replace("0.", ".") for auroc, ap in pairs)])
    return markdown(table).rstrip()


def held_parts() -> str:
    """ICE-HELD and what it is without its parts, from the records of benchmarks/parts.py."""
    cases = {
        "mnist-mlp-0": "MNIST, as published", "fashion-mlp-0": "Fashion-MNIST, as published",
        "fashion-mlp-pair-10": "pairs 10 %", "fashion-mlp-20": "at random 20 %",
        "fashion-mlp-pair-40": "pairs 40 %", "fashion-mlp-instance-40": "by instance 40 %",
        "fashion-mlp-50": "at random 50 %", "fashion-mlp-80": "80 %",
    }  # fmt: skip
    parts = _parts("parts", "ICE-HELD")
    table = [["", *cases.values()]]
    for part in ("ICE-HELD", *sorted(parts.keys() - {"ICE-HELD", *RULES.values()})):
        found = [[trial for trial in parts[part] if trial["case"] == case] for case in cases]
        if all(found):
            table.append([part, *(_panel_cell(records, ("auroc",), digits=4) for records in found)])
    return markdown(table).rstrip()


def rules() -> str:
    """Other rules of when to hold beside that of ICE-HELD, by the seeds that all of them have."""
    cases = {
        **PANEL, **UNSEEN, "sst2-20": "SST-2, at random 20 %", "sst2-40": "40 %",
        "shirts-20": "Fashion-MNIST, shirts or not, 20 %", "fashion-mlp-0": "Fashion-MNIST, as published",
        "fashion-mlp-20": "at random 20 %", "fashion-mlp-instance-40": "by instance 40 %",
        "fashion-mlp-50": "at random 50 %", "fashion-mlp-80": "80 %",
    }  # fmt: skip
    parts, panel = _parts("parts", "ICE-HELD"), read_trials(RESULTS, "robust")
    columns = {
        "ELR": [*parts["all K numbers of belief: ELR"], *(t for t in panel if t["method"] == "elr")],
        "ICE-HELD": [*parts["ICE-HELD"], *(t for t in panel if t["method"] == "ice_held")],
        **{title: parts[part] for title, part in RULES.items()},
    }
    table = [["", *columns]]
    for case, title in cases.items():
        found = [{t["seed"]: t for t in trials if t["case"] == case} for trials in columns.values()]
        seeds = set.intersection(*(set(trials) for trials in found if trials))
        if sum(map(bool, found)) > 3:
            cells = [[trials[seed] for seed in sorted(seeds) if trials] for trials in found]
            table.append(
                [title if len(seeds) > 1 else f"{title} [n = 1]", *(_means(records) for records in cells)]
            )
    return markdown(table).rstrip()


def learning() -> str:
    """How far doubted beliefs last, and how many beliefs are right, by pass, when nothing is held."""
    passes = (2, 3, 4, 6, 8, 10, 14)
    titles = {
        "mnist-mlp-pair-40": "MNIST, pairs 40 %", "mnist-mlp-60": "at random 60 %",
        "fashion-mlp-instance-40": "Fashion-MNIST, by instance 40 %", "fashion-mlp-50": "at random 50 %",
        "fashion-mlp-0": "as published", "vehicles-30": "CIFAR-10, vehicles or animals, at random 30 %",
        "sst2-20": "SST-2, at random 20 %", "cola-20": "CoLA, at random 20 %",
    }  # fmt: skip
    blocks = (RESULTS / "learning_cpu.txt").read_text(encoding="utf-8").strip().split("\n\n")
    lines = {case: rows for case, _, *rows in map(str.splitlines, blocks)}
    table = [["", *(f"pass {number}" for number in passes)]]
    for case, title in titles.items():
        rows = {int(number): shares for number, *shares in map(str.split, lines[case])}
        cells = ((float(rows[number][2]), float(rows[number][3])) for number in passes)
        table.append([title, *(f"{100 * same:.0f} / {100 * right:.0f}" for same, right in cells)])
    return markdown(table).rstrip()


def _means(trials: list[dict[str, Any]]) -> str:
    """Accuracy and AUROC."""
    if not trials:
        return "—"
    words = [f"{100 * statistics.fmean(trial['accuracy'] for trial in trials):.1f}"]
    if "auroc" in trials[0]:
        words.append(f"{statistics.fmean(trial['auroc'] for trial in trials):.3f}".replace("0.", "."))
    return " / ".join(words)


def few() -> str:
    """Two classes by how hard they are held, and other methods; last, how many of the shirts are found."""
    panel, parts = read_trials(RESULTS, "robust"), _parts("parts", "ICE-HELD")
    methods = {"cross_entropy": "cross entropy", "ice_linear": "ICE-LIN", "elr": "ELR"}
    rows = {title: [t for t in panel if t["method"] == method] for method, title in methods.items()}
    rows["ICE-LIN from C = 0.88"] = read_trials(RESULTS, "rare_start")
    rows["held by 3"] = parts["holds few classes no harder"]
    rows["held by 5.4: ICE-HELD"] = [t for t in panel if t["method"] == "ice_held"]
    rows["held by 8"] = parts["holds two classes by 8"]
    rows["held by 11"] = parts["holds two classes by 11"]
    table = [["", *FEW.values(), "shirts found"]]
    for row, trials in rows.items():
        found = {case: [trial for trial in trials if trial["case"] == case] for case in FEW}
        shirts = ", ".join(_mean_recall(found[case]) for case in ("shirts-0", "shirts-20"))
        table.append([row, *(_panel_cell(records) for records in found.values()), shirts])
    return markdown(table).rstrip()


def few_sgd() -> str:
    """Two classes by how hard they are held with SGD at a learning rate of 0.1: accuracy of each seed."""
    cases = {key: FEW[key] for key in ("coats-20", "four-nine-30")} | {"sst2-20": "SST-2, at random 20 %"}
    rows = {
        "ELR": "all K numbers of belief: ELR", "held by 3": "holds few classes no harder",
        "held by 5.4: ICE-HELD": "ICE-HELD", "held by 8": "holds two classes by 8",
        "held by 11": "holds two classes by 11",
    }  # fmt: skip
    parts = _parts("parts_sgd", "ICE-HELD")
    table = [["", *cases.values()]]
    for row, part in rows.items():
        found = [[trial for trial in parts[part] if trial["case"] == case] for case in cases]
        table.append([row, *(", ".join(f"{100 * t['accuracy']:.1f}" for t in trials) for trials in found)])
    return markdown(table).rstrip()


def _mean_recall(trials: list[dict[str, Any]]) -> str:
    """Of the last class, in %."""
    return f"{100 * statistics.fmean(trial['recall'][-1] for trial in trials):.0f} %"


def plus_parts() -> str:
    """ICE+ with a short second stage, and what it is without its parts, the best first."""
    table = [["", "accuracy / AUROC / F1", "beliefs that are right"]]
    for part, trials in _parts("parts_short", "ICE+").items():
        right = statistics.fmean(trial["course"][-1]["right"] for trial in trials)
        table.append([part, _panel_cell(trials), f"{100 * right:.1f} %"])
    return markdown(table).rstrip()


def _parts(folder: str, whole: str) -> dict[str, list[dict[str, Any]]]:
    """Trials of benchmarks/parts.py by what they are without; the whole first, then by accuracy."""
    found: dict[str, list[dict[str, Any]]] = {}
    for of_part in sorted((RESULTS / folder).iterdir()):
        for trial in read_trials(of_part, ""):
            found.setdefault(trial["part"], []).append(trial)
    best = {part: statistics.fmean(trial["accuracy"] for trial in trials) for part, trials in found.items()}
    return {part: found[part] for part in sorted(found, key=lambda part: (part != whole, -best[part]))}


def panel() -> str:
    """The panel of benchmarks/robust.py, a row for each case."""
    return _by_method(PANEL)


def unseen() -> str:
    """The cases beside the panel that nothing was chosen by."""
    return _by_method(UNSEEN)


def _by_method(cases: dict[str, str]) -> str:
    """Cases with a column for each method that is measured on one of them."""
    methods = {
        "cross_entropy": "cross entropy", "gce": "GCE", "elr": "ELR", "sop": "SOP", "ice_linear": "ICE-LIN",
        "ice_power": "ICE-POW", "ice_held": "ICE-HELD", "ice_plus": "ICE+",
    }  # fmt: skip
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for record in read_trials(RESULTS, "robust"):
        if record["case"] in cases:
            found.setdefault((record["case"], record["method"]), []).append(record)
    measured = [method for method in methods if any(method == name for _, name in found)]
    table = [["", *(methods[method] for method in measured)]]
    for case, title in cases.items():
        table.append([title, *(_panel_cell(found.get((case, method), [])) for method in measured)])
    return markdown(table).rstrip()


def beyond() -> str:
    """The panel's CIFAR in short: accuracy and AUROC of four methods."""
    methods = {"cross_entropy": "cross entropy", "elr": "ELR", "ice_held": "ICE-HELD", "ice_plus": "ICE+"}
    trials = read_trials(RESULTS, "robust")
    table = [["", *methods.values()]]
    for case, title in PANEL.items():
        if case.startswith("cifar"):
            of_case = [trial for trial in trials if trial["case"] == case]
            found = ([trial for trial in of_case if trial["method"] == method] for method in methods)
            table.append([title, *(_panel_cell(records, ("auroc",)) for records in found)])
    return markdown(table).rstrip()


def waiting() -> str:
    """Accuracies on the panel with and without waiting, a row for each case that has both."""
    without, whole = (
        [trial for trial in read_trials(RESULTS, folder) if trial["method"] == "ice_held"]
        for folder in ("robust_unwaiting", "robust")
    )
    table = [["", "from the first visit on", "waits: ICE-HELD"]]
    for case, title in PANEL.items():
        found = [[trial for trial in trials if trial["case"] == case] for trials in (without, whole)]
        if all(found):
            table.append([title, *(_panel_cell(records, ()) for records in found)])
    return markdown(table).rstrip()


def _panel_cell(
    records: list[dict[str, Any]], scores: tuple[str, ...] = ("auroc", "f1"), *, digits: int = 3
) -> str:
    """Mean accuracy (standard deviation), the scores, and of how many seeds if not of three."""
    if not records:
        return "—"
    last = [100 * record["accuracy"] for record in records]
    words = [f"{statistics.fmean(last):.2f}" + (f" ({statistics.stdev(last):.2f})" if len(last) > 1 else "")]
    for name in scores:
        values = [record[name] for record in records if name in record]
        words += [f"{statistics.fmean(values):.{digits}f}".replace("0.", ".")] if values else []
    return " / ".join(words) + ("" if len(records) == 3 else f" [n = {len(records)}]")


def held_audits() -> str:
    """Audits of small networks as they are and by ICE-HELD: average precision / F1."""
    cases: dict[str, list[dict[str, Any]]] = {}
    for record in read_trials(RESULTS, "detect_held"):
        cases.setdefault(record["case"], []).append(record)
    forms = ("as it is", "held, checked", "held alone", "both, checked")
    table = [["", "wrong labels", *forms]]
    for case, records in sorted(cases.items()):
        if wrong := statistics.fmean(record["errors"] for record in records):
            table.append([case, f"{wrong:,.0f}", *(_form_cell(records, form) for form in forms)])
    return markdown(table).rstrip()


def _form_cell(records: list[dict[str, Any]], form: str) -> str:
    values = [[record["forms"][form][key] for record in records] for key in ("average_precision", "f1")]
    return " / ".join(f"{statistics.fmean(column):.3f}".replace("0.", ".") for column in values)


BEYOND: dict[str, Callable[[], str]] = {
    make.__name__: make
    for make in (
        held, held_audits, held_floor, held_parts, held_scores, held_weights, beyond, panel, unseen, rules,
        learning, few, few_sgd, plus_parts, waiting,
    )
}  # fmt: skip
