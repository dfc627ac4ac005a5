"""Folders that `save_to_disk` of Hugging Face's `datasets` made."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from icelens.data.own.arrowfiles import INFO, SPLITS, STATE, audited_split
from icelens.data.own.origin import Origin
from icelens.export.changes import Changes
from icelens.export.rewrite.arrowfiles import Rewriter
from icelens.export.rewrite.features import extended_features


def rewrite_saved(
    source: Path, label: str, changes: Changes, out: Path, *, names: Sequence[str] | None = None,
    before: str | None = None,
) -> int:  # fmt: skip
    """Write a saved data set again, shard by shard; of several splits all but the audited one are copied."""
    if (source / SPLITS).is_file():
        split = audited_split(source)[0]
        shutil.copytree(source, out, ignore=lambda folder, _: [split] if Path(folder) == source else [])
        return rewrite_saved(source / split, label, changes, out / split, names=names, before=before)
    state, info = (json.loads((source / name).read_bytes()) for name in (STATE, INFO))
    shards = [entry["filename"] for entry in state["_data_files"]]
    shutil.copytree(source, out, ignore=lambda folder, _: shards if Path(folder) == source else [])
    tables = [pa.ipc.open_stream(pa.memory_map(str(source / shard))).read_all() for shard in shards]
    rewriter = Rewriter(
        pa.chunked_array([chunk for table in tables for chunk in table.column(label).chunks]),
        tables[0].schema, label, changes, names=names, origin=Origin(source), before=before,
    )  # fmt: skip
    for shard, table in zip(shards, tables, strict=True):
        _write_shard(out / shard, table, rewriter)
    info["features"] = extended_features(info["features"], label, before, changes, names)
    _count(info, state, rewriter.kept)
    if changes.log or before is not None:  # by it `datasets` knows what it has cached
        state["_fingerprint"] = hashlib.blake2b(
            repr((changes.log, before, state)).encode(), digest_size=8
        ).hexdigest()
    (out / STATE).write_text(json.dumps(state, indent=2, sort_keys=True), encoding="utf-8")
    (out / INFO).write_text(json.dumps(info, indent=2, sort_keys=False), encoding="utf-8")
    return rewriter.kept


def _write_shard(path: Path, table: Any, rewriter: Rewriter) -> None:
    with pa.ipc.new_stream(path, rewriter.schema) as sink:
        for batch in table.to_batches():
            sink.write_table(rewriter.part(pa.Table.from_batches([batch])))


def _count(info: dict[str, Any], state: dict[str, Any], kept: int) -> None:
    """The number of rows, where the data set's own description holds it."""
    splits, split = info.get("splits"), state.get("_split")
    if isinstance(splits, dict) and isinstance(splits.get(split), dict):
        splits[split]["num_examples"] = kept
