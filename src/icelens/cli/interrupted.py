"""Ctrl-C: what becomes of the work of a command that is interrupted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from icelens.cli.listed import Listed

GOES_ON = {
    "audit": "the same command goes on from its last finished run",
    "data": "the same command goes on where it was",
    "demo": "the same command goes on from its last checkpoint",
    "reproduce": "the same command does what is missing",
    "train": "the same command goes on from its last checkpoint",
}


class Interrupted(Exception):
    """Ctrl-C while a command ran; says what the same command would do."""


@contextmanager
def starting_again(unless: Callable[[], bool], because: str = "no run was finished") -> Iterator[None]:
    """Tell whoever interrupts what is inside that the same command starts again.

    Args:
        unless: whether something is kept that it goes on from, which is then told as of any command.
        because: what else is told.
    """
    try:
        yield
    except KeyboardInterrupt:
        if unless():
            raise
        raise Interrupted(f"interrupted; {because}, the same command starts again") from None


def from_its_checkpoint(out: Path, runs: str = ".") -> AbstractContextManager[None]:
    """Tell whoever interrupts training that it starts again, where none of the runs in a folder was saved."""

    def is_saved() -> bool:  # asked while torch may be half loaded, so the names are not looked up there
        names = ("checkpoint.safetensors", "examples.parquet")
        return any(next(out.glob(f"{runs}/{name}"), None) for name in names)

    return starting_again(unless=is_saved, because="there is no checkpoint yet")


class Commands(Listed):
    """Commands of which one that is interrupted is told: typer itself would leave without a word."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            goes_on = GOES_ON.get(str(ctx.invoked_subcommand), "nothing was written")
            raise Interrupted(f"interrupted; {goes_on}") from None
