"""What the verdicts of a review change in the data that was audited."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from icelens.auditing.source import no_audit
from icelens.errors import InputError
from icelens.review.store import NAME, Store

if TYPE_CHECKING:
    from icelens.data import Labelled
    from icelens.review.store import Verdict


@dataclass(frozen=True)
class Change:
    """A row that comes out otherwise than it went in; `after` is None where it is left out."""

    row: int
    id: str
    before: str
    after: str | None
    verdict: str
    who: str
    at: str


@dataclass(frozen=True, eq=False)
class Changes:
    """All of them, by the rows of the file.

    Args:
        log: in the order of the file.
        known: for each class a row of the file that has it: how that file writes the class.
    """

    log: tuple[Change, ...]
    known: dict[str, int] = field(default_factory=dict)

    @cached_property
    def relabelled(self) -> dict[int, str]:
        """The new class of each row that gets one."""
        return {change.row: change.after for change in self.log if change.after is not None}

    @cached_property
    def dropped(self) -> frozenset[int]:
        """The rows that are left out."""
        return frozenset(change.row for change in self.log if change.after is None)

    @cached_property
    def new_classes(self) -> tuple[str, ...]:
        """Classes that no row of the file has, in the order in which they first appear."""
        return tuple(dict.fromkeys(name for name in self.relabelled.values() if name not in self.known))


def standing_verdicts(folder: Path) -> list[Verdict]:
    """The verdicts that count; an error where there are none."""
    if not (folder / "audit.json").is_file():
        raise no_audit(folder)
    found: list[Verdict] = []
    if (folder / NAME).is_file():
        with Store(folder) as store:
            found = store.verdicts()
    if not found:
        raise InputError(f"{folder} holds no verdicts yet; give some with: icelens review {folder}")
    return found


def changes_of(data: Labelled, verdicts: Iterable[Verdict]) -> Changes:
    """What verdicts change: relabelled rows and dropped ones. Those kept, and those unsure, stay as they are.

    Args:
        data: what was audited.
        verdicts: those that count, at most one for each example.
    """
    first = {data.classes[code]: int(data.rows[index]) for code, index in _first_of_each(data)}
    log = []
    for verdict in verdicts:
        before = data.classes[data.labels[verdict.index]]
        after = verdict.label if verdict.verdict == "relabel" else None
        if verdict.verdict == "drop" or (after is not None and after != before):
            row, id = int(data.rows[verdict.index]), str(data.ids[verdict.index])
            log.append(Change(row, id, before, after, verdict.verdict, verdict.who, verdict.at))
    return Changes(tuple(sorted(log, key=lambda change: change.row)), first)


def _first_of_each(data: Labelled) -> list[tuple[int, int]]:
    codes, places = np.unique(data.labels, return_index=True)
    return list(zip(codes.tolist(), places.tolist(), strict=True))
