"""Write the parts of the docs that the code already knows: commands, settings, losses, public names.

    python docs/generate.py           # rewrite them
    python docs/generate.py --check   # leave with 1 if one of them is out of date

A generated part stands between two comments, `<!-- generated: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer

import icelens
from icelens.cli import app
from icelens.losses import LOSSES, Method
from icelens.train import SETTINGS, Recipe

DOCS = Path(__file__).parent
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


PARTS: dict[str, Callable[[], str]] = {
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
