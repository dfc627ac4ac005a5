"""NumPy's .npz: named arrays in one file, never pickled."""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from icelens.data.own.asked import Asked
from icelens.data.own.origin import Origin, brief, listed, reading

INPUTS = ("X", "x", "features", "embeddings", "images", "texts", "text", "data")
LABELS = ("y", "label", "labels", "target", "targets", "Y")
IDS = ("ids", "id")
# What a damaged one raises: the zip, its compression, the header of an array, a size that memory cannot hold.
NPZ_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError, TypeError, AttributeError,
              SyntaxError, OverflowError, RuntimeError)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Arrays:
    """Inputs, labels and, where there are any, ids, with the names they have in the file."""

    names: tuple[str, str, str]
    values: tuple[Any, Any, Any]


def read_npz(path: Path, asked: Asked) -> tuple[Arrays, tuple[str, ...]]:
    """The arrays to learn from, and what was inferred."""
    origin = Origin(path)
    with reading(origin, "an .npz file", NPZ_ERRORS), path.open("rb") as file:
        content = np.load(file, allow_pickle=False)
        if not hasattr(content, "files"):
            raise origin.damaged("one array alone; save inputs and labels together with np.savez")
        inputs, label, ids = _choose(origin, list(content.files), asked)
        values = [None if name is None else _array(origin, content, name) for name in (inputs, label, ids)]
    return Arrays((inputs, label, ids or ""), (values[0], values[1], values[2])), _said(
        asked, inputs, label, ids
    )


def _choose(origin: Origin, names: list[str], asked: Asked) -> tuple[str, str, str | None]:
    asked.check_names(origin, names, "array")
    free = [name for name in names if name not in asked.names]
    label = asked.label or _find(origin, free, LABELS, "labels", "--label")
    if asked.inputs and len(asked.inputs[1]) > 1:
        raise origin.error(f"an .npz file has its inputs in one array, got {listed(asked.inputs[1])}")
    found = asked.inputs[1][0] if asked.inputs else None
    inputs = found or _find(origin, free, INPUTS, "inputs", "--features, --image or --text")
    return inputs, label, asked.id or next((name for name in IDS if name in free), None)


def _find(origin: Origin, names: list[str], known: tuple[str, ...], what: str, option: str) -> str:
    found = next((name for name in known if name in names), None)
    if found is None:
        raise origin.error(
            f"no array for {what} ({', '.join(known)}); arrays are {listed(names)}: name one with {option}"
        )
    return found


def _array(origin: Origin, content: Any, name: str) -> Any:
    with reading(origin, "an .npz file", NPZ_ERRORS):
        try:
            return content[name]
        except ValueError as error:
            if "allow_pickle" in str(error):
                raise origin.damaged(
                    f"array {brief(name)} holds Python objects, which are never unpickled; save it as "
                    "strings or numbers"
                ) from None
            raise


def _said(asked: Asked, inputs: str, label: str, ids: str | None) -> tuple[str, ...]:
    said = [] if asked.label else [f"labels are in array {brief(label)}"]
    said += [] if asked.inputs else [f"inputs are in array {brief(inputs)}"]
    return (
        *said,
        *([] if asked.id else [f"ids are in array {brief(ids)}" if ids else "ids are row numbers"]),
    )
