"""Search: what is indexed of an example, and what a user's words ask of the index.

The index knows of every example its words and its facets, by which a filter and a word meet within it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

LONGEST = 1000  # characters of a query
MOST = 20  # words of a query

# Scripts that set no spaces between words: each sign is a word of its own, and a word of theirs a phrase.
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff])"
)
_LETTER = re.compile(r"\w")


def spaced(text: str) -> str:
    """The text as it is indexed: with spaces where a word may end.

    >>> spaced("no 東京 yes")
    'no  東  京  yes'
    """
    return text if text.isascii() else _UNSPACED.sub(r" \1 ", text)


def facets_of(static: Mapping[str, Any]) -> list[str]:
    """The words that stand for what an example is; none of them is ever shown.

    >>> facets_of({"label": 3, "guess": 12, "kind": "ambiguous", "is_issue": 1})
    ['l3', 'g12', 'kambiguous', 'issue']
    """
    columns = [column for column in ("label", "guess", "kind") if static.get(column, "") != ""]
    facets = [f"{column[0]}{static[column]}" for column in columns]
    return [*facets, "issue"] if static.get("is_issue") else facets


def matching(query: str, facets: Sequence[str] = ()) -> str:
    """The question to FTS5: all of the user's words, each a string in quotes, none of them syntax.

    >>> matching("cats OR -dogs*", ["l3"])
    'facets : "l3" AND words : "cats" AND words : "OR" AND words : "-dogs*"'
    """
    words = [word for word in query.replace("\0", " ")[:LONGEST].split() if _LETTER.search(word)][:MOST]
    asked = [f"words : {_quoted(spaced(word))}" for word in words]
    # Signs alone are words of no text.
    return " AND ".join([*(f"facets : {_quoted(facet)}" for facet in facets), *(asked or ['words : ""'])])


def _quoted(text: str) -> str:
    return '"' + text.encode("utf-8", "replace").decode().replace('"', '""') + '"'
