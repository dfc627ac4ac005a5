"""`icelens export` and `icelens import`: to the tools people label with, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from icelens.cli.arguments import Data, Run, login
from icelens.counts import counted, one_or_more


def export(
    run: Run,
    to: Annotated[
        str,
        typer.Option(
            help="csv, parquet, huggingface, labelstudio, fiftyone, cleanlab, cartography or aum.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="The file or folder to write.", show_default=False)],
    first: Annotated[
        int | None,
        typer.Option(
            help="labelstudio: how many tasks, the least trusted first; the audit's issues where left out.",
            show_default=False,
        ),
    ] = None,
    data: Data = None,
    device: Annotated[
        str | None,
        typer.Option(
            help="cartography, aum: where to train: cpu, cuda, cuda:1, or auto, as where left out.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what lies at --out.")] = False,
) -> None:
    """Write an audit, with the verdicts of its review so far, for another tool.

    For example: icelens export reviews-audit --to labelstudio --out tasks.json
    """
    from icelens.export.targets import export_audit

    told = export_audit(
        run,
        to,
        out,
        data=data,
        first=first,
        device=device,
        force=force,
        tell=lambda line: typer.echo(line, err=True),
    )
    typer.echo(f"{out}: {told}")


def import_(
    run: Run,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Label Studio's JSON or JSON-MIN; or a CSV with id or index, and verdict or label, also by "
            "the names that these columns have in the audited data.",
            show_default=False,
        ),
    ],
    who: Annotated[
        str | None,
        typer.Option(
            help="Whose verdicts a CSV holds that does not say; you, where left out.", show_default=False
        ),
    ] = None,
    data: Data = None,
    new_classes: Annotated[
        bool, typer.Option("--new-classes", help="Let labels be that no example has.")
    ] = False,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Give verdicts too that were given before and that others have replaced."
        ),
    ] = False,
) -> None:
    """Add verdicts that were given elsewhere to the review of an audit; each is added once.

    For example: icelens import reviews-audit annotations.json
    """
    from icelens.export.imports import import_verdicts

    done = import_verdicts(
        run, file, who=who or login("import"), data=data, new_classes=new_classes, again=again
    )
    if done.disagreed:
        have = one_or_more(done.disagreed, "has", "have")
        examples = counted(done.disagreed, "example")
        typer.echo(f"{examples} {have} verdicts that disagree; the newest counts", err=True)
    if done.passed:
        have, examples = one_or_more(done.passed, "has", "have"), counted(done.passed, "example")
        typer.echo(
            f"{examples} {have} a later verdict than the one in {file}, which was given before; --again "
            "gives it again",
            err=True,
        )
    typer.echo(f"{counted(done.read, 'verdict')} in {file}, {done.new:,} of them new")
