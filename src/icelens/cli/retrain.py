"""`icelens retrain`: what cleaned labels are worth to a classifier."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from icelens.export.retrain import Retrained, Score


def retrain(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder of the audit that was reviewed.", show_default=False)
    ],
    data: Annotated[
        Path | None, typer.Option(help="Where the audited data lies, if it was moved.", show_default=False)
    ] = None,
    device: Annotated[
        str, typer.Option(help="cpu, cuda, cuda:1, or auto: a GPU where there is one.")
    ] = "auto",
    seed: Annotated[
        int | None,
        typer.Option(help="Of parts and networks; that of the audit where left out.", show_default=False),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> None:
    """Train the audit's network on the given and on the cleaned labels; print both accuracies, held out.

    For example: icelens retrain reviews-audit
    """
    from icelens.export.retrain import retrain as train_twice

    found = train_twice(run, data=data, device=device, seed=seed)
    if json:
        import json as format

        typer.echo(format.dumps(found.as_json(), indent=1))
        return
    for line in told(found):
        typer.echo(line)


def told(found: Retrained) -> list[str]:
    """The numbers in words, and what they are judged by."""
    part = "every example was held out once, in four parts" if found.folds > 1 else "a quarter was held out"
    return [
        f"{found.relabelled:,} labels changed and {found.dropped:,} examples dropped; {part}.",
        *_line("held out", found.judged),
        *_line("  reviewed", found.reviewed, "by the labels that people kept or gave"),
        *_line("  trusted", found.trusted, "not reviewed, no issue to the audit: easy by choice"),
        f"{found.left_out:,} held-out examples have no label to judge by: dropped, unsure, or suspects that "
        "nobody looked at.",
    ]


def _line(name: str, score: Score | None, judged: str = "") -> list[str]:
    if score is None:
        return []
    numbers = (
        f"{score.before:.2%} with the given labels, {score.after:.2%} with the cleaned ones "
        f"({100 * score.difference:+.2f} ± {100 * score.standard_error:.2f} points, n = {score.n:,})"
    )
    return [f"{name:12}{numbers}{f'; {judged}' if judged else ''}"]
