"""The command line: one file per command group, heavy libraries imported only when a command runs."""

from __future__ import annotations

import io
import os
import signal
import sys
import traceback
from typing import Annotated

import typer

from icelens import __version__, progress
from icelens.cli import data, launch, reproduce
from icelens.cli.apply import apply
from icelens.cli.audit import audit
from icelens.cli.demo import demo
from icelens.cli.dynamics import dynamics
from icelens.cli.export import export, import_
from icelens.cli.interrupted import Commands, Interrupted
from icelens.cli.retrain import retrain
from icelens.cli.review import review
from icelens.cli.train import train
from icelens.errors import DownloadError, IcelensError, TrainingError

app = typer.Typer(
    name="icelens",
    cls=Commands,
    help="icelens shows which labels to trust: a classifier that wrong labels did not spoil, and a ranked "
    "list of the labels that are probably wrong, from one ordinary training run.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(demo)
app.command()(audit)
app.command()(review)
app.command()(apply)
app.command()(retrain)
app.command()(export)
app.command("import")(import_)
app.command()(train)
app.command()(dynamics)
app.add_typer(data.app, name="data")
app.add_typer(reproduce.app, name="reproduce")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"icelens {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Settings of every command."""
    _settings["debug"] = debug
    if context.invoked_subcommand not in SHARED:
        launch.refuse_several(str(context.invoked_subcommand))
    progress.show(launch.speaks())


SHARED = ("train", "audit")  # whose work several processes can do together
_settings = {"debug": False}


def main() -> None:
    """Run the command line: exit 2 for misuse, 1 for a failed run, with one line that says what is wrong."""
    # Waiting threads of torch's OpenMP spin by default: two runs at once on the same cores then take
    # a hundred times as long. It is read when torch loads, which is later.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    _write_what_can_be_written()
    try:
        app()
    except Interrupted as told:
        # All work is ended. Another Ctrl-C ends Python's own tidying too, at once and without a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        _leave(str(told), 130)
    except IcelensError as error:
        _leave(str(error), 1 if isinstance(error, TrainingError | DownloadError) else 2)
    except OSError as error:  # a full disk, a folder that may not be written to
        place = f"{error.filename}: " if error.filename else ""
        _leave(f"{place}{error.strerror or error}", 1)
    except Exception as error:
        _leave(f"{type(error).__name__}: {error} (icelens --debug … shows where)", 1)


def _write_what_can_be_written() -> None:
    """Let a character that standard output has none for become a "?", where it would end the command."""
    # Other ways than "strict" are someone's choice, or let names of files through as they are.
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")


def _leave(message: str, code: int) -> None:
    if _settings["debug"] and code != 130:
        traceback.print_exc()
    if launch.processes() == 1:
        typer.echo(f"icelens: {message}", err=True)
        sys.exit(code)
    if launch.is_first_to_fail():
        typer.echo(f"icelens: {message} (process {os.environ['RANK']})", err=True)
    # At once: threads of the group may wait for the others, which wait for this one to be seen to have left.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
