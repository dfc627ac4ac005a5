"""How the audit was made, as a list of names and values that people can read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from icelens.auditing.report.foreign import one_line, shown

if TYPE_CHECKING:
    from icelens.auditing.result import Audit
    from icelens.data.labelled import Labelled

MOST_LINES, LONGEST_LINE, MOST_FACTS = 40, 300, 40


def about(audit: Audit, data: Labelled) -> dict[str, Any]:
    """Facts as (name, value), and the lines that were told on the way."""
    said = list(audit.about.get("said") or data.said)
    lines = [shown(line, LONGEST_LINE) for line in said[:MOST_LINES]]
    if len(said) > MOST_LINES:
        lines.append(f"… and {len(said) - MOST_LINES} lines more")
    facts = [(name, value) for name, value in audit.about.items() if name != "said" and value is not None]
    return {
        "facts": [(_name(name), _value(name, value)) for name, value in facts[:MOST_FACTS]],
        "said": lines,
    }


def _name(name: object) -> str:
    return one_line(name, 40).replace("_", " ")


def _value(name: str, value: Any) -> str:
    """A value on one line: `torch 2.13.0, numpy 2.4.6` for what has names itself."""
    if name == "seconds" and isinstance(value, (int, float)):
        return _duration(float(value))
    if isinstance(value, Mapping):
        return one_line(", ".join(f"{key} {inner}" for key, inner in value.items()), LONGEST_LINE)
    if isinstance(value, (list, tuple)):
        return one_line(", ".join(map(str, value)), LONGEST_LINE)
    return one_line(f"{value:,.6g}" if isinstance(value, float) else value, LONGEST_LINE)


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f}" if seconds < 10 else f"{seconds:.0f}"
    return f"{seconds:,.0f} ({seconds / 60:.0f} minutes)"
