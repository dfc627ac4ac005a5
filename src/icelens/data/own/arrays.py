"""Arrays and lists in memory: what they hold, as `Labelled.inputs` holds it."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import scipy.sparse
from numpy.typing import NDArray
from pandas.api.extensions import ExtensionArray

from icelens.counts import counted
from icelens.data.own.features import build_features, finite, narrowed
from icelens.data.own.labels import Labels
from icelens.data.own.origin import Origin, brief, sound
from icelens.data.own.profile import IN_ORDER, constant, few_values, order_of_rows, same_as
from icelens.data.own.table import is_string, plain, sort_of

if TYPE_CHECKING:
    import torch

# Grey and colour, then colour with transparency: an image is more often 4 pixels high than transparent.
CHANNELS = ((1, 3), (4,))


@dataclass(frozen=True, eq=False)
class Found:
    """Inputs, what they are, and what was decided."""

    kind: str
    inputs: Any
    said: tuple[str, ...] = ()


def find_inputs(X: Any, origin: Origin) -> Found:
    """Texts, images or features, by the type of what is handed in."""
    if isinstance(X, ExtensionArray):
        X = pd.Series(X)
    if isinstance(X, pd.DataFrame):
        return _frame(X, origin)
    if isinstance(X, pd.Series | pd.Index):
        X = X.to_numpy(dtype=object) if X.dtype.kind not in "biuf" else X.to_numpy()
    if scipy.sparse.issparse(X):
        return _sparse(X, origin)
    channels_first = _is_tensor(X)
    if channels_first and "sparse" in str(X.layout) and X.sparse_dim() == 2 == X.ndim:
        return _sparse(_scipy(X), origin)
    if channels_first:
        X = _numpy(X)
    if isinstance(X, np.ndarray) and X.dtype.kind in "biuf":
        return _numbers(X, origin, channels_first)
    return _list(X, origin)


def column_of(values: Any, origin: Origin, what: str) -> Any:
    """A one-dimensional list, array, Series or tensor as a pyarrow array.

    Where types are mixed, all become strings.
    """
    if isinstance(values, pd.DataFrame):
        values = values.squeeze(axis=1)
    if _is_tensor(values):
        values = _numpy(values)
    if isinstance(values, np.ndarray):
        values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
        if values.ndim != 1:
            hint = f"; one-hot labels become classes by {what}.argmax(1)" if values.ndim == 2 else ""
            raise origin.error(f"{what} must have one value per row, got shape {values.shape}{hint}")
    elif isinstance(values, list | tuple):
        values = [
            value.item() if hasattr(value, "item") and not isinstance(value, str) else value
            for value in values
        ]
    elif not isinstance(values, pd.Series | pd.Index | ExtensionArray | pa.Array | pa.ChunkedArray):
        raise origin.error(f"{what} must be a list, array, Series or tensor, got {type(values).__name__}")
    return _arrow(values, origin, what)


def _arrow(values: Any, origin: Origin, what: str) -> Any:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if isinstance(getattr(values, "dtype", None), pd.SparseDtype):
        values = np.asarray(values)
    if isinstance(values, np.ndarray) and values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8", "replace")
    if isinstance(values, np.ndarray) and not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, UnicodeError, OverflowError, TypeError, ValueError):
        cells = list(values)
    if any(isinstance(cell, list | tuple | dict | np.ndarray | complex) for cell in cells):
        raise origin.error(f"{what} must hold strings, integers or booleans, got {brief(cells[0])}")
    return pa.array([None if _missing(cell) else sound(str(cell)) for cell in cells], pa.string())


def _missing(value: Any) -> bool:
    return (
        value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and np.isnan(value))
    )


def _is_tensor(value: Any) -> bool:
    """Whether it is torch's; where torch is not loaded nothing can be, and a file is read without it."""
    return "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor)


def _numpy(tensor: torch.Tensor) -> NDArray[Any]:
    import torch

    tensor = tensor.detach().cpu().to_dense()
    # numpy has no bfloat16.
    array: NDArray[Any] = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return array


def _scipy(tensor: torch.Tensor) -> Any:
    """A sparse matrix of torch as scipy's."""
    tensor = tensor.detach().cpu().to_sparse().coalesce()
    places = tuple(tensor.indices().numpy())
    return scipy.sparse.coo_matrix((_numpy(tensor.values()), places), shape=tuple(tensor.shape))


def _frame(X: pd.DataFrame, origin: Origin) -> Found:
    names = [str(name) for name in X.columns]
    if not names:
        raise origin.error(f"{origin.inputs} has no columns")
    places = {name: place for place, name in enumerate(names)}
    if len(places) < len(names):
        raise origin.error(f"{origin.inputs} has two columns of the same name; rename one")

    def column(name: str) -> Any:
        array = _arrow(X.iloc[:, places[name]], origin, f"column {brief(name)}")
        return plain(array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array]))

    wordy = [name for name in names if is_string(column(name).type) and not few_values(column(name))]
    kept = [name for name in names if name not in wordy]
    if not kept:
        raise origin.error(
            f"{origin.inputs} has no numbers or categories; to learn from text hand in one column, "
            f"such as {origin.inputs}[{brief(wordy[0])}]"
        )
    placed = {name: why for name in kept if len(X) >= IN_ORDER and (why := order_of_rows(column(name)))}
    rest = [name for name in kept if name not in placed]
    tell = (sort_of(column(name).type) != "number" or not constant(column(name)) for name in rest)
    kept = rest if any(tell) else kept
    left = {**dict.fromkeys(wordy, "too many different values"), **placed}
    said = [f"{brief(name)} ({why})" for name, why in left.items() if name not in kept]
    return Found(
        "table", build_features(kept, column, origin), (f"left out: {', '.join(said)}",) if said else ()
    )


def check_no_label(features: pd.DataFrame, labels: Labels, origin: Origin) -> None:
    """Raise where a column is the label under another name: learned from, it makes every label look right."""
    codes = np.full(len(features), -1)
    codes[labels.rows] = labels.codes
    for name in features:
        if same_as(pa.chunked_array([pa.array(features[name], from_pandas=True)]), codes):
            raise origin.error(
                f"column {brief(name)} of {origin.inputs} is the label under another name; leave it out"
            )


def _sparse(X: Any, origin: Origin) -> Found:
    matrix = scipy.sparse.csr_matrix(X) if X.ndim == 2 else X
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise origin.error(
            f"{origin.inputs} must be a matrix of numbers, got {matrix.dtype} of shape {matrix.shape}"
        )
    matrix = matrix.astype(np.float32, copy=False)
    wrong = np.flatnonzero(~np.isfinite(matrix.data))
    if len(wrong):
        row = int(np.searchsorted(matrix.indptr, wrong[0], side="right")) - 1
        column, value = matrix.indices[wrong[0]], matrix.data[wrong[0]]
        raise origin.error(
            f"{origin.inputs}: row {row:,}, column {column:,} is {value}; every number must be there and "
            "finite"
        )
    if not matrix.count_nonzero():
        raise origin.error(f"{origin.inputs}: features hold only constants: every number is 0")
    return Found("table", matrix)


def _numbers(X: NDArray[Any], origin: Origin, channels_first: bool) -> Found:
    if X.ndim in (3, 4):
        return _images(X, origin, channels_first)
    if X.ndim != 2 or not X.shape[1]:
        hint = "; for one feature give X[:, None]" if X.ndim == 1 else ""
        raise origin.error(f"{origin.inputs} must be (rows, features) or images, got shape {X.shape}{hint}")
    # Values beyond float32 become infinite and are told.
    with np.errstate(over="ignore"):
        finite(X.astype(np.float32, copy=False), origin, f"{origin.inputs}: ")
    matrix = narrowed(X)
    if len(matrix) and _constant(matrix):
        raise origin.error(f"{origin.inputs}: features hold only constants: every row is the same")
    return Found("table", matrix)


def _constant(matrix: NDArray[Any]) -> bool:
    return not any((matrix[start : start + 4096] != matrix[0]).any() for start in range(0, len(matrix), 4096))


def _images(X: NDArray[Any], origin: Origin, channels_first: bool) -> Found:
    if not X.size:
        raise origin.error(f"{origin.inputs} holds images without pixels, shape {X.shape}")
    said: tuple[str, ...] = ()
    if X.dtype != np.uint8:
        said = ("images from 0 to 1 are read as 0 to 255",) if X.dtype.kind == "f" else ()
        X = _pixels(X, origin)
    if X.ndim == 4:
        X, moved = _channels_last(X, origin, channels_first)
        said += moved
    return Found("image", X, said)


def _pixels(X: NDArray[Any], origin: Origin) -> NDArray[np.uint8]:
    if X.dtype.kind == "f" and float(X.min()) >= 0 and float(X.max()) <= 1:  # NaN is neither
        return (X * 255).round().astype(np.uint8)
    if X.dtype.kind in "iu" and int(X.min()) >= 0 and int(X.max()) <= 255:
        return X.astype(np.uint8)
    raise origin.error(
        f"{origin.inputs} of shape {X.shape} must be images, uint8 or floats from 0 to 1, but is {X.dtype} "
        f"from {X.min()} to {X.max()}; leave normalization out, or give features as (rows, features)"
    )


def _channels_last(
    X: NDArray[np.uint8], origin: Origin, first: bool
) -> tuple[NDArray[np.uint8], tuple[str, ...]]:
    """Images as numpy and Pillow have them, channels last; those of torch have them first."""
    axes = (1, 3) if first else (3, 1)
    axis = next((axis for counts in CHANNELS for axis in axes if X.shape[axis] in counts), None)
    if axis is None:
        raise origin.error(f"{origin.inputs} of shape {X.shape} must be images with 1, 3 or 4 channels")
    move = axis == 1
    X = np.ascontiguousarray(np.moveaxis(X, 1, 3)) if move else X
    said = (f"images have {counted(X.shape[3], 'channel')} first",) if move else ()
    return (X[..., 0] if X.shape[3] == 1 else X), said


def _list(X: Any, origin: Origin) -> Found:
    """Texts, pairs of texts, paths of images, or rows of numbers."""
    if isinstance(X, np.ndarray):
        X = X.astype(str).tolist() if X.dtype.kind in "SU" else X.tolist()
    if not isinstance(X, list | tuple):
        raise origin.error(
            f"{origin.inputs} must be an array, matrix, DataFrame, tensor or list, got {type(X).__name__}"
        )
    if X and all(isinstance(item, os.PathLike) for item in X):
        return Found("image", [Path(item) for item in X])
    if any(isinstance(item, str) or (isinstance(item, list | tuple) and _strings(item)) for item in X):
        return texts(X, origin)
    try:
        array = np.array([_numpy(row) if _is_tensor(row) else row for row in X])
    except (ValueError, TypeError):
        raise origin.error(f"{origin.inputs} must hold rows of equal length") from None
    if array.dtype.kind not in "biuf":
        raise origin.error(
            f"{origin.inputs} must hold numbers or texts, got {brief(X[0]) if len(X) else 'nothing'}"
        )
    return _numbers(array, origin, channels_first=False)


def _strings(item: Any) -> bool:
    return any(isinstance(part, str) for part in item)


def texts(X: list[Any] | tuple[Any, ...], origin: Origin) -> Found:
    """Tuples of one or two strings; a text that is missing is empty."""
    rows = [tuple(item) if isinstance(item, list | tuple) else (item,) for item in X]
    found = []
    for row, parts in enumerate(rows):
        if len(parts) != len(rows[0]) or not 1 <= len(parts) <= 2:
            raise origin.error(
                f"{origin.inputs}: row {row:,} has {counted(len(parts), 'text')}; every row must have one, "
                "or every row two"
            )
        if not all(isinstance(part, str) or _missing(part) for part in parts):
            raise origin.error(
                f"{origin.inputs}: row {row:,} is {brief(parts)}, expected texts as in other rows"
            )
        found.append(tuple("" if _missing(part) else sound(part) for part in parts))
    empty = sum(not "".join(parts).strip() for parts in found)
    if empty == len(found):
        raise origin.error(f"{origin.inputs}: every text is empty")
    return Found("text", found, (f"{counted(empty, 'row')} without text",) if empty else ())
