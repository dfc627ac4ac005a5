"""What several commands take, and who takes it."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Annotated

import typer

Run = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", help="Folder of the audit, as `icelens audit` wrote it.", show_default=False
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        help="Where the audited data lies, if it was moved; of arrays in memory, a file with the same rows.",
        show_default=False,
    ),
]
Device = Annotated[
    str, typer.Option("--device", help="cpu, cuda, cuda:1, or auto: a GPU where there is one.")
]


def login(fallback: str) -> str:
    """The name of whoever runs the command."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a user without a name, as in some containers
        return fallback
