"""`icelens audit`: from a file of labels to the list of those that are wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from icelens.auditing.begun import is_begun
from icelens.cli import launch
from icelens.cli.arguments import Device
from icelens.cli.interrupted import starting_again
from icelens.counts import counted

if TYPE_CHECKING:
    from icelens.auditing.result import Audit

PATIENCE = timedelta(days=7)  # of a rank that waits for the training run of another


def audit(
    path: Annotated[
        Path,
        typer.Argument(
            help="CSV, TSV, JSONL, Parquet, Arrow or .npz; a folder saved by Hugging Face's datasets; or a "
            "folder of images in folders named after their class.",
            show_default=False,
        ),
    ],
    label: Annotated[str | None, typer.Option(help="Column of the labels.", show_default=False)] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(help="Column of the texts; twice for pairs of texts.", show_default=False),
    ] = None,
    image: Annotated[str | None, typer.Option(help="Column of image files.", show_default=False)] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(help="A column to learn from; may be given several times.", show_default=False),
    ] = None,
    id: Annotated[
        str | None, typer.Option(help="Column that names each example.", show_default=False)
    ] = None,
    backbone: Annotated[
        str | None,
        typer.Option(
            help="An encoder of transformers for texts or images: a folder, or its name on the hub.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the audit; one that was stopped goes on. NAME-audit where left out.",
            show_default=False,
        ),
    ] = None,
    device: Device = "auto",
    budget: Annotated[
        int | None,
        typer.Option(
            help="How many examples you can look at: says how many errors that will find.",
            show_default=False,
        ),
    ] = None,
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="Start anew where the folder holds an audit that is finished, or of other data or settings; "
            "that one is moved to FOLDER.1 (.2, ...).",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Of networks, order and folds.")] = 0,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print audit.json, with the least trusted examples (20, or as many as --budget says) in it.",
        ),
    ] = False,
    drop_unlabelled: Annotated[
        bool, typer.Option("--drop-unlabelled", help="Leave out rows without a label.")
    ] = False,
    keep_rare: Annotated[
        bool, typer.Option("--keep-rare", help="Keep classes of which there is one example only.")
    ] = False,
    skip_broken: Annotated[
        bool, typer.Option("--skip-broken", help="Leave out images that cannot be opened.")
    ] = False,
) -> None:
    """Rank the labels of a data set by how far they can be trusted, and write a report to look at.

    For example: icelens audit reviews.csv --label sentiment --text review
    """
    from icelens.auditing.source import Source

    source = Source(
        str(path), label=label, text=tuple(text or ()), image=image, features=tuple(features or ()), id=id,
        drop_unlabelled=drop_unlabelled, keep_rare=keep_rare, skip_broken=skip_broken,
    )  # fmt: skip
    folder = out or Path(f"{_stem(path)}-audit")
    with starting_again(unless=lambda: is_begun(folder)), launch.all_processes(PATIENCE), _telling(folder):
        data = source.read()
        for line in data.said if launch.speaks() else ():
            typer.echo(line, err=True)
        from icelens.auditing.public import run_audit  # after the data was found and read: it loads torch

        found = run_audit(
            data, seed=seed, device=device, backbone=backbone, budget=budget, out=folder, source=source,
            aside=_say_where if again else None,
        )  # fmt: skip
    if not launch.speaks():
        return
    if json:
        typer.echo(_json(found, folder, budget))
        return
    from icelens.auditing.summary import print_summary

    print_summary(found, data)
    if budget:
        typer.echo(_of_budget(found, min(budget, len(data))))
    typer.echo(
        f"\nLook at {folder / 'report.html'}; all examples are in {folder / 'examples.csv'} and .parquet.\n"
        f"To judge them one by one: icelens review {folder}"
    )


@contextmanager
def _telling(folder: Path) -> Iterator[None]:
    """Say where a write failed."""
    try:
        yield
    except OSError as error:
        if error.errno and not error.filename:  # a full disk is told without a name
            error.filename = str(folder)
        raise


def _say_where(moved: Path) -> None:
    typer.echo(f"the audit that lay there is in {moved}", err=True)


def _stem(path: Path) -> str:
    """The name without its suffixes: reviews.csv.gz is `reviews`."""
    return path.resolve().name.split(".", 1)[0] or "data"


def _of_budget(found: Audit, budget: int) -> str:
    from icelens.auditing.report.words import learned_nothing

    if learned_nothing(found):
        return f"How many errors the first {budget:,} of the list hold is not known."
    errors = counted(round(_expected(found, budget)), "error")
    return f"In the first {budget:,} of the list, expect {errors}."


def _expected(found: Audit, budget: int) -> float:
    """Errors to expect among the least trusted, whatever budget the stored audit was made for."""
    return float((1 - found.suspects(budget)["trust"]).sum())


def _json(found: Audit, folder: Path, budget: int | None) -> str:
    import json

    from icelens.auditing.folder import as_json, records

    content: dict[str, Any] = {
        **as_json(found),
        "examples": len(found.examples),
        "issues": int(found.examples["is_issue"].sum()),
        "suspects": records(found.suspects(budget or 20)),
        "report": str(folder / "report.html"),
        "table": str(folder / "examples.parquet"),
    }
    if budget:
        content["expected_errors"] = _expected(found, budget)
    return json.dumps(content, indent=1)
