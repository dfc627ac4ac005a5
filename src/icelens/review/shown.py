"""What the pages show of an example: plain values, ready for the templates."""

from __future__ import annotations

import dataclasses
import math
import secrets
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from icelens.auditing.report.foreign import one_line, shown
from icelens.auditing.report.words import count, percent, quoted, why
from icelens.review.records import Example, Verdict

Item = dict[str, Any]

WHOLE, PART = 20_000, 700  # characters of a text, alone and in a list
FEW_CELLS = 6  # values of a row, in a list
KEYED = 10  # classes that can each have a digit for good
BADGES = {"keep": "kept", "drop": "to be dropped", "unsure": "unsure"}


@lru_cache(4096)
def class_name(name: str) -> str:
    """The name of a class as pages show it; the same few are asked for again and again."""
    return one_line(name)


def item(example: Example, codes: Mapping[str, int], version: str, *, whole: bool = False) -> Item:
    """One example; `whole` for all of its text or values."""
    name = one_line(example.id, 120)
    return {
        "index": example.index,
        "id": name,
        "name": "" if name == str(example.index) else name,
        "where": f"index {example.index}",
        "rank": count(example.rank + 1),
        "href": f"/example/{example.index}",
        "key": secrets.token_hex(16),
        "label_code": codes[example.label],
        "guess_code": codes[example.guess],
        "label_name": class_name(example.label),
        "guess_name": class_name(example.guess),
        "trust": example.trust if math.isfinite(example.trust) else 0.0,
        "trust_text": percent(example.trust),
        "kind": example.kind,
        "why": _why(example, len(codes)) if whole else "",
        "verdict": _verdict(example.verdict),
        "spoken": f"{name}: label {class_name(example.label)}, guess {class_name(example.guess)}",
        **_content(example, version, whole),
    }


def _content(example: Example, version: str, whole: bool) -> Item:
    most, cells = WHOLE if whole else PART, example.content.cells
    longest = max(example.content.longest, *map(len, example.content.texts), 0)
    cut = f"The first {count(most)} of {count(longest)} characters." if longest > most else ""
    return {
        "picture": example.content.image,
        "version": version,
        "texts": [shown(text, most) for text in example.content.texts],
        "note": cut,
        "cells": [dataclasses.asdict(cell) for cell in (cells if whole else cells[:FEW_CELLS])],
        "by_column": {cell.column: cell.value for cell in cells},
    }


def _why(example: Example, classes: int) -> str:
    known = {name: math.nan if value is None else value for name, value in vars(example).items()}
    return "" if example.p_label is None else why(known, classes)


def _verdict(verdict: Verdict | None) -> Item | None:
    if verdict is None:
        return None
    return {"verdict": verdict.verdict, "badge": badge(verdict), "who": one_line(verdict.who, 40)}


def badge(verdict: Verdict | None) -> str:
    """What stands, in a word or two.

    >>> badge(Verdict(1, 7, "relabel", "cat", "ann", ""))
    '→ cat'
    """
    if verdict is None:
        return ""
    return f"→ {one_line(verdict.label, 60)}" if verdict.verdict == "relabel" else BADGES[verdict.verdict]


def saved(example: Example, verdict: Verdict) -> str:
    """What is said when a verdict is stored."""
    name = one_line(example.id, 60)
    ends = {
        "keep": f"{name} keeps the label {quoted(example.label)}",
        "relabel": f"{name} becomes {quoted(verdict.label)}",
        "drop": f"{name} will be dropped",
        "unsure": f"{name} is left as unsure",
    }
    return f"Saved: {ends[verdict.verdict]}."


def digits(classes: Sequence[str]) -> dict[str, int]:
    """The digit that stands for each class whatever the example, where ten are enough: {"1": 0, "2": 1, ...}.

    >>> digits(["cat", "dog"]), digits(["7", "0", "1"])
    ({'1': 0, '2': 1}, {'7': 0, '0': 1, '1': 2})
    """
    if len(classes) > KEYED:
        return {}
    if all(len(name) == 1 and name in "0123456789" for name in classes):
        return {name: code for code, name in enumerate(classes)}
    return {str((code + 1) % 10): code for code in range(len(classes))}


def class_rows(example: Example, classes: Sequence[str], codes: Mapping[str, int]) -> list[Item]:
    """The likeliest classes with their probabilities and keys, then the others where there are few."""
    known = dict(example.top)
    for name, p in ((example.guess, example.p_guess), (example.label, example.p_label)):
        if p is not None:
            known.setdefault(name, p)
    fixed = {code: digit for digit, code in digits(classes).items()}
    named = [*known, *(name for name in (classes if fixed else ()) if name not in known)]
    rows = []
    for place, name in enumerate(sorted(named, key=lambda name: -known.get(name, -1.0))):
        key = fixed.get(codes[name], "") if fixed else str(place + 1) if place < 9 else ""
        p = known.get(name)
        rows.append({"code": codes[name], "name": class_name(name), "key": key, "p": p or 0.0,
                     "p_text": "" if p is None else percent(p)})  # fmt: skip
    return rows
