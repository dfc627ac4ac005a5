"""The page: what is in it, how it is put together, and how it stays small."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icelens import __version__
from icelens.auditing.report import charts, classes, words
from icelens.auditing.report.about import about
from icelens.auditing.report.foreign import one_line, script_json
from icelens.auditing.report.suspects import Item, choose, describe
from icelens.auditing.report.templating import environment
from icelens.counts import counted
from icelens.errors import InputError
from icelens.files import replacing

if TYPE_CHECKING:
    from icelens.auditing.result import Audit
    from icelens.data.labelled import Labelled

MOST_BYTES = 7_900_000
STATIC = 100  # suspects that the page shows without its script, and in print


def write_report(
    audit: Audit, data: Labelled, path: Path, *, title: str | None = None, limit: int = 500
) -> None:
    """Write the report of an audit as one HTML file that opens offline, under 8 MB whatever the data.

    Args:
        audit: what was found.
        data: what was audited, for pictures, texts and values of the suspects.
        path: the file to write; it is written whole or not at all.
        title: of the page; the name of the data where left out.
        limit: the most suspects in the file; fewer where they would not fit.
    """
    if limit < 1:
        raise InputError(f"limit must be at least 1, got {limit}")
    if len(audit.examples) != len(data):
        raise InputError(f"the audit has {counted(len(audit.examples), 'example')} but the data {len(data)}")
    page = render(audit, data, title=title, limit=limit)
    with replacing(Path(path)) as part:
        part.write_bytes(page)


def render(audit: Audit, data: Labelled, *, title: str | None, limit: int) -> bytes:
    """The page as bytes; the suspects at the end of the list are left out until it is small enough."""
    context = _context(audit, data, title)
    items = describe(audit, data, choose(audit, limit))
    page = _page(context, items)
    while len(page) > MOST_BYTES and items:
        items = items[: len(items) * 3 // 4]
        page = _page(context, items)
    return page


def _context(audit: Audit, data: Labelled, title: str | None) -> dict[str, Any]:
    """All that does not depend on how many suspects there is room for."""
    confusion, ridges = classes.confusion(audit), charts.ridges(audit)
    kinds = audit.examples["kind"].astype(str).value_counts()
    return {
        "title": one_line(title if title is not None else f"Label audit of {data.name}", 160),
        "name": one_line(data.name),
        "data_kind": data.kind,
        "headline": words.headline(audit, data.name),
        "next_step": words.next_step(audit),
        "beside": words.beside(audit),
        "doubt": words.doubt(audit),
        "estimate": audit.estimate,
        "examples": len(audit.examples),
        "issues": int(audit.examples["is_issue"].sum()),
        "kinds": {kind: int(kinds.get(kind, 0)) for kind in ("mislabelled", "ambiguous")},
        "curve": charts.curve(audit),
        # Side by side they are equally high.
        "histogram": charts.histogram(audit, ridges["height"]) if ridges else charts.histogram(audit),
        "ridges": ridges,
        "classes": classes.names(audit),
        "confusion": confusion,
        "pairs": classes.pairs(audit, beside_a_map=confusion is not None),
        "bars": classes.bars(audit),
        "about": about(audit, data),
        "version": __version__,
    }


def _page(context: dict[str, Any], items: Sequence[Item]) -> bytes:
    css, script = _asset("report.css"), _asset("report.js")
    page = environment("icelens.auditing.report").get_template("report.html").render(
        context,
        items=items,
        static=items[:STATIC],
        embedded=script_json(_embedded(context, items)),
        css=css,
        script=script,
        csp=_policy(css, script),
    )  # fmt: skip
    return page.encode()


def _embedded(context: dict[str, Any], items: Sequence[Item]) -> dict[str, Any]:
    """What the script sorts, filters and draws from."""
    used = {code for item in items for code in (item["label"], item["guess"])}
    # What the tables of classes link to, although none of it may be among the suspects of this file.
    used |= {row["code"] for rows in context["bars"][:2] for row in rows}
    used |= {
        row[code] for rows in context["pairs"][:2] for row in rows for code in ("label_code", "guess_code")
    }
    curve = context["curve"]
    return {
        "items": [_for_script(item, static=item["rank"] <= STATIC) for item in items],
        "classes": {str(code): context["classes"][code] for code in sorted(used)},
        "curve": curve and {key: curve[key] for key in ("points", "reach", "top", "height")},
    }


def _for_script(item: Item, *, static: bool) -> Item:
    """A picture that the page shows anyway is not written twice, and names of classes are looked up."""
    left_out = {"label_name", "guess_name", *(["picture"] if static else [])}
    return {key: value for key, value in item.items() if key not in left_out}


def _policy(css: str, script: str) -> str:
    """What a browser may run and load: the page's own style and script, and pictures within it."""
    style_hash, script_hash = (_hash(text) for text in (css, script))
    return (
        f"default-src 'none'; img-src data:; style-src '{style_hash}'; script-src '{script_hash}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def _asset(name: str) -> str:
    # The hash is over the characters between the tags, so both must have the same line ends.
    folder = resources.files("icelens.auditing.report") / "templates"
    return "\n" + (folder / name).read_text(encoding="utf-8").replace("\r\n", "\n")
