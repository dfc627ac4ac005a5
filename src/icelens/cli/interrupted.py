"""Ctrl-C: what becomes of the work of a command that is interrupted."""

from __future__ import annotations

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


class Commands(Listed):
    """Commands of which one that is interrupted is told: typer itself would leave without a word."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            goes_on = GOES_ON.get(str(ctx.invoked_subcommand), "nothing was written")
            raise Interrupted(f"interrupted; {goes_on}") from None
