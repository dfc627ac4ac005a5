"""By what an audit knows its data again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from icelens import progress
from icelens.data import Labelled

CONTENTS = "contents_fingerprint"  # in recipe.json, of image files


def fingerprint(data: Labelled, *, contents: bool = False) -> str:
    """A hash of inputs, labels, classes and ids, by which an audit knows its data again.

    Args:
        data: the examples.
        contents: read image files, where else their names, sizes and times stand for them.
    """
    digest = hashlib.blake2b(digest_size=16)
    digest.update(json.dumps([data.kind, list(data.classes), len(data)]).encode())
    digest.update(np.ascontiguousarray(data.labels).data)
    digest.update("\0".join(map(str, data.ids)).encode("utf-8", "surrogatepass"))
    for part in _contents(data.inputs) if contents else _bytes_of(data.inputs):
        digest.update(part)
    return digest.hexdigest()


def contents_of(data: Labelled) -> dict[str, str]:
    """Of image files, what an audit knows a copy of them by."""
    return {CONTENTS: fingerprint(data, contents=True)} if are_files(data.inputs) else {}


def is_data_of(recipe: dict[str, Any], data: Labelled) -> bool:
    """Whether it is the data that a recipe was written for.

    Image files with other times are read to see whether they are copies: the times of a copy are its own.
    """
    if recipe.get("data_fingerprint") == fingerprint(data):
        return True
    return CONTENTS in recipe and contents_of(data).get(CONTENTS) == recipe[CONTENTS]


def are_files(inputs: Any) -> bool:
    """Whether inputs are the paths of files."""
    return isinstance(inputs, list) and isinstance(next(iter(inputs), None), Path)


def _contents(paths: list[Path]) -> Iterator[bytes]:
    with progress.bar("fingerprint", len(paths)) as bar:
        for path in paths:
            content = path.read_bytes()
            yield f"{path.name} {len(content)}\0".encode("utf-8", "surrogatepass")
            yield content
            bar(1)


def _bytes_of(inputs: Any) -> Any:
    """The content of the inputs, part by part; of image files their names, sizes and times."""
    import pandas as pd
    import scipy.sparse

    if isinstance(inputs, np.ndarray):
        yield json.dumps([str(inputs.dtype), inputs.shape]).encode()
        yield np.ascontiguousarray(inputs).data.cast("B")
    elif scipy.sparse.issparse(inputs):
        yield from (
            np.ascontiguousarray(part).data.cast("B") for part in (inputs.indptr, inputs.indices, inputs.data)
        )
    elif isinstance(inputs, pd.DataFrame):
        yield json.dumps([str(column) for column in inputs]).encode()
        for name in inputs:
            yield pd.util.hash_pandas_object(inputs[name], index=False).to_numpy().data.cast("B")
    else:
        for item in inputs:
            yield _identity(item)


def _identity(item: Any) -> bytes:
    if isinstance(item, Path):
        status = item.stat()
        return f"{item.name} {status.st_size} {status.st_mtime_ns}\0".encode("utf-8", "surrogatepass")
    if isinstance(item, tuple):
        return ("\x1f".join(item) + "\0").encode("utf-8", "surrogatepass")
    content: bytes = item.read() if hasattr(item, "read") else bytes(str(item), "utf-8")
    return content
