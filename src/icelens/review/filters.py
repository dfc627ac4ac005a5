"""Which examples a list shows: filters, and the SQL that walks through them in order.

Text of the user's reaches SQL as parameters alone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from icelens.auditing.result import AMBIGUOUS, MISLABELLED
from icelens.errors import InputError, unknown
from icelens.review.search import facets_of, matching

VERDICTS = ("keep", "relabel", "drop", "unsure")
STATES = ("all", "open", "reviewed", *VERDICTS)
KINDS = (MISLABELLED, AMBIGUOUS)
FEW = 1000  # verdicts, for each of which the index of words may be asked


@dataclass(frozen=True)
class Filters:
    """What an example must be to be listed.

    Args:
        label: the name of the given class.
        guess: the name of the class that the model guesses.
        kind: "mislabelled" or "ambiguous".
        issues: only what the audit lists as issues.
        state: "open" (no verdict stands), "reviewed" (one does), or the verdict that stands.
        query: words that its id, texts or categories hold, all of them.
    """

    label: str | None = None
    guess: str | None = None
    kind: str | None = None
    issues: bool = False
    state: str = "all"
    query: str = ""

    def __post_init__(self) -> None:
        if self.kind is not None and self.kind not in KINDS:
            raise unknown("kind", self.kind, KINDS)
        if self.state not in STATES:
            raise unknown("state", self.state, STATES)


@dataclass(frozen=True)
class Walk:
    """SELECTs of places of the audit's order: their rows pass the filters.

    Args:
        tables: what to read.
        index: the index to read it by, in order of `place`.
        place: the column of the place.
        where: the filters.
        parameters: what the filters are bound to.
    """

    tables: str
    place: str
    where: tuple[str, ...]
    parameters: dict[str, Any]
    index: str = ""

    def by_place(self, *conditions: str) -> str:
        """In the audit's order; nothing is sorted. The caller binds :most."""
        return self._sql(self.tables + self.index, self.place, *conditions)

    def by_rank(self, *conditions: str) -> str:
        """In today's order, by `rank_of`: all rows are read."""
        return self._sql(self.tables + self.index, f"rank_of({self.place})", *conditions)

    def among(self) -> str:
        """Those of the places in :near, a list in JSON, and in its order."""
        return self._sql(f"json_each(:near) j CROSS JOIN {self.tables}", "j.key", f"{self.place} = j.value")

    def _sql(self, tables: str, order: str, *conditions: str) -> str:
        every = " AND ".join((*self.where, *conditions)) or "1"
        return f"SELECT {self.place} FROM {tables} WHERE {every} ORDER BY {order} LIMIT :most"


def walk(filters: Filters, codes: Mapping[str, int], *, few: bool = True) -> Walk:
    """How to walk through the examples that pass the filters; `few` as `few_of_state` says.

    What drives the walk is what leaves the fewest: the words; else the verdicts, if one must stand; else
    the index over exactly the filters that are set, which is named so that nothing is left to statistics.
    """
    static = _static(filters, codes)
    if filters.query.strip():
        return _through_words(filters, static, few)
    if filters.state not in ("all", "open"):
        return _through_verdicts(filters, static)
    conditions = _conditions(static, "e")
    if filters.state == "open":
        conditions += ("NOT EXISTS (SELECT 1 FROM standing s WHERE s.place = e.place)",)
    return Walk("examples e", "e.place", conditions, static, _index(static))


def few_of_state(connection: sqlite3.Connection, filters: Filters) -> bool:
    """Whether the verdicts that the filters ask for are few."""
    where = "1" if filters.state == "reviewed" else "verdict = :state"
    query = f"SELECT count(*) FROM (SELECT 1 FROM standing WHERE {where} LIMIT :most)"
    found: int = connection.execute(query, {"state": filters.state, "most": FEW + 1}).fetchone()[0]
    return found <= FEW


def tallied(filters: Filters, codes: Mapping[str, int]) -> tuple[str, dict[str, Any]]:
    """The condition on `tallies t` for the label, guess, kind and issues asked for."""
    static = _static(filters, codes)
    return " AND ".join(_conditions(static, "t")) or "1", static


def _static(filters: Filters, codes: Mapping[str, int]) -> dict[str, Any]:
    """The filters that no verdict changes, by column."""
    found: dict[str, Any] = {}
    for column, name in (("label", filters.label), ("guess", filters.guess)):
        if name is not None:
            if name not in codes:
                raise _unknown_class(name, codes)
            found[column] = codes[name]
    if filters.kind is not None:
        found["kind"] = filters.kind
    if filters.issues or filters.kind is not None:
        found["is_issue"] = 1
    return found


def _unknown_class(name: str, codes: Mapping[str, int]) -> InputError:
    few = len(codes) <= 20
    return unknown("class", name, codes) if few else InputError(f"unknown class '{name[:80]}'")


def _conditions(static: Mapping[str, Any], table: str) -> tuple[str, ...]:
    # Not a parameter: SQLite takes an index over a part of a table only where it sees that part named.
    return tuple(
        f"{table}.is_issue = 1" if column == "is_issue" else f"{table}.{column} = :{column}"
        for column in static
    )


def _index(static: Mapping[str, Any]) -> str:
    names = [column for column in ("kind", "label", "guess") if column in static]
    if "is_issue" in static and "kind" not in static:
        names.insert(0, "issue")
    return f" INDEXED BY examples_{'_'.join(names)}" if names else ""


def _through_verdicts(filters: Filters, static: dict[str, Any]) -> Walk:
    conditions, parameters = ("e.place = s.place", *_conditions(static, "e")), dict(static)
    if filters.state != "reviewed":
        conditions += ("s.verdict = :state",)
        parameters["state"] = filters.state
    # CROSS: in the order written.
    return Walk("standing s CROSS JOIN examples e", "s.place", conditions, parameters)


def _through_words(filters: Filters, static: dict[str, Any], few: bool) -> Walk:
    place = "search.rowid"
    conditions: tuple[str, ...] = ("search MATCH :match",)
    parameters = {"match": matching(filters.query, facets_of(static)), "state": filters.state}
    of_state = "" if filters.state in ("open", "reviewed") else "s.verdict = :state"
    if filters.state == "open":
        conditions += (f"NOT EXISTS (SELECT 1 FROM standing s WHERE s.place = {place})",)
    elif filters.state != "all" and few:
        conditions += (f"{place} IN (SELECT s.place FROM standing s WHERE {of_state or 1})",)
    elif filters.state != "all":
        # Most of them are near the head of the list; words may be in all examples.
        conditions += (
            f"{place} <= (SELECT max(place) FROM standing)",
            f"EXISTS (SELECT 1 FROM standing s WHERE s.place = {place} AND {of_state or 1})",
        )
    return Walk("search", place, conditions, parameters)
