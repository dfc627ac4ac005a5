"""`icelens train`: one run by a recipe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from icelens.cli import launch
from icelens.cli.interrupted import from_its_checkpoint
from icelens.counts import counted

if TYPE_CHECKING:
    from icelens.train import Recipe, Run


def train(
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RECIPE.toml] [KEY=VALUE]...",
            help="A recipe file, if any, then settings that replace its own.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the run; a run that lies there goes on.")] = Path(
        "run"
    ),
    show: Annotated[
        bool,
        typer.Option(
            "--show", help="Print the settings as a recipe file that says what they mean, and leave."
        ),
    ] = False,
) -> None:
    """Train a classifier by a recipe and write a run folder: metrics, weights, a table of all examples.

    For example: icelens train noise_rate=0.3 loss=gce epochs=10 --out runs/gce
    """
    from icelens.train import read_recipe

    with from_its_checkpoint(out), launch.all_processes():
        words = list(settings or [])
        path = words.pop(0) if words and "=" not in words[0] else None
        recipe = read_recipe(path, words)
        if not show:
            from icelens.train import run_recipe  # after the settings were checked: it loads torch

            run = run_recipe(recipe, out)
    if not launch.speaks():
        return
    if show:
        _show(recipe)
    else:
        _tell(recipe, run)


def _tell(recipe: Recipe, run: Run) -> None:
    """Print what the run came to."""
    last = run.metrics()[-1]
    valid = f", validation {last['valid_accuracy']:.2%}" if "valid_accuracy" in last else ""
    typer.echo(f"{recipe.loss} on {recipe.data}: test accuracy {last['test_accuracy']:.2%}{valid}")
    done = counted(last["iteration"], "iteration")
    typer.echo(f"{done} in {last['seconds']:.1f} s; the run is in {run.folder}")
    table = run.examples()
    if "confidence" not in table:
        return
    typer.echo(f"{run.folder / 'examples.parquet'} holds the confidence of each example; low = suspicious")
    if "moved" in table:
        moved = table.loc[~table["held_out"], ["confidence", "moved"]]
        flipped = int(moved["moved"].sum())
        found = int(moved.nsmallest(flipped, "confidence")["moved"].sum())
        typer.echo(f"{found} of {flipped} flipped labels are among as many lowest confidences")


def _show(recipe: object) -> None:
    """Print the recipe as a TOML file that says what each setting means."""
    from icelens.train import SETTINGS

    for name, meaning in SETTINGS.items():
        typer.echo(f"# {meaning}\n{name} = {_toml(getattr(recipe, name))}")


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + " }"
    # For the other types that a setting may have, JSON is TOML.
    return json.dumps(list(value) if isinstance(value, tuple) else value)
