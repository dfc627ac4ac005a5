"""JSON Lines, and .json files that are one list: what does not change is the same to the byte."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import IO, Any

from icelens.data.own.labels import INTEGER
from icelens.data.own.origin import brief, sound
from icelens.data.own.table import Table
from icelens.data.own.textfile import opened
from icelens.export.changes import Changes

BOM = "\ufeff"
NUMBER = re.compile(r"-?[0-9]+(|\.0*)")
_SPACE = re.compile(r"[ \t\r\n]*")
_decoder = json.JSONDecoder()
Piece = tuple[str, str | None]  # what lies before an object, and the object; None at the end of a list


def rewrite_json(
    table: Table, label: str, changes: Changes, file: IO[bytes], *, before: str | None = None
) -> int:
    """Write the objects of a file again; returns how many.

    Args:
        table: what was read, with its path.
        label: the key of labels.
        changes: what to do.
        file: where to write to.
        before: a key to add to every object, which holds its label as it was.
    """
    relabelled, dropped, spelled = changes.relabelled, changes.dropped, _spelled(table, label, changes)
    row, kept = -1, 0
    for between, text in _pieces(table):
        row += text is not None
        if text is not None and row in dropped:
            continue
        # A comma stands between two objects: where none was written yet, it goes with the one left out.
        if text is None or kept or not between.strip():
            file.write(between.encode())
        if text is not None:
            value = spelled[relabelled[row]] if row in relabelled else None
            file.write(_changed(text, label, value, before).encode())
            kept += 1
    return kept


def _pieces(table: Table) -> Iterator[Piece]:
    """The file in its order, nothing left out: each object, with what lies between it and the one before."""
    with opened(table.path) as file:
        if table.path.name.lower().removesuffix(".gz").endswith(".json"):
            whole = file.read().decode()
            if whole.removeprefix(BOM).lstrip().startswith("["):
                yield from _list(whole)
                return
            lines: Any = (line.encode() for line in re.split(r"(?<=\n)", whole))
        else:
            lines = file
        yield from _lines(lines)


def _lines(lines: Any) -> Iterator[Piece]:
    for number, line in enumerate(lines):
        text = line.decode()
        if number == 0 and text.startswith(BOM):  # it stays, should the first row go
            yield BOM, None
            text = text.removeprefix(BOM)
        yield (text, None) if not text.removeprefix(BOM).strip() else ("", text)


def _list(text: str) -> Iterator[Piece]:
    end = text.index("[") + 1
    yield text[:end], None
    start = _after_space(text, end)
    while text[start] != "]":
        begin = _after_space(text, start + 1) if text[start] == "," else start
        _, stop = _decoder.raw_decode(text, begin)
        yield text[end:begin], text[begin:stop]
        end = stop
        start = _after_space(text, end)
    yield text[end:], None


def _changed(text: str, label: str, value: str | None, before: str | None) -> str:
    """An object with another value of its label, if one is given, and its old label, if that is asked for."""
    if value is None and before is None:
        return text
    start, end = _members(text).get(label, (0, 0))
    changed = text if value is None else text[:start] + value + text[end:]
    if before is None:
        return changed
    last = changed.rindex("}")
    held = changed[:last].rstrip()
    separator = "" if held.endswith("{") else "," if '":' in held and '": ' not in held else ", "
    colon = ": " if separator != "," else ":"
    added = f"{separator}{json.dumps(before)}{colon}{text[start:end] or 'null'}"
    return held + added + changed[len(held) :]


def _members(text: str) -> dict[str, tuple[int, int]]:
    """Where the value of each key of an object starts and ends; of a key that comes twice the last counts.

    >>> _members('{"a": [1, {"a": 2}], "b" :"x"}')
    {'a': (6, 19), 'b': (26, 29)}
    """
    found, place = {}, _after_space(text, text.index("{") + 1)
    while text[place] != "}":
        key, place = _decoder.raw_decode(text, place)
        start = _after_space(text, _after_space(text, place) + 1)  # over the colon
        _, end = _decoder.raw_decode(text, start)
        found[sound(key)] = (start, end)
        place = _after_space(text, end)
        place = _after_space(text, place + 1) if text[place] == "," else place
    return found


def _after_space(text: str, place: int) -> int:
    space = _SPACE.match(text, place)
    assert space is not None, "the pattern fits nothing too"
    return space.end()


def _spelled(table: Table, label: str, changes: Changes) -> dict[str, str]:
    """How the file writes each class that is given: as it does elsewhere, or by the type of the others."""
    wanted = set(changes.relabelled.values())
    rows = {changes.known[name]: name for name in wanted if name in changes.known}
    typical = next(iter(changes.known.values()))
    found: dict[str, str] = {}
    example = ""
    objects = (text for _, text in _pieces(table) if text is not None)
    for row, text in enumerate(objects if wanted else ()):
        if row in rows or row == typical:
            start, end = _members(text)[label]
            example = text[start:end] if row == typical else example
            found |= {rows[row]: text[start:end]} if row in rows else {}
        if len(found) == len(rows) and example:
            break
    return found | {name: _new(table, name, example) for name in changes.new_classes}


def _new(table: Table, name: str, example: str) -> str:
    """A class that the file does not have yet, of the type that the others have."""
    if example.startswith('"'):
        return json.dumps(name, ensure_ascii=example.isascii() and "\\u" in example)
    if INTEGER.fullmatch(name) and (whole := NUMBER.fullmatch(example)):
        return name + whole[1]
    raise table.origin.error(
        f"labels are written as {brief(example)[1:-1]}, which class {brief(name)} cannot be"
    )
