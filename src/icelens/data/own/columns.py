"""Which column is what, where the user did not say: names and contents tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from icelens.data.own import naming, profile
from icelens.data.own.asked import BY_NUMBER, Asked
from icelens.data.own.numbers import slips
from icelens.data.own.origin import brief, listed
from icelens.data.own.table import Table, type_name
from icelens.errors import InputError


@dataclass(frozen=True)
class Inputs:
    """The columns to learn from, what they are, and why others are not among them."""

    kind: str
    columns: tuple[str, ...]
    said: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)


def find_label(table: Table, asked: Asked) -> tuple[str, tuple[str, ...]]:
    """The column of labels: named by the user, marked by `datasets`, or known by its name."""
    coded = [name for name in table.class_names if name in table.names and name not in asked.names]
    found = asked.label_of(table.names) if asked.label or len(coded) != 1 else coded[0]
    if found is not None:
        return found, () if asked.label else (f"labels are in column {brief(found)}",)
    hint = f"; if the first line is no header, {BY_NUMBER}" if table.untyped else ""
    raise table.origin.error(
        f"no column looks like labels; columns are {listed(table.names)}: name one with --label{hint}"
    )


def find_id(table: Table, asked: Asked, label: str) -> tuple[str | None, tuple[str, ...]]:
    """The column of ids: named by the user, or known by its name where every value differs."""
    if asked.id is not None:
        return asked.id, ()
    free = [name for name in table.names if name not in (*asked.names, label)]
    named = [*naming.preferred(free, naming.IDS), *filter(naming.like_id, free)]
    # pandas writes its row names into a first column without a name.
    unnamed = [name for name in free[:1] if name in table.nameless or name == naming.UNNAMED]
    for name in (*named, *unnamed):
        if _names_rows(table, name):
            return name, (f"ids are in column {brief(name)}",)
    return None, ("ids are row numbers",)


def _names_rows(table: Table, name: str) -> bool:
    column, sort = table.column(name), table.sort(name)
    if column.null_count or sort not in ("string", "number"):
        return False
    is_text = sort == "string" and profile.is_text(column, named=False)
    return not is_text and profile.distinct(column) == len(column)


def find_inputs(table: Table, asked: Asked, taken: set[str], codes: NDArray[np.int64]) -> Inputs:
    """What to learn from: images before text before features, unless the user said.

    Args:
        table: the columns.
        asked: what the user named.
        taken: the columns of labels and ids.
        codes: the label of every row, -1 where it has none.
    """
    if asked.inputs:
        kind, names = asked.inputs
        return Inputs(kind, names, tuple(_slips(table, names)) if kind == "table" else ())
    reasons = _unfit(table, taken)
    free = [name for name in table.names if name not in taken and name not in reasons]
    for find in (_find_image, _find_text, _find_features, _find_short_text):
        found = find(table, free, codes)
        if found is not None and found.columns:
            return _with_left_out(table, found, taken, reasons)
        reasons |= found.reasons if found else {}
    raise _nothing(table, taken, reasons)


def _slips(table: Table, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if table.sort(name) == "string" and (why := slips(table.column(name))):
            yield f"{brief(name)} is read as categories: {why}"


def _unfit(table: Table, taken: set[str]) -> dict[str, str]:
    reasons = {}
    for name in table.names:
        if name not in taken and naming.copies_label(name):
            reasons[name] = "named like a label"
        elif name not in taken and naming.like_id(name):
            reasons[name] = "named like an id"
    return reasons


def _find_image(table: Table, free: list[str], codes: Any) -> Inputs | None:
    for name in free:
        column, sort = table.column(name), table.sort(name)
        if sort == "image" or (sort == "string" and profile.holds_image_files(column, table.folder)):
            return Inputs("image", (name,), (f"images are in column {brief(name)}",))
    return None


def _find_text(table: Table, free: list[str], codes: Any) -> Inputs | None:
    known = [name for name in free if naming.plain(name) in naming.TEXTS]
    texts = [
        name for name in free
        if table.sort(name) == "string" and profile.is_text(table.column(name), named=name in known)
    ]  # fmt: skip
    named = [name for name in texts if name in known]
    if named and all(naming.plain(name) in naming.TITLES for name in named):
        # A title alone says less than what it stands above.
        return _texts(sorted([*named, *(name for name in texts if name not in known)][:2], key=free.index))
    return _texts(named or texts)


def _find_short_text(table: Table, free: list[str], codes: Any) -> Inputs | None:
    """Names, queries, codes: strings that are no categories, where there is nothing else to learn from."""
    return _texts([
        name for name in free
        if table.sort(name) == "string"
        and not profile.few_values(table.column(name))
        and not profile.ends_like_images(table.column(name))
    ])  # fmt: skip


def _texts(names: list[str]) -> Inputs | None:
    if not names:
        return None
    said = (
        f"text is in column {brief(names[0])}"
        if len(names) == 1
        else f"text is in columns {listed(names[:2])}"
    )
    return Inputs("text", tuple(names[:2]), (said,))


def _find_features(table: Table, free: list[str], codes: NDArray[np.int64]) -> Inputs | None:
    reasons = {name: _no_feature(table, name, codes) for name in free}
    found = [name for name, reason in reasons.items() if not reason]
    said = listed(found) if len(found) < 9 else f"{len(found):,} columns"
    return Inputs("table", tuple(found), (f"features are in {said}",), reasons)


def _no_feature(table: Table, name: str, codes: NDArray[np.int64]) -> str:
    """Why a column is not learned from, or nothing."""
    column, sort = table.column(name), table.sort(name)
    if sort == "vector":
        return ""
    if sort not in ("number", "category", "string"):
        return {"date": "a date", "nothing": "empty"}.get(sort, f"holds {type_name(column.type)}")
    if profile.constant(column):
        return "never changes" if column.null_count < len(column) else "empty"
    if sort == "string" and profile.dates(column):
        return "a date"
    if sort == "string" and not profile.few_values(column):
        return slips(column) or "too many different values"
    order = profile.order_of_rows(column)
    return order or ("the label under another name" if profile.same_as(column, codes) else "")


def _with_left_out(table: Table, found: Inputs, taken: set[str], reasons: dict[str, str]) -> Inputs:
    why = {**reasons, **found.reasons}
    known = {*taken, *found.columns}
    left = [name for name in table.names if name not in known]
    said = f"left out: {_with_reasons(left, why)}"
    return Inputs(found.kind, found.columns, (*found.said, said) if left else found.said)


def _with_reasons(names: list[str], why: Mapping[str, str], limit: int = 12) -> str:
    shown = [f"{brief(name)} ({why[name]})" if why.get(name) else brief(name) for name in names[:limit]]
    more = f" and {len(names) - limit:,} more" if len(names) > limit else ""
    return f"{', '.join(shown)}{more}"


def _nothing(table: Table, taken: set[str], reasons: dict[str, str]) -> InputError:
    left = [name for name in table.names if name not in taken]
    if not left:
        return table.origin.error(f"no column to learn from beside {listed(sorted(taken))}")
    for name in left:
        if table.sort(name) == "string" and profile.ends_like_images(table.column(name)):
            first = pc.drop_null(table.column(name))[0].as_py()
            return table.origin.error(
                f"column {brief(name)} names images, but {brief(first)} is not in {table.folder}; "
                "paths are relative to the table"
            )
    return table.origin.error(
        f"no column to learn from: {_with_reasons(left, reasons)}; name some with --text, --image or "
        "--features"
    )
