"""Reading examples: which come next in a list, and what is known of each."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from icelens.review.about import About
from icelens.review.filters import Walk
from icelens.review.order import Order
from icelens.review.records import Example, Verdict, content_of

NEAR = 100  # ranks that are tried before all of the head

_QUERY = (
    'SELECT e.place, e."index", e.id, e.label, e.guess, e.trust, e.confidence, e.p_label, e.p_guess, '
    "e.kind, e.is_issue, c.shown, c.path, c.image IS NOT NULL, n.top, n.near_label, n.near_guess, "
    'v.number, v."index", v.verdict, v.label, v.who, v.at FROM json_each(?) j '
    "CROSS JOIN examples e ON e.place = j.value LEFT JOIN contents c ON c.place = e.place "
    "LEFT JOIN evidence n ON n.place = e.place LEFT JOIN standing s ON s.place = e.place "
    "LEFT JOIN verdicts v ON v.number = s.number ORDER BY j.key"
)


def next_places(
    connection: sqlite3.Connection, order: Order, steps: Walk, after: int | None, limit: int
) -> list[int]:
    """The places of the next examples: first of those with an order of their own, then of the rest.

    Args:
        connection: one that knows `rank_of` for this order.
        order: of today.
        steps: the walk through what passes the filters.
        after: the rank to go on from.
        limit: how many.
    """
    last = -1 if after is None else after
    found = _of_head(connection, order, steps, last, limit) if last < order.reach - 1 else []
    if len(found) < limit:
        bound = {**steps.parameters, "after": max(last, order.reach - 1), "most": limit - len(found)}
        found += _column(connection.execute(steps.by_place(f"{steps.place} > :after"), bound))
    return found


def _of_head(connection: sqlite3.Connection, order: Order, steps: Walk, last: int, limit: int) -> list[int]:
    """Most often the next few ranks hold enough; if not, all of the head is looked through."""
    near = order.by_rank[last + 1 : last + 1 + 2 * limit + NEAR]
    bound = {**steps.parameters, "most": limit}
    found = _column(connection.execute(steps.among(), {**bound, "near": json.dumps(near.tolist())}))
    if len(found) == limit or last + 1 + len(near) == order.reach:
        return found
    bound |= {"reach": order.reach, "after": last}
    query = steps.by_rank(f"{steps.place} < :reach", f"rank_of({steps.place}) > :after")
    return _column(connection.execute(query, bound))


def describe(
    connection: sqlite3.Connection, about: About, order: Order, places: Sequence[int]
) -> list[Example]:
    """The examples at these places of the audit's order."""
    rows = connection.execute(_QUERY, (json.dumps(list(places)),))
    return [_example(about, order, row) for row in rows]


def _example(about: About, order: Order, row: tuple[Any, ...]) -> Example:
    place, index, name, label, guess, trust, confidence, p_label, p_guess, kind, is_issue = row[:11]
    shown, path, image, top, near_label, near_guess = row[11:17]
    return Example(
        index,
        name,
        about.classes[label],
        about.classes[guess],
        order.trust_of(place, trust),
        confidence,
        p_label,
        p_guess,
        kind,
        bool(is_issue),
        order.rank(place),
        content_of(about.kind, about.columns, shown, path, bool(image)),
        None if row[17] is None else Verdict(*row[17:]),
        tuple((about.classes[code], p) for code, p in json.loads(top or "[]")),
        tuple(json.loads(near_label or "[]")),
        tuple(json.loads(near_guess or "[]")),
    )


def _column(rows: Iterable[tuple[int]]) -> list[int]:
    return [value for (value,) in rows]
