"""`icelens dynamics`: what a flight recorder wrote, as a table and pictures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from icelens.dynamics.read import Dynamics


def dynamics(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="Folder of an icelens.FlightRecorder.", show_default=False),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the table and the pictures; NAME-dynamics where left out.", show_default=False
        ),
    ] = None,
    until: Annotated[
        int | None,
        typer.Option(
            help="Leave out epochs from this one on; AUM tells most before wrong labels are learned.",
            show_default=False,
        ),
    ] = None,
    first: Annotated[int, typer.Option(min=0, help="How many of the most suspicious to print.")] = 20,
) -> None:
    """Rank examples by what training did to them: AUM, data map, forgetting, and C's ridgeline.

    For example: icelens dynamics flight
    """
    from icelens.dynamics.pictures import draw
    from icelens.dynamics.read import read_dynamics

    out = out or Path(f"{folder.resolve().name}-dynamics")
    _check_apart(folder, out)
    found = read_dynamics(folder, until=until)
    found.to_parquet(out / "dynamics.parquet")
    pictures = draw(found, out)
    _warn(found)
    typer.echo(_headline(found, folder))
    if first:
        typer.echo("The lowest AUM first; low = suspicious.\n")
        _print(found, first)
    typer.echo(f"\nLook at {', '.join(map(str, pictures))}; all examples are in {out / 'dynamics.parquet'}.")


def _check_apart(folder: Path, out: Path) -> None:
    from icelens.errors import InputError

    if folder.resolve() in (out.resolve(), *out.resolve().parents):
        raise InputError(f"--out {out} is in the folder of the recording itself; give another one")


def _warn(found: Dynamics) -> None:
    from icelens.counts import counted, one_or_more

    if found.relabelled:
        examples, were = counted(found.relabelled, "example"), one_or_more(found.relabelled, "was", "were")
        typer.echo(
            f"{examples} {were} recorded with more than one label; is index the row of the data set, "
            "whatever the sampler, split or rank?",
            err=True,
        )
    if found.skipped:
        rows = counted(found.skipped, "row")
        typer.echo(f"{rows} with logits that are not finite counted for nothing", err=True)


def _headline(found: Dynamics, folder: Path) -> str:
    from icelens.counts import counted

    visited = int((found.examples["visits"] > 0).sum())
    visits, examples = counted(found.rows, "visit"), counted(visited, "example")
    return f"{folder}: {visits} of {examples} in {counted(len(found.epochs), 'epoch')}."


def _print(found: Dynamics, first: int) -> None:
    from rich.console import Console
    from rich.table import Table

    names = ["index", "label", "guess", "aum", "p_label", "correctness", "forgotten", "visits"]
    names += ["confidence"] if found.history.size else []
    table = Table(*names, box=None, pad_edge=False)
    for column in table.columns:
        column.justify = "right"
    for row in found.suspects(first)[names].to_dict("records"):
        table.add_row(*(f"{value:.3f}" if isinstance(value, float) else f"{value}" for value in row.values()))
    # A pipe has no width, and a wrapped row is of no use to grep.
    Console(width=None if sys.stdout.isatty() else 120, highlight=False).print(table)
