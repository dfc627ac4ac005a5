"""Giving verdicts: what is asked for is checked, written once, and counted."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

from icelens.errors import InputError, unknown
from icelens.review import verdicts
from icelens.review.about import About
from icelens.review.filters import VERDICTS
from icelens.review.order import Order
from icelens.review.records import Verdict


@dataclass(frozen=True)
class Judgement:
    """A verdict to be given; `key` is the client's own name for this click, `label` that of a relabel."""

    index: int
    verdict: str
    key: str
    label: str | None = None


@dataclass(frozen=True)
class Bench:
    """A transaction in which verdicts are given, with the order by which doubt is counted."""

    connection: sqlite3.Connection
    about: About
    order: Order

    def judge(self, wanted: Judgement, who: str, new_class: bool) -> Verdict:
        """Write a verdict, unless it was written under this key already."""
        verdicts.check_text("key", wanted.key)
        if wanted.verdict not in VERDICTS:
            raise unknown("verdict", str(wanted.verdict), VERDICTS)
        verdict, label = self._meant(wanted)
        written = verdicts.by_key(self.connection, wanted.key)
        if written is not None:
            first = written[0]
            if (first.index, first.verdict, first.label, first.who) != (wanted.index, verdict, label, who):
                raise used_otherwise(wanted.key)
            return first
        if label is not None and not new_class:
            self._check_known(label)
        added = verdicts.add(self.connection, wanted.index, verdict, label=label, who=who, key=wanted.key)
        self._settle(wanted.index)
        return added

    def undo(self, who: str, key: str, *, index: int | None, of: str | None) -> Verdict | None:
        """Write that the newest verdict of a person, or of an example, is taken back; return that verdict.

        `of` names one verdict instead, by its key.
        """
        if index is not None:
            place_of(self.connection, self.about, index)
        written = verdicts.by_key(self.connection, key)
        if written is not None:
            row, takes_back = written
            if takes_back is None or row.who != who or index not in (None, row.index):
                raise used_otherwise(key)
            return verdicts.by_number(self.connection, takes_back)
        if of is None:
            last = verdicts.newest(self.connection, who=who, index=index)
        else:
            last = verdicts.standing_by_key(self.connection, of)
        if last is not None:
            verdicts.add(self.connection, last.index, "undo", who=who, key=key, takes_back=last.number)
            self._settle(last.index)
        return last

    def _meant(self, wanted: Judgement) -> tuple[str, str | None]:
        """The verdict and label to write: to give an example the label that it has is to keep it."""
        place = place_of(self.connection, self.about, wanted.index)
        label = wanted.label
        if wanted.verdict != "relabel":
            if label is not None:
                raise InputError(f"a label is given with relabel alone, not with {wanted.verdict}")
            return wanted.verdict, None
        if label is None:
            raise InputError("relabel needs the label to give")
        if label not in self.about.codes:
            verdicts.check_text("label", label)
        (code,) = self.connection.execute("SELECT label FROM examples WHERE place = ?", (place,)).fetchone()
        return ("keep", None) if self.about.classes[code] == label else ("relabel", label)

    def _check_known(self, label: str) -> None:
        query = "SELECT 1 FROM verdicts WHERE label = ? LIMIT 1"
        if label not in self.about.codes and not self.connection.execute(query, (label,)).fetchone():
            raise unknown("class", label, self.about.classes)

    def _settle(self, index: int) -> None:
        query = 'SELECT place, trust FROM examples WHERE "index" = ?'
        place, audited = self.connection.execute(query, (index,)).fetchone()
        verdicts.settle(self.connection, index, place, 1 - self.order.trust_of(place, audited))


def place_of(connection: sqlite3.Connection, about: About, index: Any) -> int:
    """The place of an example in the audit's order."""
    if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < about.examples:
        raise InputError(f"no example {index!r:.40}; indices are 0 to {about.examples - 1}")
    place: int = connection.execute('SELECT place FROM examples WHERE "index" = ?', (index,)).fetchone()[0]
    return place


def used_otherwise(key: str) -> InputError:
    """The error for a key that names another click."""
    return InputError(f"the key '{key}' was used for another verdict")
