"""A data set as `datasets.load_from_disk` reads it: contents, labels, and what the audit says of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from icelens.counts import counted
from icelens.export.images import image_bytes
from icelens.export.reviewed import Reviewed

BATCH = 1000  # rows that are held at a time
SHARD = "data-00000-of-00001.arrow"
IMAGE = pa.struct({"bytes": pa.binary(), "path": pa.string()})
_AUDIT = ("confidence", "p_label", "p_guess", "trust", "kind", "is_issue", "verdict")


def write_huggingface(reviewed: Reviewed, part: Path) -> str:
    """A folder for `datasets.load_from_disk`; `label` is what stands, `label_before` what was given."""
    content, about = _content(reviewed), _about(reviewed)
    # A column of the user's own may be called as one of the audit's.
    columns = {f"data_{name}" if name in about else name: column for name, column in content.items()} | about
    features = {name: feature for name, (_, feature, _) in columns.items()}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    schema = pa.schema([(name, kind) for name, (kind, _, _) in columns.items()], metadata)
    part.mkdir()
    digest = hashlib.blake2b(digest_size=8)
    with pa.ipc.new_stream(part / SHARD, schema) as sink:
        for rows in _batches(len(reviewed.examples)):
            arrays = [pa.array(read(rows), kind) for kind, _, read in columns.values()]
            sink.write_batch(pa.record_batch(arrays, schema))
            digest.update(repr([array[:2] for array in arrays]).encode())
    state: dict[str, Any] = {
        "_data_files": [{"filename": SHARD}], "_fingerprint": digest.hexdigest(), "_format_columns": None,
        "_format_kwargs": {}, "_format_type": None, "_output_all_columns": False, "_split": None,
    }  # fmt: skip
    info = {"citation": "", "description": "", "features": features, "homepage": "", "license": ""}
    (part / "state.json").write_text(json.dumps(state, indent=2), encoding="utf-8")
    (part / "dataset_info.json").write_text(json.dumps(info, indent=2), encoding="utf-8")
    return counted(len(reviewed.examples), "example")


Column = tuple[Any, dict[str, Any], Any]  # the type of Arrow, the feature, and what reads some rows


def _content(reviewed: Reviewed) -> dict[str, Column]:
    data = reviewed.data
    if data.kind == "image":
        return {"image": (IMAGE, {"_type": "Image"}, lambda rows: [_image(data, row) for row in rows])}
    if data.kind == "text":
        names = ("text", "text_2")[: len(data.inputs[0])]
        return {name: _texts(data.inputs, place) for place, name in enumerate(names)}
    if hasattr(data.inputs, "iloc"):
        return {str(name): _series(data.inputs.iloc[:, place]) for place, name in enumerate(data.inputs)}
    feature = {"feature": _value("float32"), "length": -1, "_type": "Sequence"}
    return {"features": (pa.list_(pa.float32()), feature, lambda rows: _vectors(data.inputs, rows))}


def _about(reviewed: Reviewed) -> dict[str, Column]:
    table = reviewed.examples
    named = {"names": list(reviewed.classes), "_type": "ClassLabel"}
    columns: dict[str, Column] = {"id": _series(table["id"]), "index": _series(table["index"])}
    for name, source in (("label", "label_after"), ("label_before", "label"), ("guess", "guess")):
        columns[name] = (pa.int64(), named, reviewed.codes(source).__getitem__)
    return columns | {name: _series(table[name]) for name in _AUDIT}


def _series(column: Any) -> Column:
    kinds = {"i": ("int64", pa.int64()), "f": ("float64", pa.float64()), "b": ("bool", pa.bool_())}
    name, kind = kinds.get(getattr(column.dtype, "kind", "O"), ("string", pa.string()))
    values = column.astype(object).where(column.notna(), None) if name == "string" else column

    def read(rows: range) -> Any:
        part = values.iloc[rows.start : rows.stop]
        return [None if value is None else str(value) for value in part] if name == "string" else part

    return kind, _value(name), read


def _texts(inputs: list[tuple[str, ...]], place: int) -> Column:
    return pa.string(), _value("string"), lambda rows: [inputs[row][place] for row in rows]


def _value(dtype: str) -> dict[str, Any]:
    return {"dtype": dtype, "_type": "Value"}


def _vectors(inputs: Any, rows: range) -> list[Any]:
    part = inputs[rows.start : rows.stop]
    dense = part.toarray() if hasattr(part, "toarray") else part
    return list(np.asarray(dense, dtype=np.float32))


def _image(data: Any, row: int) -> dict[str, Any]:
    return {"bytes": image_bytes(data.inputs[row]), "path": None}


def _batches(count: int) -> Iterator[range]:
    for start in range(0, count, BATCH):
        yield range(start, min(start + BATCH, count))
