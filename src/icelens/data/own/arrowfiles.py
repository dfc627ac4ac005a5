"""Parquet, Arrow and Feather files, and folders that Hugging Face's `datasets` saved."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from icelens.data.own.origin import Origin, brief, listed, reading
from icelens.data.own.table import Table, plain, sort_of
from icelens.errors import MissingFileError

INFO, STATE, SPLITS = "dataset_info.json", "state.json", "dataset_dict.json"
ARROW_ERRORS = (pa.ArrowException, ValueError, KeyError, TypeError, OverflowError)


def read_parquet(path: Path) -> Table:
    """A Parquet file, whole."""
    with reading(Origin(path), "a Parquet file", ARROW_ERRORS):
        # Buffers of the whole file would stay beside its columns: twice the memory, and slower.
        with parquet.ParquetFile(path, pre_buffer=False) as file:
            rows = file.read()
        return _table(_sound(rows), path)


def read_arrow(path: Path) -> Table:
    """An Arrow file or stream, or a Feather file of version 2."""
    return _table(_read_ipc(path), path)


def read_saved(folder: Path) -> Table:
    """A folder that `save_to_disk` made: of a Dataset, or of a DatasetDict, of which `train` is taken."""
    if (folder / SPLITS).is_file():
        split, said = audited_split(folder)
        table = read_saved(folder / split)
        return Table(table.columns, table.path, class_names=table.class_names, said=(said, *table.said))
    features = _member(folder / INFO, "features", dict)
    shards = [_read_ipc(_shard(folder, entry)) for entry in _member(folder / STATE, "_data_files", list)]
    if not shards:
        raise Origin(folder / STATE).damaged("names no data files")
    if _json(folder / STATE).get("_indices_files") or _json(folder / STATE).get("_indices_data_files"):
        raise Origin(folder).damaged("rows are selected by an index; save `dataset.flatten_indices()`")
    with reading(Origin(folder), "a saved data set", ARROW_ERRORS):
        rows = pa.concat_tables(shards)
    return _table(rows, folder, _class_names(features))


def is_saved(folder: Path) -> bool:
    """Whether a folder is one that `save_to_disk` made."""
    return (folder / SPLITS).is_file() or ((folder / INFO).is_file() and (folder / STATE).is_file())


def audited_split(folder: Path) -> tuple[str, str]:
    """Which split of a saved DatasetDict is read, and how that is told."""
    splits = _member(folder / SPLITS, "splits", list)
    split = "train" if "train" in splits else splits[0] if len(splits) == 1 else None
    if not isinstance(split, str) or Path(split).name != split:
        raise Origin(folder).error(f"no split 'train'; give the folder of one split: {listed(splits)}")
    return split, f"split {brief(split)} of {listed(splits)}"


def _shard(folder: Path, entry: Any) -> Path:
    name = entry.get("filename") if isinstance(entry, dict) else None
    if not isinstance(name, str) or Path(name).name != name:
        raise Origin(folder / STATE).damaged(f"names a data file {brief(name)} outside of the folder")
    if not (folder / name).is_file():
        raise MissingFileError(f"{folder / name}: no such file, though {STATE} names it")
    return folder / name


def _member(path: Path, key: str, kind: type) -> Any:
    value = _json(path).get(key)
    if not isinstance(value, kind):
        raise Origin(path).damaged(f"no '{key}' in it; was the data set saved by `save_to_disk`?")
    return value


def _json(path: Path) -> dict[str, Any]:
    with reading(Origin(path), "a JSON file", (ValueError, RecursionError)):
        content = json.loads(path.read_bytes())
    return content if isinstance(content, dict) else {}


def _read_ipc(path: Path) -> Any:
    with reading(Origin(path), "an Arrow file", ARROW_ERRORS):
        # Mapped, not copied: a saved data set of images may be larger than memory.
        source = pa.memory_map(str(path))
        start = source.read(6)
        source.seek(0)
        if start[:4] == b"FEA1":
            raise Origin(path).damaged(
                "Feather of version 1; write it again with a present pandas or pyarrow"
            )
        rows = (pa.ipc.open_file if start == b"ARROW1" else pa.ipc.open_stream)(source).read_all()
        return _sound(rows)


def _sound(rows: Any) -> Any:
    """The same rows, or an error where offsets or texts in them are broken."""
    rows.validate(full=True)
    for position, name in enumerate(rows.column_names):
        column = rows.column(position)
        sort_of(column.type)  # fails where a name within it is not UTF-8
        if (common := plain(column)) is not column:
            rows = rows.set_column(position, name, common)
    return rows


def _table(rows: Any, path: Path, class_names: Mapping[str, tuple[str, ...]] | None = None) -> Table:
    twice = [name for name, count in Counter(rows.column_names).items() if count > 1]
    if twice:
        raise Origin(path).damaged(f"two columns are called {brief(twice[0])}; rename one")
    if not rows.num_rows:
        raise Origin(path).damaged("no rows")
    return Table(rows, path, class_names=class_names or _class_names(_stored_features(rows)))


def _stored_features(rows: Any) -> Any:
    """What `datasets` writes into the files themselves about their columns."""
    try:
        return json.loads((rows.schema.metadata or {})[b"huggingface"])["info"]["features"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return {}


def _class_names(features: Any) -> dict[str, tuple[str, ...]]:
    found = {}
    for name, feature in features.items() if isinstance(features, dict) else ():
        names = feature.get("names") if isinstance(feature, dict) else None
        if isinstance(names, list) and feature.get("_type") == "ClassLabel":
            found[name] = tuple(str(name) for name in names)
    return found
