"""The pages: what the templates are given, and the templates."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from icelens.auditing.report.foreign import one_line
from icelens.auditing.report.templating import environment
from icelens.auditing.report.words import count
from icelens.counts import counted
from icelens.errors import InputError
from icelens.review import shown
from icelens.review.asked import Asked, choices, number_of
from icelens.review.desk import Desk
from icelens.review.records import Example
from icelens.review.store import Store

PAGE = 60  # examples of a list
TRAIL = 100  # examples that a page without the script remembers; the script remembers as many
SEARCHED = {"image": "id or file", "text": "words of a text, or an id", "table": "categories, or an id"}


def render(name: str, context: dict[str, Any]) -> str:
    """A page or a part of one."""
    # Half a character, as names of files may hold, can be escaped but not encoded.
    return (
        environment("icelens.review").get_template(name).render(context).encode("utf-8", "replace").decode()
    )


@cache
def asset(name: str) -> bytes:
    """A file that the pages need; the style is the report's, with what a review has beyond it."""
    own = (resources.files("icelens.review") / "static" / name).read_bytes()
    report = resources.files("icelens.auditing.report") / "templates" / "report.css"
    return report.read_bytes() + own if name == "review.css" else own


ASSETS = {"review.css": "text/css; charset=utf-8", "review.js": "text/javascript; charset=utf-8",
          "icon.png": "image/png"}  # fmt: skip


def _common(desk: Desk, store: Store, asked: Asked) -> dict[str, Any]:
    return {
        "name": one_line(store.name),
        "kind": store.kind,
        "folder": one_line(shlex.quote(str(desk.folder)), 400),
        "filters": asked,
        "run": desk.run,
    }


def list_page(
    desk: Desk, store: Store, asked: Asked, *, after: int | None, order: int | None, progress: dict[str, Any]
) -> str:
    """A page of the list."""
    context = list_part(desk, store, asked, after=after, order=order)
    matching = counts_of(store, asked)
    if asked.q:
        found = len(context["items"])
        matching = f"{'More than ' if context['more'] else ''}{count(found)} found, the least trusted first"
    return render(
        "list.html",
        {
            **context,
            "view": "list",
            "progress": progress,
            "choices": choices(asked, store.classes),
            "searched": SEARCHED[store.kind],
            "matching": matching,
        },
    )


OF_STATE = {  # what of a review's progress a list of verdicts shows, and in words
    "keep": ("kept", "kept"),
    "relabel": ("relabelled", "with a new label"),
    "drop": ("dropped", "to be dropped"),
    "unsure": ("unsure", "unsure"),
    "reviewed": ("reviewed", "reviewed"),
}


def counts_of(store: Store, asked: Asked) -> str:
    """How many examples match, and how many of them nobody has looked at; "" where a search says which."""
    if asked.q:
        return ""
    total, state = store.progress(asked.filters), asked.filters.state
    if state in OF_STATE:
        name, words = OF_STATE[state]
        return f"{counted(getattr(total, name), 'example')} {words}"
    return f"{counted(total.total, 'example')}, {count(total.open)} not reviewed, the least trusted first"


def list_part(
    desk: Desk, store: Store, asked: Asked, *, after: int | None, order: int | None
) -> dict[str, Any]:
    """The examples of a page of the list, and the address of the next one.

    Args:
        desk: of the review.
        store: of the review.
        asked: which examples.
        after: the rank to go on from.
        order: the order that it is a rank of; where verdicts have led to another, the list starts anew.
    """
    today = store.order_version
    found = store.page(asked.filters, after=after if order in (None, today) else None, limit=PAGE + 1)
    query = f"{asked.query}&" if asked.query else ""
    return {
        **_common(desk, store, asked),
        "items": [shown.item(one, desk.codes, desk.run) for one in found[:PAGE]],
        "more": f"{query}after={found[PAGE - 1].rank}&order={today}" if len(found) > PAGE else "",
    }


def single(
    desk: Desk, store: Store, asked: Asked, example: Example | None, trail: Mapping[str, str]
) -> dict[str, Any]:
    """What is shown of one example, beside its nearest trusted ones; None where none is left.

    Args:
        desk: of the review.
        store: of the review.
        asked: which examples.
        example: the one that is shown.
        trail: what was `seen` and `judged` before it, as numbers between commas.
    """
    context = {**_common(desk, store, asked), "view": "single", "order": store.order_version, "item": None}
    if example is None:
        return context
    near = {
        "label": _near(desk, store, example.near_label),
        "guess": _near(desk, store, example.near_guess),
    }
    item = shown.item(example, desk.codes, desk.run, whole=True)
    return {**context, **trail, "seen": added(trail["seen"], example.index), "item": item, "near": near,
            "classes": shown.class_rows(example, store.classes, desk.codes)}  # fmt: skip


def added(numbers: str, index: int) -> str:
    """Numbers between commas and one more; the oldest are forgotten.

    >>> added("4,7,2", 7)
    '4,2,7'
    """
    before = [one for one in numbers.split(",") if one not in ("", str(index))]
    return ",".join([*before, str(index)][-TRAIL:])


def _near(desk: Desk, store: Store, rows: tuple[int, ...]) -> list[shown.Item]:
    return [shown.item(one, desk.codes, desk.run) for one in store.examples(rows)] if rows else []


def following(
    store: Store, asked: Asked, here: int | None, *, order: int | None, seen: set[int], judged: set[int]
) -> Example | None:
    """The next example to look at; None where none is left.

    The list goes on behind the one that is shown or, when verdicts have put it into another order, from its
    top. What was passed over comes again when all others are through.

    Args:
        store: of the review.
        asked: which examples.
        here: the one that is shown, which is not the next.
        order: the order that the page was made with.
        seen: what this page showed before.
        judged: what it has judged, stored or still on its way.
    """
    away = judged if here is None else {*judged, here}
    from_here = here is not None and order in (None, store.order_version)
    starts = [store.example(here).rank, None] if from_here and here is not None else [None]
    for after, without in [*((start, away | seen) for start in starts), (None, away)]:
        for limit in (4, len(without) + 1):
            found = store.page(asked.filters, after=after, limit=limit)
            left = [one for one in found if one.index not in without]
            if left:
                return left[0]
            if len(found) < limit:
                break
    return None


def chosen_label(store: Store, example: Example, fields: dict[str, str]) -> tuple[str, str | None, bool]:
    """The verdict of a form: its name, the class of a relabel, and whether that class may be new."""
    if "class" in fields:
        code = number_of(fields["class"], len(store.classes))
        if code is None:
            raise InputError("class must be the number of a class, got ''")
        return "relabel", store.classes[code], False
    if "label" in fields:
        return "relabel", fields["label"].strip(), fields.get("new") == "yes"
    if fields.get("verdict") == "guess":
        return "relabel", example.guess, False
    return fields.get("verdict", ""), None, False
