"""The one place that progress goes through: silent in a library, a bar on stderr in the command line.

Where stderr is a file, a line now and then stands for the bar.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

LINE_EVERY = 30.0  # seconds, in a file; what is over before leaves no line

_state = {"shown": False}


def show(shown: bool = True) -> None:
    """Turn progress bars on, as the command line does, or off."""
    _state["shown"] = shown


def is_shown() -> bool:
    """Whether progress is shown, for a process that is to do as this one."""
    return _state["shown"]


@contextmanager
def bar(
    description: str, total: int | None, *, done: int = 0, size: bool = False
) -> Iterator[Callable[..., None]]:
    """A progress bar; the value yielded is called with the amount done and, if wanted, `note="loss 0.31"`.

    With `size` the amounts are bytes and are shown so. Where bars are off the calls do nothing.
    """
    if not _state["shown"]:
        yield lambda amount=1, note=None: None
        return
    if not sys.stderr.isatty():
        yield _Lines(description, total, done, size=size).advance
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


class _Lines:
    """What a log file has in place of a bar."""

    def __init__(self, description: str, total: int | None, done: float, *, size: bool) -> None:
        self.description, self.total, self.size = description, total, size
        self.begun, self.done, self.note = done, done, ""
        self.started = self.told = monotonic()

    def advance(self, amount: float = 1, note: str | None = None) -> None:
        """Count, and write a line if the last one is long ago."""
        self.done, self.note = self.done + amount, self.note if note is None else note
        if monotonic() - self.told >= LINE_EVERY:
            self.told = monotonic()
            sys.stderr.write(f"{self._line()}\n")
            sys.stderr.flush()

    def _line(self) -> str:
        of = self._amount(self.done)
        if self.total:
            of += f" of {self._amount(self.total)} ({self.done / self.total:.0%}){self._left()}"
        return ", ".join(filter(None, (f"{self.description}: {of}", self.note)))

    def _amount(self, amount: float) -> str:
        return f"{amount / 1e6:,.1f} MB" if self.size else f"{amount:,.0f}"

    def _left(self) -> str:
        """How long it will go on, where anything is known of that."""
        if self.total is None or self.done <= self.begun:
            return ""
        rest = max(0.0, self.total - self.done) / (self.done - self.begun)
        minutes = rest * (monotonic() - self.started) / 60
        return f", {minutes:.0f} min left" if minutes >= 1 else ", less than a minute left"
