"""What the store hands out: examples with what is shown of them, verdicts, progress."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from icelens.auditing.report.cells import Cell


@dataclass(frozen=True)
class Verdict:
    """What somebody said of an example; `label` is the class that a relabel gives, `at` is UTC."""

    number: int
    index: int
    verdict: str
    label: str | None
    who: str
    at: str


@dataclass(frozen=True)
class Entry:
    """A row of an example's history: a verdict, or an "undo" with the number of the one it takes back."""

    number: int
    index: int
    verdict: str
    label: str | None
    who: str
    at: str
    takes_back: int | None


@dataclass(frozen=True)
class Content:
    """What is shown of an example.

    Args:
        texts: of a text example, one or two.
        longest: how long the longest was, if not all of it was kept.
        cells: of a table row: the most unusual first where they are marked, else in the table's order.
        image: whether `Store.image` has a picture of it.
        path: of an image that is a file, below `Store.data_root`.
    """

    texts: tuple[str, ...] = ()
    longest: int = 0
    cells: tuple[Cell, ...] = ()
    image: bool = False
    path: str | None = None


@dataclass(frozen=True)
class Example:
    """An example of the list.

    Args:
        index: its row of the data set.
        rank: its place in today's order, from 0, the least trusted first.
        trust: as the audit found it, or as the verdicts have led to since.
        top: the likeliest classes with their probabilities, where they were kept.
        near_label: rows of the nearest trusted examples of its label.
        near_guess: and of its guess.
        verdict: the one that stands.
    """

    index: int
    id: str
    label: str
    guess: str
    trust: float
    confidence: float | None
    p_label: float | None
    p_guess: float | None
    kind: str
    is_issue: bool
    rank: int
    content: Content
    verdict: Verdict | None = None
    top: tuple[tuple[str, float], ...] = ()
    near_label: tuple[int, ...] = ()
    near_guess: tuple[int, ...] = ()


@dataclass(frozen=True)
class Progress:
    """How far the review has come; `expected` are the errors to be expected among those left open."""

    total: int
    kept: int
    relabelled: int
    dropped: int
    unsure: int
    expected: float

    @property
    def wrong(self) -> int:
        """Labels that were found wrong."""
        return self.relabelled + self.dropped

    @property
    def reviewed(self) -> int:
        """Examples of which a verdict stands."""
        return self.wrong + self.kept + self.unsure

    @property
    def open(self) -> int:
        """Examples of which none stands."""
        return self.total - self.reviewed


def content_of(
    kind: str, columns: Sequence[str], shown: str | None, path: str | None, image: bool
) -> Content:
    """The content of an example as it lies in the file."""
    if kind == "image":
        return Content(image=image or path is not None, path=path)
    parts: Any = json.loads(shown) if shown else []
    if kind == "text":
        cut = isinstance(parts, dict)
        return Content(tuple(parts["texts"]), parts["longest"]) if cut else Content(tuple(parts))
    if parts and isinstance(parts[0], list):
        return Content(cells=tuple(Cell(*part) for part in parts))
    plain = zip(columns, parts, strict=False)  # where columns are many, the first of them are kept
    return Content(cells=tuple(Cell(column, value, "", "") for column, value in plain))
