"""Write the parts of the docs that are known already: commands, settings, losses, names, results.

    python docs/generate.py           # rewrite them
    python docs/generate.py --check   # leave with 1 if one of them is out of date

A generated part stands between two comments, `<!-- generated: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import statistics
import sys
from collections.abc import Callable, Iterator
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
from icelens.reproduce.show import confused
from icelens.reproduce.store import finished, read_trials
from icelens.reproduce.tables import markdown
from icelens.train import SETTINGS, Recipe

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results"
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
    """The first page's part of Table 1: what the paper compares ICE with, on the sets with ten trials."""
    records = read_trials(RESULTS, "table1")
    cells, data = tables.table1(records), ("mnist", "fashion-mnist")
    rows = [["", *(head for name in data for head in (f"{DATA[name]}, paper", "ours", "AUROC"))]]
    for method in ("cross_entropy", "hard_bootstrapping", "gce", "ice_linear", "ice_power"):
        row = [METHODS[method]]
        for name in data:
            found = [r["auroc"] for r in records if (r["data"], r["method"]) == (name, method)]
            cell = cells[name, method]
            row += [tables.papers(cell.paper), tables.own(cell), f"{statistics.fmean(found):.4f}"]
        rows.append(row)
    return markdown(rows).rstrip()


def trials() -> str:
    """Where and how long the trials ran."""
    rows = [["data", "trials", "hardware", "torch", "seconds of a trial, median"]]
    found = read_trials(RESULTS, "table1")
    for data in DATA:
        of = [record for record in found if record["data"] == data]
        if of:
            hardware, torch = ({r["hardware"] for r in of}, {r["versions"]["torch"] for r in of})
            seconds = statistics.median(record["seconds"] for record in of)
            rows.append(
                [
                    DATA[data],
                    str(len(of)),
                    ", ".join(sorted(hardware)),
                    ", ".join(sorted(torch)),
                    f"{seconds:.0f}",
                ]
            )
    return markdown(rows).rstrip()


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


PARTS: dict[str, Callable[[], str]] = {
    "experiments": experiments,
    "table1": table1,
    "table1_best": table1_best,
    "table1_differences": table1_differences,
    "detection": detection,
    "trials": trials,
    "summary": summary,
    "words": words,
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
    spelling = ", ".join(parameter.opts) if is_option else parameter.metavar or parameter.name.upper()
    default = "" if parameter.default in (None, False) or parameter.required else f"`{parameter.default}`"
    return f"| `{spelling}` | {parameter.help} | {default} |"


def rewritten(text: str) -> str:
    """The text with every generated part written anew."""
    return PART.sub(lambda part: f"{part[1]}\n{PARTS[part[2]]()}\n{part[3]}", text)


def main() -> None:
    """Rewrite or check every page."""
    check = "--check" in sys.argv
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
