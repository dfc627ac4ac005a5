"""`icelens retrain`: what cleaned labels are worth to a classifier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from icelens.cli.arguments import Data, Device, Run
from icelens.counts import counted, one_or_more

if TYPE_CHECKING:
    from icelens.export.retrain import Retrained, Score

FEW = 0.05  # of all examples; fewer changes can hardly show in an accuracy


def retrain(
    run: Run,
    data: Data = None,
    device: Device = "auto",
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
    """The numbers in words, what they are judged by, and whether they tell anything."""
    part = "every example was held out once, in four parts" if found.folds > 1 else "a quarter was held out"
    changed = f"{counted(found.relabelled, 'label')} changed and {counted(found.dropped, 'example')} dropped"
    have = one_or_more(found.left_out, "has", "have")
    return [
        f"{changed}; {part}.",
        *_line("held out", found.judged),
        *_line("  reviewed", found.reviewed, "by the labels that people kept or gave"),
        *_line("  trusted", found.trusted, "not reviewed, no issue to the audit: easy by choice"),
        f"{counted(found.left_out, 'held-out example')} {have} no label to judge by: dropped, unsure, or "
        "suspects that nobody looked at.",
        *_verdict(found),
    ]


def _verdict(found: Retrained) -> list[str]:
    """A warning where the difference could as well be none."""
    score, changed = found.judged, found.relabelled + found.dropped
    if score is None or not score.low <= 0 <= score.high:
        return []
    too_few = one_or_more(changed, "is too few", "are too few")
    few = f", and {counted(changed, 'change')} in {counted(found.examples, 'example')} {too_few} to tell"
    few = few if changed < FEW * found.examples else ""
    return [
        f"Whether it helped cannot be told from this: the interval holds 0{few}. Review more, or score both "
        "on a test set of your own."
    ]


def _line(name: str, score: Score | None, judged: str = "") -> list[str]:
    if score is None:
        return []
    numbers = (
        f"{score.before:.2%} with the given labels, {score.after:.2%} with the cleaned ones "
        f"({100 * score.difference:+.2f} points, 90 % interval {100 * score.low:+.2f} to "
        f"{100 * score.high:+.2f}, n = {score.n:,})"
    )
    return [f"{name:12}{numbers}{f'; {judged}' if judged else ''}"]
