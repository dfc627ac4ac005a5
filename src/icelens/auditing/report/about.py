"""How the audit was made, as a list of names and values that people can read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from icelens.auditing.report.foreign import one_line, shown
from icelens.counts import counted

if TYPE_CHECKING:
    from icelens.auditing.result import Audit
    from icelens.data.labelled import Labelled

MOST_LINES, LONGEST_LINE, MOST_FACTS = 40, 300, 40
# What a number means where its name in audit.json does not say so to a stranger.
NAMES = {
    "sharpness": "predictions sharpened by",
    "gain": "nats by which labels that were left out are told better than by chance",
    "rate_by_class": "share of each true class that was given another label",
    "held": "held to its beliefs",
    "contradicted": "labels contradicted after training on all of them",
    "explained": "numbers of errors that explain the labels about as well",
}


# By whether the run on all examples was held to its beliefs, or checked by others.
TRUST_FROM = {
    False: "It is estimated from classifiers that had not seen the label, and so can differ from the share "
    "that the model gives it.",
    True: "It is what the model gave the label in its last visits during training, and so can differ from "
    "the share that it gives it at the end.",
}
CONFIDENCE_IS = {
    False: "While the model trained, each example had a confidence C of its own. It starts at {start}, "
    "rises where the model comes to agree with the label, and falls where the label gets in the way.",
    True: "While the model trained, it was noted how probable it found each label. All stand at 0.9 until "
    "they are first seen. Then it is low, rises where the model comes to agree with the label, and stays low "
    "where it does not.",
}
CHECKED_BY = {
    False: "Next to the model it learned, for each example, how far the model is to be believed on it: the "
    "confidence C. Both rank the labels. Classifiers that had not seen a label, trained on the others, say "
    "how many are wrong and how far to trust each.",
    True: "The model was kept to what it had come to believe, before it could know wrong labels by heart. "
    "The confidence of a label, how probable the model found it in its last visits, ranks the labels and "
    "says how many are wrong.",
}


def about(audit: Audit, data: Labelled) -> dict[str, Any]:
    """Facts as (name, value), and the lines that were told on the way."""
    said = list(audit.about.get("said") or data.said)
    lines = [shown(line, LONGEST_LINE) for line in said[:MOST_LINES]]
    if len(said) > MOST_LINES:
        lines.append(f"… and {counted(len(said) - MOST_LINES, 'line')} more")
    facts = [(name, value) for name, value in audit.about.items() if name != "said" and value is not None]
    held = bool(audit.about.get("held"))
    return {
        "trust_from": TRUST_FROM[held],
        "confidence_is": CONFIDENCE_IS[held].format(start=_start(audit)),
        "checked_by": CHECKED_BY[held],
        "facts": [(_name(name), _value(name, value)) for name, value in facts[:MOST_FACTS]],
        "said": lines,
    }


def _start(audit: Audit) -> str:
    """The confidence of every example at first, which is higher where the runs were made again."""
    first = 0.9 if audit.history is None or not audit.history[1].size else float(audit.history[1].flat[0])
    return f"{first:.4g}"


def _name(name: object) -> str:
    return NAMES.get(str(name)) or one_line(name, 40).replace("_", " ")


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
