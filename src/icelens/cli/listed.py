"""The help of a group of commands, as plain text: rich takes longer to load than all the rest of it."""

from __future__ import annotations

from typing import Any

import typer.core


class Listed(typer.core.TyperGroup):
    """Commands of which the help says what each does in a whole sentence, in as many lines as that takes."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands."""
        shown = {name: command for name, command in self.commands.items() if not command.hidden}
        rows = [(name, command.get_short_help_str(limit=200)) for name, command in shown.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
