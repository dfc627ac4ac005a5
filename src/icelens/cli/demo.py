"""`icelens demo`: the first run of a newcomer."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from icelens.cli.interrupted import from_its_checkpoint

if TYPE_CHECKING:
    from icelens.demo import Outcome


def demo(
    seeds: Annotated[
        int, typer.Option(min=1, help="How many seeds to run; several give a standard error.")
    ] = 1,
    out: Annotated[Path, typer.Option(help="Folder for the runs and the pictures.")] = Path("icelens-demo"),
) -> None:
    """Flip 30 % of the labels of real handwritten digits and find them again; offline, under a minute."""
    with from_its_checkpoint(out, runs="seed-*/*"):
        from icelens.demo import FIRST_SEED, run_demo

        outcomes = run_demo(out, range(FIRST_SEED, FIRST_SEED + seeds))
    _print(outcomes, out)


def _print(outcomes: list[Outcome], out: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from icelens.demo import run_folder

    console, ice = Console(highlight=False), run_folder(out, outcomes[0].seed, "ICE")
    table = Table("trained with", "test accuracy", "flipped labels found", box=None, pad_edge=False)
    for name in outcomes[0].accuracy:
        table.add_row(name, _accuracy(outcomes, name), _found(outcomes) if name == "ICE" else "")
    flipped = sum(o.flipped for o in outcomes) / len(outcomes)
    console.print(f"1,348 handwritten digits, {flipped:.0f} of their labels flipped; tested on 449 others.\n")
    console.print(table)
    console.print(_difference(outcomes), soft_wrap=True)
    console.print("Found: among as many of its lowest confidences as labels were flipped.")
    console.print(
        f"\nLook at    {out / 'least_trusted.png'}   the least trusted digits: index, given label → guess\n"
        f"           {out / 'confidence.png'}      how the confidences part during training\n"
        f"           {ice}/examples.parquet   each example's confidence and guess\n"
        "Next       put icelens.ICELoss into your own training loop: see the README\n"
        "           icelens audit --help        find the labels of your own data that are wrong\n"
        "           icelens train --help        train by a recipe, on your choice of data, noise and method\n"
        "           icelens data ls             the data sets that icelens knows",
        soft_wrap=True,
    )


def _accuracy(outcomes: list[Outcome], name: str) -> str:
    return f"{sum(o.accuracy[name] for o in outcomes) / len(outcomes):.1%}"


def _found(outcomes: list[Outcome]) -> str:
    found, flipped = sum(o.found for o in outcomes), sum(o.flipped for o in outcomes)
    return f"{found} of {flipped} ({found / flipped:.1%})"


def _difference(outcomes: list[Outcome]) -> str:
    from icelens.demo import paired_difference

    mean, error = paired_difference(outcomes)
    gain = f"ICE is {100 * mean:+.2f} points from cross entropy stopped in time"
    if math.isnan(error):
        return f"{gain} (one seed; --seeds 5 gives the standard error)."
    return f"{gain}, ± {100 * error:.2f} standard error, n = {len(outcomes)}."
