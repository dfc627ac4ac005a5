"""`icelens reproduce`: the paper's tables and figures from recipes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from icelens.cli.arguments import Device
from icelens.cli.listed import Listed
from icelens.counts import counted

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(
    cls=Listed,
    help="Rerun the paper: list, copy, run and show its tables and figures.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Name = Annotated[
    str, typer.Argument(help="An experiment, as `icelens reproduce ls` lists them, or a recipe file.")
]
Names = Annotated[
    list[str], typer.Argument(help="Experiments, as `icelens reproduce ls` lists them.", metavar="NAME...")
]
Root = Annotated[Path, typer.Option("--root", help="The folder that holds the data sets.")]
Results = Annotated[Path, typer.Option("--results", help="The folder of finished trials, one JSON each.")]
Workers = Annotated[int, typer.Option("--workers", help="Trials at once, each in a process of its own.")]
Trials = Annotated[
    int, typer.Option("--trials", min=0, help="How many seeds; 0 is as many as the recipe says.")
]
Encoder = Annotated[
    str,
    typer.Option("--encoder", help="For text: a folder with a pretrained encoder, or its name on the hub."),
]


@app.command("ls")
def ls(results: Results = Path("results")) -> None:
    """List the experiments and how many of their trials are finished."""
    from icelens.reproduce.experiment import names, read_experiment
    from icelens.reproduce.store import finished

    rows = [["name", "what", "finished"]]
    for name in names():
        experiment = read_experiment(name)
        done, wanted = finished(experiment, results), experiment.trials * len(experiment.methods)
        rows.append([name, experiment.title, f"{done} of {wanted}"])
    _print(rows)


@app.command("cp")
def cp(
    name: Name,
    to: Annotated[
        Path | None, typer.Argument(help="The copy; NAME.toml in this folder where left out.")
    ] = None,
) -> None:
    """Copy a recipe, to change it and run the copy."""
    from icelens.errors import InputError
    from icelens.reproduce.experiment import recipe_path

    source = recipe_path(name)
    to = to or Path(source.name)
    if to.suffix != ".toml":
        raise InputError(f"{to}: a recipe is run from a file named .toml; give {to}.toml")
    if to.exists():
        raise InputError(f"{to} is there already; give another name")
    to.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    typer.echo(f"{to}: change it, then run it by: icelens reproduce run {to}")


@app.command("run")
def run(
    names: Names,
    root: Root = Path("data"),
    results: Results = Path("results"),
    work: Annotated[Path, typer.Option("--work", help="A folder for what is needed in between.")] = Path(
        "runs/reproduce"
    ),
    device: Device = "auto",
    workers: Workers = 1,
    trials: Trials = 0,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            help="A method to run; may be given several times. Others than the recipe's are allowed.",
            show_default=False,
        ),
    ] = None,
    encoder: Encoder = "",
) -> None:
    """Train the trials of experiments that are not finished yet; a rerun does only what is missing.

    For example: icelens reproduce run table1-mnist --workers 4; table1 alone means all of its data sets.
    """
    from icelens.reproduce.experiment import Place, expanded, read_experiment
    from icelens.reproduce.runner import run_experiment

    experiments = [(name, read_experiment(name)) for name in expanded(names)]
    place = Place(root, results, work, device)
    for name, experiment in experiments:
        count = run_experiment(
            experiment,
            place,
            methods=methods or (),
            trials=trials,
            workers=workers,
            encoder=encoder,
            told=_tell,
        )
        typer.echo(f"{name}: {counted(count, 'trial')} run; the records are in {results / experiment.table}")


@app.command("show")
def show(
    name: Annotated[str, typer.Argument(help="table1, table2, or an experiment.")],
    results: Results = Path("results"),
    root: Root = Path("data"),
    best: Annotated[
        bool,
        typer.Option(
            "--best",
            help="Table 1 at the best accuracy on the noisy validation set, not at the last iteration.",
        ),
    ] = False,
    method: Annotated[
        str, typer.Option("--method", help="Of a table2-… experiment: whose least trusted texts to list.")
    ] = "ice_linear",
) -> None:
    """Tabulate what is finished, beside the paper's numbers.

    Of an experiment on text also its least trusted training rows, and where the rows that the paper lists
    stand; of one on original labels the classes and pairs of the least confident images.
    """
    from icelens.reproduce import show as shown

    console = _console()
    for part in shown.parts(name, results, root=root, best=best, method=method):
        console.print(part)


@app.command("choose")
def choose(
    names: Names,
    encoder: Encoder,
    root: Root = Path("data"),
    results: Results = Path("results"),
    device: Device = "auto",
    workers: Workers = 1,
    trials: Annotated[int, typer.Option("--trials", min=1, help="How many seeds of each candidate.")] = 5,
    step_sizes: Annotated[
        list[float] | None,
        typer.Option(
            "--step-size",
            help="A step of the confidences to try; several times. 1, 4 and 16 where left out.",
            show_default=False,
        ),
    ] = None,
    starts: Annotated[
        list[float] | None,
        typer.Option(
            "--start",
            help="A confidence logit to start from; several times. 0 and 2 where left out.",
            show_default=False,
        ),
    ] = None,
    rises: Annotated[
        list[float] | None,
        typer.Option(
            "--rise",
            help="A share of the run over which steps grow; several times. 1 where left out.",
            show_default=False,
        ),
    ] = None,
    held_out: Annotated[
        float, typer.Option("--held-out", help="Share of the training rows to score on.")
    ] = 0.1,
) -> None:
    """Compare settings of the confidences for text on held-out training rows, never on the dev set."""
    from icelens.reproduce.experiment import Place, read_experiment

    experiments = [read_experiment(name) for name in names]
    from icelens.reproduce.text_choice import choices_markdown
    from icelens.reproduce.text_experiment import choose as compare

    found = compare(
        experiments,
        Place(root, results, results, device),
        encoder,
        step_sizes=step_sizes or (1.0, 4.0, 16.0),
        starts=starts or (0.0, 2.0),
        rises=rises or (1.0,),
        held_out=held_out,
        trials=trials,
        workers=workers,
    )
    typer.echo(choices_markdown(found))


@app.command("figures")
def figures(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Figures by name; all where left out.", metavar="[NAME]...", show_default=False),
    ] = None,
    results: Results = Path("results"),
    out: Annotated[Path, typer.Option("--out", help="The folder for the pictures.")] = Path("figures"),
    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--format", help="png, pdf or svg; several times. png and pdf where left out.", show_default=False
        ),
    ] = None,
    dpi: Annotated[int, typer.Option("--dpi", help="Dots per inch of a png.")] = 200,
) -> None:
    """Draw the paper's figures from stored results, and say which cannot be drawn yet and why.

    Only the small demo of class-posteriors is trained on the spot, where its result is not there.
    """
    from icelens.reproduce.figures import draw_all, store_demo
    from icelens.reproduce.figures.stored import stored_path

    if not stored_path(results, "demo_posteriors").exists() and (not names or "demo-posteriors" in names):
        store_demo(results)  # trains for some seconds
    drawn = draw_all(results, out, formats=formats or ("png", "pdf"), names=names or None, dpi=dpi)
    for path in drawn.paths:
        typer.echo(path)
    for name, reason in drawn.skipped.items():
        typer.echo(f"{name}: not drawn, {reason}", err=True)


def _tell(line: str) -> None:
    """Say what is done where there is no bar to show it: in a log."""
    if not sys.stderr.isatty():
        typer.echo(line, err=True)


def _print(rows: Sequence[Sequence[str]]) -> None:
    from rich.table import Table

    table = Table(*rows[0], box=None, pad_edge=False)
    for row in rows[1:]:
        table.add_row(*row)
    _console().print(table)


def _console() -> Console:
    from rich.console import Console

    # A pipe has no width, and a wrapped row is of no use to grep.
    return Console(width=None if sys.stdout.isatty() else 160)
