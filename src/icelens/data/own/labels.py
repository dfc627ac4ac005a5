"""Labels of any kind become codes 0, 1, ... with a name for each class."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from icelens.counts import counted
from icelens.data.own.origin import Origin, brief, listed
from icelens.data.own.table import is_string, plain, type_name

INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]*")


@dataclass(frozen=True, eq=False)
class Labels:
    """The given labels of the rows that have one.

    Args:
        codes: (N,), int64.
        classes: the name of class 0, 1, ...; each has an example.
        rows: (N,), int64, where they stand in the column.
        said: what was decided, a line each.
    """

    codes: NDArray[np.int64]
    classes: tuple[str, ...]
    rows: NDArray[np.int64]
    said: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rules:
    """How to read labels: what they are called in errors, and what is let through."""

    origin: Origin
    what: str
    drop_unlabelled: bool = False
    keep_rare: bool = False
    elsewhere: str = ""  # what to do where this column holds no classes


def read_labels(
    column: Any, rules: Rules, *, names: Sequence[str] | None = None, untyped: bool = False
) -> Labels:
    """Codes of a column's labels; classes are in natural order, or in their own where they have one.

    Args:
        column: a pyarrow array of strings, integers, booleans, whole floats or categories.
        rules: how to call it, and what is let through.
        names: what the integers in it, or the strings, stand for: class 0, 1, ...; -1 is a missing label.
        untyped: the strings are cells of a file without types, so "2.0" may be a number.
    """
    indices, values = _encode(column, rules)
    called, said = _names(values, rules, names, untyped)
    classes = list(dict.fromkeys(name for name in called if name is not None))
    if names is not None:
        classes = list(dict.fromkeys(names))
    elif not types.is_dictionary(column.type):
        classes = natural_order(classes)
    place = {name: code for code, name in enumerate(classes)}
    # A missing label has the last index, after all values.
    codes = np.array([-1 if name is None else place[name] for name in called] + [-1], dtype=np.int64)[indices]
    labels = _labelled(codes, tuple(classes), rules)
    check_classes(labels, rules)
    return Labels(labels.codes, labels.classes, labels.rows, (*said, *labels.said, *_alike(labels.classes)))


def read_class(cell: str, classes: Collection[str], codes: Sequence[str] = ()) -> str | None:
    """The class that a cell of a file without types means, by the classes that there are; None for no label.

    On its way through another table a class may have become its code, and an integer got a fraction.

    Args:
        cell: as it is written.
        classes: by their names.
        codes: the classes that 0, 1, ... stand for, where the labels were codes; -1 is a missing label.

    >>> read_class("2.0", ("1", "2")), read_class("2.0", ("two", "2.0")), read_class("1", (), ("no", "yes"))
    ('2', '2.0', 'yes')
    """
    if cell in classes:
        return cell
    number = read_whole(cell)
    if codes and INTEGER.fullmatch(number) and int(number) in range(-1, len(codes)):
        return None if int(number) < 0 else codes[int(number)]
    return number if all(INTEGER.fullmatch(name) for name in classes) else cell


def read_whole(cell: str) -> str:
    """A number whose fraction is nothing without it, all else as it is.

    >>> read_whole("2.0"), read_whole("2.5"), read_whole("2.x")
    ('2', '2.5', '2.x')
    """
    whole, _, fraction = cell.partition(".")
    return str(int(whole)) if DECIMAL.fullmatch(cell) and not fraction.strip("0") else cell


def natural_order(names: Sequence[str]) -> list[str]:
    """Integers by value, all else by the alphabet.

    >>> natural_order(["10", "9", "-1"]), natural_order(["b", "10", "9"])
    (['-1', '9', '10'], ['10', '9', 'b'])
    """
    return sorted(names, key=int if all(INTEGER.fullmatch(name) for name in names) else str)


def check_classes(labels: Labels, rules: Rules) -> None:
    """Raise unless there are at least two classes with two examples, and not as many as rows."""
    error, what, count = rules.origin.error, rules.what, len(labels.classes)
    if count == 1:
        raise error(
            f"{what} holds one class alone, {brief(labels.classes[0])}; an audit compares at least two"
        )
    if count > len(labels.codes) / 2:
        raise error(
            f"{what} holds {count:,} different values in {counted(len(labels.codes), 'row')}, such as "
            f"{brief(labels.classes[0])}; labels must be classes, these look like ids or text"
            + rules.elsewhere
        )
    rare = np.flatnonzero(np.bincount(labels.codes, minlength=count) == 1)
    if len(rare) and not rules.keep_rare:
        row = labels.rows[np.flatnonzero(labels.codes == rare[0])[0]]
        name = f"{brief(labels.classes[rare[0]])} (row {row:,})"
        raise error(
            f"{what}: "
            + (f"class {name} has" if len(rare) == 1 else f"{len(rare):,} classes, such as {name}, have")
            + f" one example alone; merge or remove it, or keep it with {rules.origin.option('keep_rare')}"
        )


def used(labels: Labels) -> Labels:
    """The same without the classes that no longer have an example."""
    present = np.unique(labels.codes)
    codes = np.searchsorted(present, labels.codes).astype(np.int64)
    return Labels(codes, tuple(labels.classes[code] for code in present), labels.rows, labels.said)


def _encode(column: Any, rules: Rules) -> tuple[NDArray[np.int64], list[Any]]:
    """The different values of a column, and for each row which one it is; one more where it is missing."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    column = plain(column)
    if types.is_null(column.type):
        return np.zeros(len(column), np.int64), []
    _check_type(column.type, rules)
    if not types.is_dictionary(column.type):
        column = column.dictionary_encode()
    values = column.dictionary.to_pylist()
    return column.indices.cast(pa.int64()).fill_null(len(values)).to_numpy(zero_copy_only=False), values


def _check_type(kind: Any, rules: Rules) -> None:
    kind = kind.value_type if types.is_dictionary(kind) else kind
    scalar = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, is_string)
    if not any(fits(kind) for fits in scalar):
        raise rules.origin.error(
            f"{rules.what} holds {type_name(kind)}; labels must be strings, integers or booleans"
            + rules.elsewhere
        )


def _names(
    values: list[Any], rules: Rules, names: Sequence[str] | None, untyped: bool
) -> tuple[list[str | None], list[str]]:
    """The name of each different value; None where it is a missing label."""
    # NaN alone differs from itself.
    found = [None if value is None or value != value or value == "" else value for value in values]  # noqa: PLR0124
    filled = [value for value in found if value is not None]
    if names is not None:
        return [None if value is None else _named(value, names, rules) for value in found], []
    if untyped and _decimals(filled):
        found = [None if value is None else float(value) for value in found]
        filled = [value for value in found if value is not None]
    if not any(isinstance(value, float | Decimal) for value in filled):
        return [None if value is None else str(value) for value in found], []
    _check_whole(filled, rules)
    said = [f"{rules.what} holds whole numbers such as {filled[0]}, read as {int(filled[0])}"]
    return [None if value is None else str(int(value)) for value in found], said


def _decimals(cells: list[str]) -> bool:
    fractions = [bool(DECIMAL.fullmatch(cell)) for cell in cells]
    return any(fractions) and all(
        fraction or INTEGER.fullmatch(cell) for fraction, cell in zip(fractions, cells, strict=True)
    )


def _named(value: Any, names: Sequence[str], rules: Rules) -> str | None:
    if isinstance(value, str) and value in names:
        return value
    if not isinstance(value, str) and value in range(-1, len(names)):
        # Hugging Face's code for a label that is not known.
        return None if value == -1 else names[int(value)]
    raise rules.origin.error(
        f"{rules.what} holds {brief(value)}, which is none of the {counted(len(names), 'class', 'classes')} "
        f"{listed(names)}"
    )


def _check_whole(values: list[Any], rules: Rules) -> None:
    broken = [value for value in values if value in (np.inf, -np.inf) or value != int(value)]
    if broken:
        raise rules.origin.error(
            f"{rules.what} holds {counted(len(values), 'different number')} such as {broken[0]}; "
            f"labels must be classes{rules.elsewhere}"
        )


def _labelled(codes: NDArray[np.int64], classes: tuple[str, ...], rules: Rules) -> Labels:
    rows = np.flatnonzero(codes >= 0)
    missing = len(codes) - len(rows)
    if not len(rows):
        raise rules.origin.error(f"{rules.what} is empty in every row{rules.elsewhere}")
    if missing and not rules.drop_unlabelled:
        raise rules.origin.error(
            f"{rules.what} is empty in {missing:,} of {counted(len(codes), 'row')}, first in row "
            f"{np.flatnonzero(codes < 0)[0]:,}; fill them in, or leave those rows out with "
            f"{rules.origin.option('drop_unlabelled')}"
        )
    said = (f"{counted(missing, 'row')} without a label left out",) if missing else ()
    return used(Labels(codes[rows], classes, rows.astype(np.int64), said))


def _alike(classes: tuple[str, ...]) -> list[str]:
    """Classes that are probably one, and labels of them wrong by a slip of the keyboard."""
    same = defaultdict(list)
    for name in classes:
        same[" ".join(unicodedata.normalize("NFKC", name).casefold().split())].append(name)
    return [
        f"classes {listed(names)} differ in case, spaces or encoding of letters alone; they are kept apart"
        for names in same.values() if len(names) > 1
    ]  # fmt: skip
