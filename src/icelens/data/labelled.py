"""Labelled: a user's own data set, whatever it was read from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icelens.errors import InputError

KINDS = ("text", "image", "table")


@dataclass(frozen=True)
class Columns:
    """The columns of the table that a data set was read from.

    Args:
        label: that of the labels; None where it is not known.
        id: that of the ids; None where they are row numbers, or where it is not known.
        others: all the others.
        codes: where labels are codes, the classes that 0, 1, ... stand for.
    """

    label: str | None = None
    id: str | None = None
    others: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()

    def recorded(self) -> dict[str, Any]:
        """What JSON holds."""
        return {**vars(self), "others": list(self.others), "codes": list(self.codes)}


@dataclass(frozen=True, eq=False)
class Labelled:
    """What to learn from, the given labels, and how to name each example.

    Args:
        kind: "text", "image" or "table".
        inputs: for text a list of N tuples of one or two strings; for images a uint8 array (N, height, width)
            or (N, height, width, channels), or a sequence of N images that `open_image` opens: file paths, or
            the stored bytes of a table; for tables a DataFrame of N rows (columns of floats, where NaN is
            a missing number, and of categories), a float array (N, features), or a scipy CSR matrix.
        labels: (N,), int64, the given classes as codes.
        classes: the name of class 0, 1, ...
        ids: (N,), a name for each example: the user's own, or its row number.
        rows: (N,), int64, the row of the file that each example was read from.
        name: what to call the data set: the file or folder without its path.
        said: what was inferred, a line each, for people.
        columns: of the table that it was read from, if it was one.

    >>> pets = Labelled("text", [("purrs",), ("barks",)], np.array([0, 1]), ("cat", "dog"),
    ...                 np.array(["a", "b"], object), np.arange(2))
    >>> len(pets), pets.take(np.array([1])).inputs
    (2, [('barks',)])
    """

    kind: str
    inputs: Any
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    ids: NDArray[np.object_]
    rows: NDArray[np.int64]
    name: str = "data"
    said: tuple[str, ...] = ()
    columns: Columns | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"kind must be one of {', '.join(KINDS)}, got '{self.kind}'")
        if self.labels.dtype != np.int64 or self.labels.ndim != 1:
            raise InputError(
                f"labels must be int64 of shape (N,), got {self.labels.dtype} {self.labels.shape}"
            )
        for what, count in (
            ("inputs", rows_in(self.inputs)),
            ("ids", len(self.ids)),
            ("rows", len(self.rows)),
        ):
            if count != len(self):
                raise InputError(f"{count} {what} but {len(self)} labels")
        wrong = np.flatnonzero((self.labels < 0) | (self.labels >= len(self.classes)))
        if len(wrong):
            raise InputError(
                f"labels hold class {self.labels[wrong[0]]} but there are {len(self.classes)} classes; "
                f"first at index {wrong[0]}"
            )

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, positions: NDArray[np.int64]) -> Labelled:
        """The examples at these positions, in this order; the classes stay as they are."""
        return replace(
            self,
            inputs=take_inputs(self.inputs, positions),
            labels=self.labels[positions],
            ids=self.ids[positions],
            rows=self.rows[positions],
        )


def take_inputs(inputs: Any, positions: NDArray[np.int64]) -> Any:
    """The inputs at these positions, of the same type."""
    if isinstance(inputs, list):
        return [inputs[position] for position in positions]
    if hasattr(inputs, "iloc"):
        return inputs.iloc[positions].reset_index(drop=True)
    return inputs[positions]


def rows_in(inputs: Any) -> int:
    """How many examples there are; a sparse matrix has no len()."""
    return int(inputs.shape[0]) if hasattr(inputs, "shape") else len(inputs)
