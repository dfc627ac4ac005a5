"""The files of a recording: Parquet parts, each of one rank and a range of steps, whole or not at all.

Every part says in its own header whose it is, so parts can be copied together from several machines, and
`pandas.read_parquet(folder)` gives all rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icelens.errors import FileError, InputError, MissingFileError, TrainingError
from icelens.files import is_leftover, replacing

Array = NDArray[Any]
Columns = Mapping[str, Array]

COLUMNS = {
    "epoch": "int32",
    "step": "int32",
    "index": "int32",
    "label": "int32",
    "guess": "int32",
    "correct": "bool",
    "loss": "float32",
    "margin": "float32",
    "p_label": "float32",
    "confidence": "float32",
}
REPEATING = ["epoch", "step", "label", "guess"]  # what a dictionary makes smaller
ROW_GROUP = 1 << 18
HEADER = b"icelens.dynamics"
NAME = re.compile(r"rank(\d{4,})-step(\d{9,})\.parquet")


@dataclass(frozen=True)
class Part:
    """One file: the rows that a rank, one of `ranks`, recorded in a range of its steps."""

    path: Path
    rank: int
    steps: range
    epochs: range
    examples: int
    rows: int
    ranks: int  # 0 where the file does not say


def write_part(folder: Path, rank: int, examples: int, steps: range, columns: Columns, *, ranks: int) -> None:
    """Write the rows of some steps, in the order of the steps."""
    path = folder / f"rank{rank:04}-step{steps.start:09}.parquet"
    if path.exists():
        raise TrainingError(
            f"{path}: is there already; another recorder writes to this folder as rank {rank} (of several "
            "processes, each must be started by torchrun or call init_process_group first)"
        )
    _write(path, _table(columns), rank=rank, ranks=ranks, examples=examples, steps=steps)


def find_parts(folder: Path, whose: Callable[[int], bool] = lambda rank: True) -> list[Part]:
    """The parts in a folder that are of certain ranks, by rank and step; what is no part is refused.

    Other ranks may be at work in the folder, so nothing but the names of their files is looked at.
    """
    named = [(path, int(match[1])) for path, match in _names(folder)]
    parts = sorted((_read_header(path) for path, rank in named if whose(rank)), key=_place)
    for part, following in pairwise(parts):
        if part.rank == following.rank and part.steps.stop > following.steps.start:
            raise FileError(f"{following.path}: has steps that {part.path.name} has too; of which run is it?")
        if part.examples != following.examples:
            raise FileError(
                f"{following.path}: is of a data set of {following.examples:,} examples, {part.path.name} of "
                f"one of {part.examples:,}; they are not of one run"
            )
    return parts


def parts_before(folder: Path, step: int) -> list[Part]:
    """The parts of all ranks that begin before a step, by rank and step; others may be at work on theirs."""
    found = []
    for path, match in _names(folder):
        if int(match[2]) < step:
            with _unless_gone(path):
                found.append(_read_header(path))
    return sorted(found, key=_place)


def cut(parts: Iterable[Part], step: int) -> list[Part]:
    """Leave of these parts the rows of steps before `step`, and return what is left."""
    left = []
    for part in parts:
        if part.steps.start >= step:
            part.path.unlink()
            continue
        if part.steps.stop > step:
            with _opened(part.path) as file, _readable(part.path):
                table = file.read()
            kept = table.slice(0, int(np.searchsorted(table["step"].to_numpy(), step)))
            _write(
                part.path,
                kept,
                rank=part.rank,
                ranks=part.ranks,
                examples=part.examples,
                steps=range(part.steps.start, step),
            )
        left.append(_read_header(part.path))
    return left


def part_rows(part: Part, columns: Sequence[str], *, most: int = ROW_GROUP) -> Iterator[dict[str, Array]]:
    """The rows of a part in its order, at most so many at a time; a missing confidence is NaN."""
    with _opened(part.path) as file, _readable(part.path):
        for batch in file.iter_batches(most, columns=list(columns)):
            for name in columns:
                if name != "confidence" and batch[name].null_count:
                    raise FileError(f"{part.path}: damaged, column '{name}' has gaps")
            rows = {name: batch[name].to_numpy(zero_copy_only=False) for name in columns}
            if "index" in rows and len(batch) and not _within(rows["index"], part.examples):
                raise FileError(f"{part.path}: damaged, it holds an index beyond {part.examples - 1:,}")
            yield rows


def rows_before(part: Part, step: int, columns: Sequence[str]) -> Iterator[dict[str, Array]]:
    """The rows of a part that are of steps before this one, and their steps; none if the file is gone."""
    with _unless_gone(part.path):
        for rows in part_rows(part, ["step", *columns]):
            kept = rows["step"] < step
            yield {name: column[kept] for name, column in rows.items()}


@contextmanager
def _unless_gone(path: Path) -> Iterator[None]:
    """Let it pass that a file was removed since it was found: its rank makes room for what it does again."""
    try:
        yield
    except FileError:
        if path.exists():
            raise


def _within(index: Array, examples: int) -> bool:
    return bool(index.min() >= 0 and index.max() < examples)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """What Arrow says of a damaged file, as an error that names the file."""
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise FileError(f"{path}: not a readable Parquet file: {reason}") from None


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The Parquet file of a part, whose columns were found right."""
    import pyarrow.parquet as pq

    with _readable(path):
        file = pq.ParquetFile(path)
    with file:
        if not file.schema_arrow.equals(_schema()):
            found = ", ".join(file.schema_arrow.names)
            raise FileError(f"{path}: not a part of a recording; columns are {found}")
        yield file


def _names(folder: Path) -> Iterator[tuple[Path, re.Match[str]]]:
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; a recording is a folder")
    if not folder.is_dir():
        raise MissingFileError(f"{folder}: no such folder")
    for path in sorted(folder.iterdir()):
        match = NAME.fullmatch(path.name)
        if match:
            yield path, match
        elif not is_leftover(path):
            raise InputError(f"{folder}: is not the folder of a recording, it holds {path.name}")


def _place(part: Part) -> tuple[int, int]:
    return part.rank, part.steps.start


def _read_header(path: Path) -> Part:
    with _opened(path) as file:
        rows, header = file.metadata.num_rows, file.schema_arrow.metadata or {}
    try:
        said = json.loads(header[HEADER])
        steps, epochs = range(*said["steps"]), range(*said["epochs"])
        part = Part(path, said["rank"], steps, epochs, said["examples"], rows, said.get("ranks", 0))
        numbers = [part.rank, part.steps.start, part.epochs.start, part.examples, part.ranks]
        sound = all(isinstance(number, int) and 0 <= number < 2**31 for number in numbers)
    except (KeyError, TypeError, ValueError):
        sound = False
    if not sound:
        raise FileError(f"{path}: not a part of a recording; its header does not say whose it is")
    return part


def _schema() -> Any:
    import pyarrow as pa

    kinds = {"int32": pa.int32(), "float32": pa.float32(), "bool": pa.bool_()}
    return pa.schema([pa.field(name, kinds[kind]) for name, kind in COLUMNS.items()])


def _table(columns: Columns) -> Any:
    import pyarrow as pa

    schema = _schema()
    # A confidence that was not recorded is missing, which others than NumPy write as null.
    arrays = [
        pa.array(columns[field.name], field.type, from_pandas=field.name == "confidence") for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _write(path: Path, table: Any, *, rank: int, ranks: int, examples: int, steps: range) -> None:
    import pyarrow.parquet as pq

    epoch = table["epoch"].to_numpy()
    epochs = [int(epoch.min()), int(epoch.max()) + 1] if len(epoch) else [0, 0]
    said = {
        "rank": rank,
        "ranks": ranks,
        "examples": examples,
        "steps": [steps.start, steps.stop],
        "epochs": epochs,
    }
    table = table.replace_schema_metadata({HEADER: json.dumps(said)})
    with replacing(path) as part:
        try:
            pq.write_table(
                table, part, compression="zstd", use_dictionary=REPEATING, row_group_size=ROW_GROUP
            )
        except OSError as error:  # a full disk, of which Arrow does not say where
            raise OSError(error.errno, error.strerror or str(error), str(path)) from None
