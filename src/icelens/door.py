"""The door for Python: `icelens.audit`, from arrays, tables or texts to what is wrong with their labels."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from icelens.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from icelens.auditing.result import Audit
    from icelens.data import Labelled


def audit(  # noqa: PLR0913 - what to audit, what to forgive, and how
    X: Any,
    y: Any = None,
    *,
    ids: Any = None,
    drop_unlabelled: bool = False,
    keep_rare: bool = False,
    seed: int = 0,
    device: str = "auto",
    backbone: str | Path | None = None,
    budget: int | None = None,
    out: str | Path | None = None,
    again: bool = False,
) -> Audit:
    """Find the labels that are probably wrong: one ordinary run ranks all examples.

    Args:
        X: features (N, width), embeddings that you have, a sparse matrix, a DataFrame, uint8 images, a list
            of texts or of pairs of texts, or a torch data set that yields (x, y).
        y: (N,), the given labels: strings, integers or booleans, and as such they come back in the result; in
            the files of a folder they are strings. None for a data set that yields them; where that has
            names in `classes`, these come back.
        ids: (N,), a name for each example; row numbers where left out.
        drop_unlabelled: leave out rows without a label, which are an error otherwise. `id` is then still the
            row of `X`; `index` counts those that are left.
        keep_rare: keep classes of which there is one example only, which are an error otherwise.
        seed: of networks, order and folds. The same seed gives the same numbers on the same machine.
        device: "auto", "cpu", "cuda", ...
        backbone: an encoder of transformers, a folder or a name on the hub; for texts and images.
        budget: how many examples you can look at; `Audit.budgets` then says how many errors to expect.
        out: a folder for the table, the report, what `icelens review` shows and, should it be stopped, what
            it goes on from.
        again: where an audit lies in `out` that is finished, or of other data or settings, move it to OUT.1
            (.2, ...) and make a new one; else it is read, or is an error.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> y[7] = 2  # the first fifty are of class 0
    >>> audit(X, y).suspects(1)["index"].item()
    7
    """
    from icelens.auditing.public import run_audit
    from icelens.data import from_arrays
    from icelens.ranks import Ranks
    from icelens.review.build import build_store

    X, y, classes = _read(X, y)
    data = from_arrays(X, y, ids=ids, classes=classes, drop_unlabelled=drop_unlabelled, keep_rare=keep_rare)
    aside = (lambda _: None) if again else None
    found = run_audit(data, seed=seed, device=device, backbone=backbone, budget=budget, out=out, aside=aside)
    if out is not None and Ranks.here().is_first:
        build_store(out, data)  # there is no file that a review could read the examples from
    return found if classes else _with_values_of(found, data, y)


def _read(X: Any, y: Any) -> tuple[Any, Any, tuple[str, ...] | None]:
    """Inputs and labels, those of a data set read out of it, and the names that it has for its classes."""
    if y is not None:
        _check_order(X, y)
        return X, y, None
    from icelens.data.own.items import class_names, read_items
    from icelens.data.own.origin import Origin

    inputs, labels = read_items(X, Origin())
    return inputs, labels, class_names(X, labels)


def _check_order(X: Any, y: Any) -> None:
    """Raise where two pandas objects hold the same rows in another order: labels are matched by position."""
    import numpy as np
    import pandas as pd

    if not (isinstance(X, pd.DataFrame | pd.Series) and isinstance(y, pd.Series)) or len(X) != len(y):
        return
    if X.index.equals(y.index):
        return
    # Names of several types have no order, so that they are compared by codes.
    codes = X.index.append(y.index).factorize()[0]
    if np.array_equal(np.sort(codes[: len(X)]), np.sort(codes[len(X) :])):
        raise InputError("X and y have the same index in another order; give y.loc[X.index]")


def _with_values_of(found: Audit, data: Labelled, y: Any) -> Audit:
    """The audit with classes as the caller gave them, 3 or True, where the core names them "3" and "True"."""
    values = _class_values(data, y)
    if all(isinstance(value, str) for value in values) or len(set(values)) < len(values):
        return found
    own = dict(zip(data.classes, values, strict=True))
    return dataclasses.replace(
        found,
        examples=_renamed(found.examples, ("label", "guess"), own),
        pairs=_renamed(found.pairs, ("label", "guess"), own),
        by_class=_renamed(found.by_class, ("label",), own),
    )


def _class_values(data: Labelled, y: Any) -> list[Any]:
    """Of each class the label that its first example was given."""
    import numpy as np

    rows = getattr(y, "iloc", y)
    _, first = np.unique(data.labels, return_index=True)
    return [_plain(rows[row]) for row in data.rows[first].tolist()]


def _plain(value: Any) -> Any:
    """A value of numpy, torch or pyarrow as Python's own."""
    make = getattr(value, "item", None) or getattr(value, "as_py", None)
    return value if make is None else make()


def _renamed(table: pd.DataFrame, columns: tuple[str, ...], names: dict[str, Any]) -> pd.DataFrame:
    """The table with other names of classes: categories where it has categories, in the same order."""
    changed = {
        name: table[name].cat.rename_categories(names)
        if hasattr(table[name], "cat")
        else table[name].map(names)
        for name in columns
    }
    return table.assign(**changed)
