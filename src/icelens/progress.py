"""The one place that progress goes through: silent in a library, a bar on stderr in the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_state = {"shown": False}


def show(shown: bool = True) -> None:
    """Turn progress bars on, as the command line does, or off."""
    _state["shown"] = shown


@contextmanager
def bar(
    description: str, total: int | None, *, done: int = 0, size: bool = False
) -> Iterator[Callable[..., None]]:
    """A progress bar; the value yielded is called with the amount done and, if wanted, `note="loss 0.31"`.

    With `size` the amounts are bytes and are shown so. Where bars are off, or stderr is
    a file, the calls do nothing.
    """
    if not _state["shown"] or not sys.stderr.isatty():
        yield lambda amount=1, note=None: None
        return
    from rich import progress as rich
    from rich.console import Console

    count = [rich.DownloadColumn(), rich.TransferSpeedColumn()] if size else [rich.MofNCompleteColumn()]
    columns = [rich.TextColumn("{task.description}"), rich.BarColumn(), *count, rich.TimeRemainingColumn(),
               rich.TextColumn("{task.fields[note]}")]  # fmt: skip
    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(description, total=total, completed=done, note="")

        def advance(amount: float = 1, note: str | None = None) -> None:
            progress.advance(task, amount)
            if note is not None:
                progress.update(task, note=note)

        yield advance
