"""What a page was asked for: filters from an address, and the address of the same filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from icelens.auditing.report.foreign import one_line
from icelens.errors import InputError
from icelens.review.filters import KINDS, Filters

LONGEST = 200  # characters of a search
MOST = 200  # examples named in one address
STATES = {"": "Not yet", "all": "All", "reviewed": "Reviewed", "keep": "Kept", "relabel": "Relabelled",
          "drop": "Dropped", "unsure": "Unsure"}  # fmt: skip
OPTIONS = 500  # classes that a menu can offer; others are reached by a click on their name


@dataclass(frozen=True)
class Asked:
    """Filters as an address holds them: classes by number, since a name may be anything."""

    q: str
    label: str
    guess: str
    kind: str
    state: str
    filters: Filters
    said: str

    @property
    def query(self) -> str:
        """The part of an address behind the question mark; empty where nothing is asked for."""
        return urlencode({name: value for name, value in self._named() if value})

    @property
    def keeps_judged(self) -> bool:
        """Whether an example stays in the list when it has been judged."""
        return self.filters.state != "open"

    def _named(self) -> list[tuple[str, str]]:
        return [(name, getattr(self, name)) for name in ("q", "label", "guess", "kind", "state")]


def asked_of(parameters: Mapping[str, str], classes: Sequence[str]) -> Asked:
    """The filters of an address; an error names what is wrong with it."""
    q, kind = parameters.get("q", "").strip(), parameters.get("kind", "")
    state = parameters.get("state", "")
    if len(q) > LONGEST:
        raise InputError(f"a search holds at most {LONGEST} characters, got {len(q)}")
    if state not in STATES or kind not in ("", *KINDS):
        raise InputError("unknown filter; go back to the list")
    label, guess = (number_of(parameters.get(name, ""), len(classes)) for name in ("label", "guess"))
    names = [None if code is None else classes[code] for code in (label, guess)]
    filters = Filters(label=names[0], guess=names[1], kind=kind or None, state=state or "open", query=q)
    codes = ["" if code is None else str(code) for code in (label, guess)]
    return Asked(q, codes[0], codes[1], kind, state, filters, _said(filters, state))


def _said(filters: Filters, state: str) -> str:
    """The filters in words."""
    parts = [f"label {one_line(filters.label, 40)}"] if filters.label is not None else []
    parts += [f"guess {one_line(filters.guess, 40)}"] if filters.guess is not None else []
    parts += [filters.kind] if filters.kind else []
    parts += [STATES[state].lower()] if state and state != "all" else []
    parts += [f"“{one_line(filters.query, 40)}”"] if filters.query else []
    return ", ".join(parts)


def number_of(text: str, end: int) -> int | None:
    """A whole number below `end`; None where there is none to read."""
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 12) or int(text) >= end:
        raise InputError(f"'{one_line(text, 40)}' is no number from 0 to {end - 1}")
    return int(text)


def numbers_of(text: str, end: int) -> set[int]:
    """Whole numbers between commas."""
    parts = [part for part in text.split(",") if part]
    if len(parts) > MOST:
        raise InputError(f"at most {MOST} examples can be named, got {len(parts)}")
    return {number for part in parts if (number := number_of(part, end)) is not None}


def choices(asked: Asked, classes: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
    """What the menus offer, as (value, text)."""
    return {
        "label": _classes(classes, asked.label),
        "guess": _classes(classes, asked.guess),
        "kind": [("", "All"), *((kind, kind) for kind in KINDS)],
        "state": list(STATES.items()),
    }


def _classes(classes: Sequence[str], chosen: str) -> list[tuple[str, str]]:
    offered = [(str(code), one_line(name, 40)) for code, name in enumerate(classes[:OPTIONS])]
    if chosen and int(chosen) >= OPTIONS:
        offered.append((chosen, one_line(classes[int(chosen)], 40)))
    return [("", "All"), *offered]
