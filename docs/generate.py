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
from beyond_tables import BEYOND

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
    trials = _audits("detect")
    head = ["case", "n", "wrong labels", "average precision: icelens", "cleanlab", "difference",
            "F1: icelens", "cleanlab", "argmax, 5 folds", "estimate", "interval holds", "cost"]  # fmt: skip
    noisy = {name: of for name, of in trials.items() if of[0]["errors"]}
    return markdown([head, *(_detect_row(name, of) for name, of in noisy.items())]).rstrip()


def rivals() -> str:
    """The same in short, for the first page: icelens beside cleanlab, in words."""
    trials = _audits("detect") | _audits("detect_h200")
    head = ["", "wrong labels", "average precision: icelens", "cleanlab", "F1: icelens", "cleanlab", "cost"]
    rows = [[title, *_rival_cells(trials[name])] for name, title in AUDITED.items()]
    return markdown([head, *rows]).rstrip()


def _rival_cells(trials: list[dict[str, Any]]) -> list[str]:
    _, _, errors, precision, other, _, f1, other_f1, *_, cost = _detect_row("", trials)
    return [errors, precision, other, f1, other_f1, cost]


AUDITED = {
    "digits-symmetric-10": "digits, 10 % at random",
    "digits-symmetric-30": "digits, 30 %",
    "digits-pair-20": "digits, 20 % to the next digit",
    "breast-cancer-symmetric-10": "breast cancer, 569 rows, 10 %",
    "wine-symmetric-10": "wine, 178 rows, 10 %",
    "fashion-symmetric-20": "Fashion-MNIST, 20,000 rows of 64 numbers, 20 %",
    "fashion-pair-20": "Fashion-MNIST, 20 % to the next class",
    "fashion-instance-30": "Fashion-MNIST, 30 % by the looks of the image",
    "sst2-symmetric-10": "film reviews (SST-2), 10 %",
    "cola-symmetric-10": "grammatical or not (CoLA), 10 %",
    "hausa": "Hausa news, labelled by rules",
    "cifar10n-aggregate": "CIFAR-10N, 50,000 images, majority of three people's labels",
    "cifar10n-worst": "the worst of the three labels",
}


def _audits(folder: str) -> dict[str, list[dict[str, Any]]]:
    """What benchmarks/detect.py recorded in a folder, by case."""
    return {case: trials for (case,), trials in _trials(folder, "case").items()}


def _trials(folder: str, *keys: str) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    """The records of a folder by what they hold under these keys."""
    trials: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for path in sorted((RESULTS / folder).glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        trials.setdefault(tuple(record[key] for key in keys), []).append(record)
    return trials


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


def published_tables() -> str:
    """What benchmarks/published_tables.py found: a row for each table, means over its trials."""
    trials = _trials("published_tables", "table")
    tools = list(next(iter(trials.values()))[0]["tools"])
    head = ["table", "rows", "columns", "classes", *tools]
    rows = []
    for (name,), of in sorted(trials.items(), key=lambda item: item[0][0].lower()):
        sizes = [f"{of[0][key]:,}" for key in ("examples", "columns", "classes")]
        rows.append([name, *sizes, *(_pair(of, tool, "average_precision", "f1") for tool in tools)])
    return markdown([head, *rows]).rstrip()


def rare() -> str:
    """What benchmarks/rare.py found: a row for each share of the rare class and of flips."""
    trials = _trials("rare", "kind", "share", "rate")
    head = ["data", "rare", "flips", "wrong of the rare labels", "icelens", "its first try alone", "cleanlab",
            "estimate", "interval holds"]  # fmt: skip
    rows = []
    for (kind, share, rate), of in sorted(trials.items(), key=lambda item: (item[0][0] != "fours", item[0])):
        for trial in of:
            scores = [trial["tools"][f"cleanlab {score}"] for score in SCORES]
            trial["tools"]["cleanlab"] = max(scores, key=lambda one: one["average_precision"])
        mine = [trial["tools"]["icelens"] for trial in of]
        held = sum(o["low"] <= t["errors"] <= o["high"] for o, t in zip(mine, of, strict=True))
        wrong = statistics.mean(trial["errors_named"] / trial["named"] for trial in of)
        errors = f"{statistics.mean(own['estimate'] for own in mine):,.0f} of {of[0]['errors']}"
        tools = ("icelens", "icelens, first try", "cleanlab")
        rows.append([
            kind, f"{share:.0%}", f"{rate:.0%}", f"{wrong:.0%}",
            *(_pair(of, tool, "average_precision", "of_the_rare") for tool in tools),
            errors, f"{held} of {len(of)}",
        ])  # fmt: skip
    return markdown([head, *rows]).rstrip()


def _pair(trials: list[dict[str, Any]], tool: str, *keys: str) -> str:
    return " / ".join(f"{statistics.mean(trial['tools'][tool][key] for trial in trials):.3f}" for key in keys)


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
    **BEYOND,
    "text_flips": text_flips,
    "speed": speed,
    "detect": detect,
    "rivals": rivals,
    "published_tables": published_tables,
    "rare": rare,
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
