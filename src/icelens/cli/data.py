"""`icelens data`: list the known data sets and fetch them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from icelens.cli.listed import Listed

if TYPE_CHECKING:
    from icelens.data import Source

app = typer.Typer(
    cls=Listed,
    help="List the known data sets and fetch them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Root = Annotated[Path, typer.Option("--root", help="The folder that holds the data sets.")]
Names = Annotated[
    list[str], typer.Argument(help="Names of data sets, as `icelens data ls` lists them.", metavar="NAME")
]
Mirror = Annotated[
    str | None,
    typer.Option(
        "--mirror",
        envvar="ICELENS_DATA_MIRROR",
        help="An http(s) address that takes the place of the scheme and host of every download.",
        metavar="URL",
    ),
]


@app.command("ls")
def ls(root: Root = Path("data")) -> None:
    """List the known data sets, their rows, and whether they are under the root folder."""
    from rich.console import Console
    from rich.table import Table

    from icelens.data import DATASETS

    table = Table("name", "what", "train", "test", "found in", box=None, pad_edge=False)
    for column in table.columns[2:4]:
        column.justify = "right"
    for name, source in DATASETS.items():
        train, test = (f"{count:,}" for count in source.rows)
        table.add_row(name, source.title, train, test, _found(source, root))
    # A pipe has no width, and a wrapped row is of no use to grep.
    Console(width=None if sys.stdout.isatty() else 120).print(table)


@app.command("get")
def get(names: Names, root: Root = Path("data"), mirror: Mirror = None) -> None:
    """Download data sets into the root folder; what is there is left alone, what broke off goes on."""
    from icelens import data

    for name in names:
        data.find(name)  # a misspelt name is told before anything is fetched
    for name in names:
        fetched = data.get(name, root, mirror=mirror)
        if not fetched:
            typer.echo(f"{name}: {_at_hand(data.find(name), root)}")
        for path, checksum in fetched.items():
            typer.echo(f"{name}: {path} {checksum}")


def _at_hand(source: Source, root: Path) -> str:
    layout, where = source.layout(root), _found(source, root)
    if layout is not None and not layout.files:
        return f"comes with {where}, nothing has to be fetched"
    return f"already in {root / where}"


def _found(source: Source, root: Path) -> str:
    layout = source.layout(root)
    # One that is spread over the root is known by its first file.
    return "-" if layout is None else layout.folder or layout.files[0]
