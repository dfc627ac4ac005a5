"""`icelens apply`: the cleaned data, in the format it came in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from icelens.cli.arguments import Data, Run
from icelens.counts import counted


def apply(
    run: Run,
    out: Annotated[
        Path,
        typer.Option(
            help="What to write, in the format of the data: a file with the same suffix, or a folder.",
            show_default=False,
        ),
    ],
    history: Annotated[
        bool, typer.Option("--history", help="Add a column label_before with the labels as they were.")
    ] = False,
    link: Annotated[
        bool,
        typer.Option("--link", help="Hard-link the files of a folder of images instead of copying them."),
    ] = False,
    data: Data = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace what lies at --out; never the audited data itself.")
    ] = False,
) -> None:
    """Write the audited data again with the verdicts of the review in it, and a log of what changed.

    For example: icelens apply reviews-audit --out cleaned.csv
    """
    from icelens.export.apply import apply_verdicts

    done = apply_verdicts(run, out, data=data, history=history, link=link, force=force)
    for line in done.said:
        typer.echo(line, err=True)
    typer.echo(
        f"{done.out}: {counted(done.written, done.noun)}, {done.relabelled:,} of them with a new label; "
        f"{done.dropped:,} dropped. What changed is in {done.log}"
    )
