"""Write the parts of the docs that are known already: commands, settings, losses, names, results.

    python docs/generate.py                # rewrite them
    python docs/generate.py --check        # leave with 1 if one of them is out of date
    python docs/generate.py --texts data   # rewrite them with the texts of the data sets in that folder

A generated part stands between two comments, `<!-- generated: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import inspect
import json
import re
import statistics
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import typer

import icelens
from icelens.cli import app
from icelens.losses import LOSSES, Method
from icelens.reproduce import tables
from icelens.reproduce.experiment import names as experiment_names
from icelens.reproduce.experiment import read_experiment
from icelens.reproduce.paper import DATA, METHODS
from icelens.reproduce.paper_text import TITLES
from icelens.reproduce.show import confused
from icelens.reproduce.store import finished, read_trials, trial_path
from icelens.reproduce.tables import markdown
from icelens.reproduce.text_choice import choices, choices_markdown
from icelens.reproduce.text_listed import listed_markdown, medians_markdown
from icelens.reproduce.text_rows import lowest, read_suspects, suspects_markdown, write_suspects
from icelens.reproduce.text_tables import summary as table2_cells
from icelens.reproduce.text_tables import summary_rows, verdict
from icelens.train import SETTINGS, Recipe

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results"
EXAMPLES = DOCS.parent / "examples"
TASKS = ("cola", "sst2", "mrpc", "rte", "wnli")  # of GLUE, those that have been trained on
TEXTS_OF = "ice_power"  # the paper's form on text
PANEL = {  # of benchmarks/robust.py
    "cifar10-0": "CIFAR-10, as published", "cifar10-20": "20 % at random", "cifar10-50": "50 %",
    "cifar10-80": "80 %", "cifar10-asymmetric-40": "like to like, 40 % of five classes",
    "cifar10-instance-40": "by instance, 40 %", "cifar10n-aggregate": "CIFAR-10N, majority",
    "cifar10n-worst": "CIFAR-10N, worst", "cifar100-50": "CIFAR-100, 50 %",
    "fashion-mnist-50": "Fashion-MNIST, 50 %", "hausa": "Hausa news", "digits-30": "digits, 30 %",
}  # fmt: skip
UNSEEN = {  # of its cases beside the panel
    "mnist-mlp-pair-40": "MNIST, pairs 40 %", "mnist-mlp-dirichlet-40": "by class, 40 %",
    "mnist-mlp-60": "at random 60 %", "cifar10-mlp-30": "CIFAR-10, at random 30 %",
    "vehicles-30": "vehicles or animals, at random 30 %", "high-20": "MNIST, 5 and above or not, 20 %",
    "footwear-40": "Fashion-MNIST, three kinds of footwear, at random 40 %",
    "cola-20": "CoLA, grammatical or not, at random 20 %",
}  # fmt: skip
FEW = {  # by these it was chosen how hard few classes are held
    "sst2-0": "SST-2, as published", "sst2-20": "at random 20 %", "sst2-40": "40 %",
    "odd-30": "odd digits, 30 %", "shirts-0": "shirts, as published", "shirts-20": "20 %",
}  # fmt: skip
RULES = {  # of when to hold, by the parts of benchmarks/parts.py
    "third visit": "holds from the third visit on", "fifth visit": "holds from the fifth visit on",
    "doubted": "waits by doubted labels", "steeper": "waits by doubted labels, steeper",
    "for good": "waits by doubted labels, for good",
}  # fmt: skip
PART = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def commands() -> str:
    """Every command with its help, arguments and options."""
    return "\n".join(_command(*item) for item in _walk("icelens", typer.main.get_command(app)))


def settings() -> str:
    """Every setting of a recipe with its default."""
    defaults = {field.name: getattr(Recipe(), field.name) for field in dataclasses.fields(Recipe)}
    rows = [f"| `{name}` | `{defaults[name]!r}` | {meaning} |" for name, meaning in SETTINGS.items()]
    return "\n".join(["| setting | default | meaning |", "|---|---|---|", *rows])


def names() -> str:
    """Every public name with the first line of what it says of itself."""
    rows = [
        f"| `icelens.{name}` | {_first_line(name)} |" for name in icelens.__all__ if name != "__version__"
    ]
    return "\n".join(["| name | what it is |", "|---|---|", *rows])


def losses() -> str:
    """The contents table of the losses, one row per method."""
    head = ("name", "method", "loss of one example", "paper", "state per example", "outputs", "settings")
    rows = [head, ("---",) * len(head), *(_loss(name, method) for name, method in LOSSES.items())]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def experiments() -> str:
    """The experiments of the paper, and how many of their trials lie in the results."""
    rows = [["experiment", "what", "trials finished"]]
    for name in experiment_names():
        experiment = read_experiment(name)
        wanted = experiment.trials * len(experiment.methods)
        rows.append([f"`{name}`", experiment.title, f"{finished(experiment, RESULTS)} of {wanted}"])
    return markdown(rows).rstrip()


def table1() -> str:
    """Table 1, accuracy of the last iteration."""
    return tables.table1_markdown(tables.table1(read_trials(RESULTS, "table1")), list(DATA)).rstrip()


def table1_best() -> str:
    """Table 1 at the best accuracy on the noisy validation set; the paper has no such cells."""
    cells = tables.table1(read_trials(RESULTS, "table1"), "best")
    measured = [data for data in DATA if any(data == found for found, _ in cells)]
    return markdown(tables.table1_rows(cells, measured, paper=False)).rstrip()


def table1_differences() -> str:
    """Ours less the paper's, cell by cell."""
    return tables.differences_markdown(tables.table1(read_trials(RESULTS, "table1"))).rstrip()


def detection() -> str:
    """How well flipped labels are told from original ones."""
    return tables.detection_markdown(read_trials(RESULTS, "table1")).rstrip()


def summary() -> str:
    """The first page's part of Table 1: what ICE is compared with, and how well labels are told."""
    records = read_trials(RESULTS, "table1")
    data = ("mnist", "fashion-mnist", "cifar10", "cifar100")
    shown = ("cross_entropy", "hard_bootstrapping", "gce", "ice_linear", "ice_power")
    cells = {key: cell for key, cell in tables.table1(records).items() if key[1] in shown}
    head, *body = tables.table1_rows(cells, data)
    rows = [[head[0], *(text for name in head[1:] for text in (name, "AUROC"))]]
    names = {METHODS[method]: method for method in shown}
    for title, *row in body:
        if title in names:
            aurocs = [_auroc(records, name, names[title]) for name in data]
            rows.append([title, *(text for pair in zip(row, aurocs, strict=True) for text in pair)])
    return markdown(rows).rstrip()


def _auroc(records: list[dict[str, Any]], data: str, method: str) -> str:
    found = [r["auroc"] for r in records if (r["data"], r["method"]) == (data, method)]
    return f"{statistics.fmean(found):.4f}"


def trials() -> str:
    """Where and how long the trials of Table 1 ran."""
    rows = [["data", "trials", "hardware", "torch", "seconds of a trial, median"]]
    found = read_trials(RESULTS, "table1")
    for data in DATA:
        of = [record for record in found if record["data"] == data]
        if of:
            rows.append([DATA[data], *_where(of, "torch")])
    return markdown(rows).rstrip()


def _where(records: list[dict[str, Any]], *packages: str) -> list[str]:
    """How many records, on which hardware, with which versions, and their median time."""
    hardware = sorted({record["hardware"] for record in records})
    versions = [sorted({record["versions"][name] for record in records}) for name in packages]
    seconds = statistics.median(record["seconds"] for record in records)
    return [str(len(records)), *(", ".join(found) for found in (hardware, *versions)), f"{seconds:.0f}"]


def table2() -> str:
    """Table 2 and whether ICE falls behind cross entropy in it."""
    cells = table2_cells(read_trials(RESULTS, "table2"))
    return f"{markdown(summary_rows(cells))}\n{verdict(cells)}"


def table2_trials() -> str:
    """Where and how long the trials of Table 2 ran, and with which encoder."""
    rows = [["task", "encoder", "trials", "hardware", "torch", "transformers", "seconds of a trial, median"]]
    found = read_trials(RESULTS, "table2")
    for data in TASKS:
        of = [record for record in found if record["data"] == data]
        encoders = ", ".join(sorted({record["encoder"] for record in of}))
        rows.append([TITLES[data], encoders, *_where(of, "torch", "transformers")])
    return markdown(rows).rstrip()


def table2_choice() -> str:
    """The settings of the confidences that were compared on held-out training rows."""
    return choices_markdown(choices(read_trials(RESULTS, "table2_choice"))).rstrip()


def lowest_texts(data: str) -> str:
    """The least trusted texts of a task."""
    return suspects_markdown(read_suspects(_texts_path(data), _rows_path(data))).rstrip()


def take_texts(root: Path) -> None:
    """Keep the least trusted texts among the results: the data sets are not part of the repository."""
    for data in TASKS:
        write_suspects(_texts_path(data), lowest(data, _rows_path(data), root))


def _rows_path(data: str) -> Path:
    return trial_path(RESULTS, "table2", data, TEXTS_OF, 0).with_suffix(".npz")


def _texts_path(data: str) -> Path:
    return RESULTS / "table2_lowest" / f"{data}-{TEXTS_OF}.json"


def speed() -> str:
    """What benchmarks/trials.py printed."""
    return f"```text\n{(RESULTS / 'trials_h200.txt').read_text(encoding='utf-8').rstrip()}\n```"


def detect() -> str:
    """What benchmarks/detect.py found: a row for each case, means over its trials."""
    trials: dict[str, list[dict[str, Any]]] = {}
    for path in sorted((RESULTS / "detect").glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        trials.setdefault(record["case"], []).append(record)
    head = ["case", "n", "wrong labels", "average precision: icelens", "cleanlab", "difference",
            "F1: icelens", "cleanlab", "argmax, 5 folds", "estimate", "interval holds", "cost"]  # fmt: skip
    noisy = {name: of for name, of in trials.items() if of[0]["errors"]}
    return markdown([head, *(_detect_row(name, of) for name, of in noisy.items())]).rstrip()


def _detect_row(name: str, trials: list[dict[str, Any]]) -> list[str]:
    tools = [trial["tools"] for trial in trials]
    mine = [tool["icelens"] for tool in tools]
    best = [max(tool[f"cleanlab {score}"]["average_precision"] for score in SCORES) for tool in tools]
    gains = [own["average_precision"] - other for own, other in zip(mine, best, strict=True)]
    error = f" ± {statistics.stdev(gains) / len(gains) ** 0.5:.3f}" if len(gains) > 1 else ""
    held = sum(o["low"] <= t["errors"] <= o["high"] for o, t in zip(mine, trials, strict=True))
    other = {name: statistics.mean(tool[name]["f1"] for tool in tools) for name in LISTS}
    cost = sum(own["model_epochs"] for own in mine) / sum(tool[LISTS[0]]["model_epochs"] for tool in tools)
    return [
        name, str(len(trials)), f"{statistics.mean(t['errors'] for t in trials):,.0f}",
        f"{statistics.mean(own['average_precision'] for own in mine):.3f}", f"{statistics.mean(best):.3f}",
        f"{statistics.mean(gains):+.3f}{error}", f"{statistics.mean(own['f1'] for own in mine):.3f}",
        *(f"{value:.3f}" for value in other.values()),
        f"{statistics.mean(own['estimate'] for own in mine):,.0f}", f"{held} of {len(trials)}", f"{cost:.2f}",
    ]  # fmt: skip


SCORES = ("self-confidence", "normalized margin")
LISTS = ("cleanlab self-confidence", "argmax five-fold")


def words() -> str:
    """The lowest mean confidences by class, and the pairs that the least confident are confused as."""
    rows = [
        [
            "data",
            "method",
            "classes by mean confidence, lowest first",
            "most confused among the 500 least confident",
        ]
    ]
    for record in read_trials(RESULTS, "original"):
        by_class = sorted(record["confidence_by_class"], key=record["confidence_by_class"].get)
        pairs = [f"{pair} ({count})" for pair, count in confused(record)[:5]]
        rows.append(
            [DATA[record["data"]], METHODS[record["method"]], ", ".join(by_class[:5]), ", ".join(pairs)]
        )
    return markdown(rows).rstrip()


def text_flips() -> str:
    """Fine-tuning on flipped labels: accuracy, and how well these are found."""
    trials = read_trials(RESULTS, "text_flips")
    rates = sorted({trial["rate"] for trial in trials})
    measured = {trial["method"] for trial in trials}
    heads = [(f"{rate:.0%}: accuracy", f"{rate:.0%}: AP")[: 2 if rate else 1] for rate in rates]
    rows = [["", *(head for pair in heads for head in pair)]]
    for method in (name for name in LOSSES if name in measured):
        cells = []
        for rate in rates:
            found = [trial for trial in trials if (trial["method"], trial["rate"]) == (method, rate)]
            cells.append(_spread([100 * trial["accuracy"] for trial in found], 2))
            if rate:
                cells.append(_spread([trial["average_precision"] for trial in found], 3))
        rows.append([LOSSES[method].title, *cells])
    return markdown(rows).rstrip()


def _spread(values: list[float], digits: int) -> str:
    return f"{statistics.fmean(values):.{digits}f} ({statistics.stdev(values):.{digits}f})"


def combine() -> str:
    """ICE and cross entropy with other training methods."""
    return markdown(tables.methods_rows(read_trials(RESULTS, "combine"))).rstrip()


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
    table = [["", *FEW.values(), "shirts found"]]
    for row, trials in rows.items():
        found = {case: [trial for trial in trials if trial["case"] == case] for case in FEW}
        shirts = ", ".join(_mean_recall(found[case]) for case in ("shirts-0", "shirts-20"))
        table.append([row, *(_panel_cell(records) for records in found.values()), shirts])
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
    """The panel of benchmarks/robust.py as far as it is measured, a row for each case."""
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


def example(name: str) -> str:
    """What an example adds to its plain version, as a diff of all that follows the docstrings."""
    plain, ours = (_code(folder / f"{name}.py") for folder in (EXAMPLES / "plain", EXAMPLES))
    _, _, *lines = difflib.unified_diff(plain, ours, n=2, lineterm="")
    shown = ["  …" if line.startswith("@@") else f"{line[0]} {line[1:]}".rstrip() for line in lines]
    added = sum(line.startswith("+") for line in shown)
    links = f"[examples/{name}.py](../examples/{name}.py) beside [plain](../examples/plain/{name}.py)"
    return "\n".join([f"{links}, {added} lines more or other:", "```diff", *shown[1:], "```"])


def _code(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split('"""\n\n', 1)[1].splitlines()


PARTS: dict[str, Callable[[], str]] = {
    **{f"diff_{path.stem}": partial(example, path.stem) for path in sorted(EXAMPLES.glob("*.py"))},
    "experiments": experiments,
    "table1": table1,
    "table1_best": table1_best,
    "table1_differences": table1_differences,
    "detection": detection,
    "trials": trials,
    "summary": summary,
    "words": words,
    "combine": combine,
    "held": held,
    "held_floor": held_floor,
    "held_parts": held_parts,
    "held_scores": held_scores,
    "held_weights": held_weights,
    "beyond": beyond,
    "panel": panel,
    "unseen": unseen,
    "rules": rules,
    "learning": learning,
    "few": few,
    "plus_parts": plus_parts,
    "waiting": waiting,
    "text_flips": text_flips,
    "speed": speed,
    "detect": detect,
    "table2": table2,
    "table2_trials": table2_trials,
    "table2_choice": table2_choice,
    "listed_medians": lambda: medians_markdown(TASKS, RESULTS).rstrip(),
    "listed": lambda: listed_markdown(TASKS, RESULTS).rstrip(),
    **{f"lowest_{data}": partial(lowest_texts, data) for data in TASKS},
    "commands": commands,
    "settings": settings,
    "names": names,
    "losses": losses,
}

_REGISTRIES = {
    "LOSSES": "The methods by name; see [losses](losses.md).",
    "MODELS": "The networks by name: `make(shape, outputs, **settings)`.",
    "NOISES": "The noises by name: `noise(labels, classes, rate, seed=, features=)`.",
}


def _first_line(name: str) -> str:
    if name in _REGISTRIES:
        return _REGISTRIES[name]
    documentation = inspect.getdoc(getattr(icelens, name)) or ""
    return documentation.splitlines()[0].replace("|", "\\|")


def _loss(name: str, method: Method) -> tuple[str, ...]:
    settings = ", ".join(f"`{key}={value:g}`" for key, value in method.settings.items())
    return (f"`{name}`", method.title, method.formula, method.paper, method.state, _outputs(method), settings)


def _outputs(method: Method) -> str:
    """How many outputs the network needs for K classes, as a formula that fits two values of K."""
    formulas = {"K": (2, 10), "K + 1": (3, 11), "K + K·K": (6, 110)}
    needed = method.outputs(2), method.outputs(10)
    return next((text for text, fits in formulas.items() if fits == needed), f"{needed[1]} for 10 classes")


def _walk(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from _walk(f"{path} {name}", inner)


def _command(path: str, command: Any) -> str:
    lines = [f"## `{path}`", "", inspect.cleandoc(command.help or ""), ""]
    rows = [_parameter(parameter) for parameter in command.params if getattr(parameter, "help", None)]
    if rows:
        lines += ["| argument or option | meaning | default |", "|---|---|---|", *rows, ""]
    return "\n".join(lines)


def _parameter(parameter: Any) -> str:
    is_option = parameter.param_type_name == "option"
    spellings = [*parameter.opts, *parameter.secondary_opts]
    spelling = ", ".join(spellings) if is_option else parameter.metavar or parameter.name.upper()
    none = parameter.required or parameter.default in (None, "") or parameter.default is False
    default = "" if none else f"`{parameter.default}`"
    return f"| `{spelling}` | {parameter.help} | {default} |"


def rewritten(text: str) -> str:
    """The text with every generated part written anew."""
    return PART.sub(lambda part: f"{part[1]}\n{PARTS[part[2]]()}\n{part[3]}", text)


def main() -> None:
    """Rewrite or check every page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="rewrite nothing")
    parser.add_argument("--texts", type=Path, metavar="FOLDER", help="the folder that holds glue")
    arguments = parser.parse_args()
    check = arguments.check
    if arguments.texts:
        take_texts(arguments.texts)
    stale = []
    for page in sorted([*DOCS.glob("*.md"), DOCS.parent / "README.md"]):
        text = page.read_text(encoding="utf-8")
        if rewritten(text) != text:
            stale.append(page)
            if not check:
                page.write_text(rewritten(text), encoding="utf-8")
    for page in stale:
        print(f"{page.name}: {'out of date; run python docs/generate.py' if check else 'rewritten'}")
    sys.exit(1 if stale and check else 0)


if __name__ == "__main__":
    main()
