"""Indexed: the wrapper that makes any map-style data set tell which row an item is."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from torch.utils.data import Dataset, IterableDataset

from icelens.errors import IndexRangeError, InputError


class Indexed(Dataset[Any]):
    """Add the row to every item: `(x, y)` becomes `(x, y, index)`, a dict gets the key "index".

    The index is the row of the data set that is wrapped, so the order of wrapping matters:
    `Indexed(Subset(data, rows))` counts the rows of the subset, 0 to len(rows) − 1, while
    `Subset(Indexed(data), rows)` keeps the rows of the full data. Give the loss the length of
    what `Indexed` wraps.

    Args:
        dataset: anything with `__len__` and `__getitem__` that yields tuples, lists or dicts.

    >>> from torch.utils.data import Subset
    >>> data = [("a", 0), ("b", 1), ("c", 0)]
    >>> Indexed(Subset(data, [2]))[0], Subset(Indexed(data), [2])[0]
    (('c', 0, 0), ('c', 0, 2))
    """

    def __init__(self, dataset: Any) -> None:
        # IterableDataset inherits a __getitem__ that only raises, so the class is asked too.
        iterable = isinstance(dataset, IterableDataset)
        if iterable or not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
            raise InputError(
                f"Indexed needs a data set with __len__ and __getitem__, got {type(dataset).__name__}; "
                "a stream has no stable index"
            )
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        row = self._row(index)
        return _with_index(self.dataset[row], row)

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """A batch of items, in one call where the wrapped data set can do that."""
        rows = [self._row(index) for index in indices]
        if hasattr(self.dataset, "__getitems__"):
            items = self.dataset.__getitems__(rows)
        else:
            items = [self.dataset[row] for row in rows]
        return [_with_index(item, row) for item, row in zip(items, rows, strict=True)]

    def _row(self, index: int) -> int:
        # A negative index would name one row in two ways, and confidence belongs to one.
        row = operator.index(index)
        if not 0 <= row < len(self):
            raise IndexRangeError(
                f"index {row} is not a row of a data set of {len(self)} (0 to {len(self) - 1})"
            )
        return row


def _with_index(item: Any, row: int) -> Any:
    if isinstance(item, Mapping):
        if "index" in item:
            raise InputError(f"item {row} already has a key 'index'; rename it, Indexed would overwrite it")
        return {**item, "index": row}
    if isinstance(item, (tuple, list)):
        return (*item, row)
    raise InputError(
        f"Indexed needs items that are tuples, lists or dicts, item {row} is a {type(item).__name__}"
    )
