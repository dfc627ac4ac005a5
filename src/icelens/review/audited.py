"""What the folder of an audit holds of every example, as the store is filled from it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from icelens.auditing.source import no_audit
from icelens.errors import FileError, InputError

if TYPE_CHECKING:
    from icelens.data.labelled import Labelled

Rows = NDArray[np.int64]
COLUMNS = ("confidence", "p_label", "p_guess")


@dataclass(frozen=True, eq=False)
class Audited:
    """Columns of `examples.parquet` in the order of the data; classes and kinds are codes, ids of pyarrow."""

    ids: Any
    label: Rows
    guess: Rows
    trust: NDArray[np.float64]
    kind: Rows
    kinds: NDArray[np.object_]
    is_issue: NDArray[np.bool_]
    numbers: dict[str, NDArray[Any]]
    fingerprint: str

    @cached_property
    def order(self) -> Rows:
        """All rows, the least trusted first."""
        return np.argsort(self.trust, kind="stable")

    @cached_property
    def tallies(self) -> tuple[Rows, Rows, NDArray[np.float64], Rows]:
        """Groups of equal label, guess and kind: a row of each, how many, their doubt; the group of a row."""
        classes = int(max(self.label.max(), self.guess.max())) + 1
        key = ((self.label * classes + self.guess) * len(self.kinds) + self.kind) * 2 + self.is_issue
        _, first, number, count = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
        doubt: NDArray[np.float64] = np.bincount(number, weights=1 - self.trust).astype(np.float64)
        return first, count, doubt, number


@dataclass(frozen=True, eq=False)
class Beside:
    """Of some rows, what is shown beside them: likeliest classes with probabilities, rows of neighbours."""

    rows: Rows
    top: Rows
    top_p: NDArray[np.float64]
    near_label: Rows
    near_guess: Rows

    @property
    def near(self) -> Rows:
        """All rows that are neighbours of one."""
        near = np.unique(np.concatenate([self.near_label.ravel(), self.near_guess.ravel()]))
        return near[near >= 0]


def read_audited(folder: Path, data: Labelled) -> Audited:
    """What was found of every example; an error where it is of other data."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / "examples.parquet"
    if not (folder / "audit.json").exists() or not path.exists():
        raise no_audit(folder)
    try:
        table = pq.read_table(path)
        recipe = json.loads((folder / "recipe.json").read_text(encoding="utf-8"))
        audited = _from_table(table, str(recipe.get("data_fingerprint", "")))
    except (pa.ArrowException, OSError, ValueError, KeyError, AttributeError) as error:
        raise FileError(f"{path}: not what an audit wrote: {error}") from None
    if len(audited.label) != len(data) or (audited.label != data.labels).any():
        raise InputError(f"{data.name} is not what was audited into {folder}: its labels are others")
    return audited


def _from_table(table: Any, fingerprint: str) -> Audited:
    def codes(name: str) -> Rows:
        column = table[name].combine_chunks()
        return np.asarray(column.indices.to_numpy(zero_copy_only=False), dtype=np.int64)

    def column(name: str) -> NDArray[Any]:
        values: NDArray[Any] = table[name].to_numpy()
        return values

    # A million strings would take more room than all else.
    kind = table["kind"].combine_chunks().dictionary_encode()
    return Audited(
        ids=table["id"],
        label=codes("label"),
        guess=codes("guess"),
        trust=column("trust").astype(np.float64),
        kind=np.asarray(kind.indices.to_numpy(zero_copy_only=False), dtype=np.int64),
        kinds=np.array(kind.dictionary.to_pylist(), dtype=object),
        is_issue=column("is_issue").astype(bool),
        numbers={name: column(name) for name in COLUMNS},
        fingerprint=fingerprint,
    )


def read_beside(folder: Path) -> Beside:
    """`review.npz`; of an audit that has none, nothing."""
    path = folder / "review.npz"
    if not path.exists():
        none = np.zeros((0, 1), np.int64)
        return Beside(none[:, 0], none, none.astype(float), none, none)
    try:
        with np.load(path, allow_pickle=False) as file:
            return Beside(*(file[name] for name in ("rows", "top", "top_p", "near_label", "near_guess")))
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        raise FileError(f"{path}: not what an audit wrote: {error}") from None
