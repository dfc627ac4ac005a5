"""NumPy's .npz: all arrays kept, in their order and compression."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from icelens.data.own.labels import INTEGER
from icelens.data.own.origin import Origin, brief
from icelens.export.changes import Changes
from icelens.export.rewrite.columns import gone_rows, kept_rows


def rewrite_npz(source: Path, label: str, changes: Changes, out: Path, *, before: str | None = None) -> int:
    """Write an .npz file again; returns the number of rows.

    Arrays with as many rows as there are labels lose the rows that are left out; others are copied.
    """
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(out, "w") as new:
        if before is not None and f"{before}.npy" in old.namelist():
            raise Origin(source).error(f"has an array '{before}' already; rename it, or leave --history out")
        with old.open(f"{label}.npy") as file:
            given: NDArray[Any] = npy.read_array(file, allow_pickle=False)
        kept = kept_rows(gone_rows(changes), 0, len(given))
        labels = _relabelled(given, changes, Origin(source))
        for member in old.infolist():
            name = member.filename.removesuffix(".npy")
            if name == label:
                _write(new, member, labels[kept])
            elif len(kept) < len(given) and _rows(old, member) == len(given):
                _write(new, member, _array(old, member, source)[kept])
            else:
                new.writestr(member, old.read(member))
        if before is not None:
            _write(new, zipfile.ZipInfo(f"{before}.npy"), given[kept])
    return len(kept)


def _relabelled(given: NDArray[Any], changes: Changes, origin: Origin) -> NDArray[Any]:
    new = [_value(name, given, origin) for name in changes.new_classes]
    # A longer string than the array has room for makes it wider, never shorter.
    added = np.array(new, dtype=None if given.dtype.kind in "SU" else given.dtype)
    pool = np.concatenate([given, added.reshape(-1, *given.shape[1:])]) if new else given
    place = {name: len(given) + number for number, name in enumerate(changes.new_classes)} | changes.known
    taken = np.arange(len(given))
    for row, name in changes.relabelled.items():
        taken[row] = place[name]
    labels: NDArray[Any] = pool[taken]
    return labels


def _value(name: str, given: NDArray[Any], origin: Origin) -> Any:
    kind = given.dtype.kind
    if kind == "U":
        return name
    if kind == "S":
        return name.encode()
    if kind in "iuf" and INTEGER.fullmatch(name) and _holds(given.dtype, int(name)):
        return int(name)
    raise origin.error(f"labels are of type {given.dtype}, which class {brief(name)} cannot be")


def _holds(kind: np.dtype[Any], number: int) -> bool:
    """Whether a type has this number: one that it has no room for, or rounds, would be another class."""
    if kind.kind in "iu":
        bounds = np.iinfo(kind)
        return int(bounds.min) <= number <= int(bounds.max)
    with np.errstate(over="ignore"):
        return float(kind.type(number)) == number


def _rows(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> int | None:
    """How long the first axis of an array is; None where it has none, or is no array."""
    with archive.open(member) as file:
        try:
            version = npy.read_magic(file)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape = read(file)[0]
        except ValueError:
            return None
    return shape[0] if shape else None


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, source: Path) -> NDArray[Any]:
    with archive.open(member) as file:
        try:
            array: NDArray[Any] = npy.read_array(file, allow_pickle=False)
        except ValueError:
            raise Origin(source).damaged(
                f"array {brief(member.filename)} holds Python objects, which are never "
                "unpickled: no row of it can be left out; save it as strings or numbers"
            ) from None
    return array


def _write(archive: zipfile.ZipFile, member: zipfile.ZipInfo, array: NDArray[Any]) -> None:
    content: IO[bytes] = io.BytesIO()
    npy.write_array(content, np.asanyarray(array), allow_pickle=False)
    info = zipfile.ZipInfo(member.filename, member.date_time)
    info.compress_type, info.external_attr = member.compress_type, member.external_attr
    content.seek(0)
    archive.writestr(info, content.read())
