"""The suspects of a report: which, in what order, and what is shown of each."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from icelens import progress
from icelens.auditing.report.cells import unusual_cells
from icelens.auditing.report.foreign import one_line, shown
from icelens.auditing.report.pictures import is_coarse, picture
from icelens.auditing.report.words import FALLBACK, count, percent, why

if TYPE_CHECKING:
    from icelens.auditing.result import Audit
    from icelens.data.labelled import Labelled

Item = dict[str, Any]

MOST = 3000  # suspects; no file of 8 MB holds pictures of more
ROOM = 5_000_000  # bytes that pictures or texts may take
LONGEST_TEXT, SHORTEST_TEXT = 4000, 300  # characters of a text, for few suspects and for many
MOST_LINES = 7  # of a text that are seen before it is opened
LARGEST_PICTURE, SMALLEST_PICTURE = 20_000, 1500  # bytes


def choose(audit: Audit, limit: int) -> NDArray[np.int64]:
    """The rows of the issues, the least trusted first; where there are none, of some least trusted."""
    order = np.argsort(audit.examples["trust"].to_numpy(float), kind="stable")
    issues = order[audit.examples["is_issue"].to_numpy(bool)[order]]
    return (issues if len(issues) else order[:FALLBACK])[: min(limit, MOST)]


def describe(audit: Audit, data: Labelled, rows: NDArray[np.int64]) -> list[Item]:
    """What the page shows of each suspect, and what it sorts and filters by; JSON can hold it."""
    examples = audit.examples.iloc[rows]
    labels, guesses = examples["label"].cat.codes.tolist(), examples["guess"].cat.codes.tolist()
    classes = len(examples["label"].cat.categories)
    contents = _CONTENTS[data.kind](data, rows)
    items = []
    for rank, (row, example) in enumerate(zip(rows.tolist(), examples.to_dict("records"), strict=True)):
        item = _item(example, str(example["kind"]), why({str(k): v for k, v in example.items()}, classes))
        place = {"rank": rank + 1, "label": labels[rank], "guess": guesses[rank]}
        where = _where(example, int(data.rows[row]))
        items.append({**item, **place, **where, **contents[rank]})
    return items


def _item(example: dict[Any, Any], kind: str, reason: str) -> Item:
    trust, confidence = float(example["trust"]), float(example["confidence"])
    return {
        "index": int(example["index"]),
        "trust": _or_none(trust),
        "confidence": _or_none(confidence),
        "trust_text": percent(trust),
        "confidence_text": f"{confidence:.2f}",
        "label_name": one_line(example["label"]),
        "guess_name": one_line(example["guess"]),
        "kind": kind,
        "why": reason,
    }


def _where(example: dict[Any, Any], row: int) -> Item:
    """How to find the example: its id, its index, its row of the file, each number once."""
    index, name = str(example["index"]), one_line(example["id"], 120)
    place = f"index {index}" if str(row) in (index, name) else f"index {index}, row {row}"
    return {"id": name, "name": "" if name == index else name, "where": place}


def _pictures(data: Labelled, rows: NDArray[np.int64]) -> list[Item]:
    room = int(np.clip(ROOM / max(len(rows), 1), SMALLEST_PICTURE, LARGEST_PICTURE))
    found: list[Item] = []
    with progress.bar("drawing suspects", len(rows)) as advance:
        for row in rows.tolist():
            uri = picture(data.inputs[row], room)
            found.append({"picture": uri, "coarse": bool(uri and is_coarse(uri))})
            advance()
    return found


def _texts(data: Labelled, rows: NDArray[np.int64]) -> list[Item]:
    most = int(np.clip(ROOM / 8 / max(len(rows), 1), SHORTEST_TEXT, LONGEST_TEXT))
    return [_text(data.inputs[row], most) for row in rows.tolist()]


def _text(parts: tuple[str, ...], most: int) -> Item:
    lengths = [len(part) for part in parts]
    cut = max(lengths) > most
    note = f"The first {count(most)} of {count(max(lengths))} characters." if cut else ""
    texts = [shown(part, most) for part in parts]
    return {"texts": texts, "folded": sum(map(_lines, texts)) > MOST_LINES, "note": note}


def _lines(text: str) -> float:
    """About how many lines a text takes."""
    return sum(max(1.0, len(line) / 60) for line in text.split("\n"))


def _cells(data: Labelled, rows: NDArray[np.int64]) -> list[Item]:
    found = unusual_cells(data.inputs, data.labels, rows.tolist())
    return [{"cells": [dataclasses.asdict(cell) for cell in cells]} for cells in found]


def _or_none(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None


_CONTENTS = {"image": _pictures, "text": _texts, "table": _cells}
