"""From a user's data to what an audit learns from."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from icelens import progress
from icelens.auditing.inputs import Bags, Features, Inputs, Pictures, bags_of
from icelens.data import Labelled
from icelens.data.device import image_stats
from icelens.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

SIDE = 32  # pixels of an image on its longer side; the networks are made for such
CHARACTERS = 4000  # of a text that are read
CHARACTERS_IN_ALL = 40_000_000  # beyond, words alone: n-grams of characters would take minutes
NGRAMS = 200_000
WIDEST = 4096  # columns of a table after encoding, beyond which it is kept sparse
LARGE = 1e30
CONSTANT = 1e-12  # of the largest number: what rounding alone may spread a column by
COLUMNS = 32  # of a table that are prepared at a time
FARTHEST = 8.0  # standard deviations; a cell farther out says no more than that it is far out

# Beyond the tenth and the ninetieth per cent, in distances between these two; in real tables 8 was seen.
FAR = 20.0
HEAVY = 5.0  # times as wide as between quarters: 1.9 is normal, and 4 was seen
SAMPLE, FEWEST = 20_000, 20  # rows by which columns are told, at most and at least


def inputs_of(data: Labelled, device: torch.device) -> Inputs:
    """What an audit learns from, on the device."""
    if data.kind == "text":
        return text_inputs(data.inputs).to(device)
    if data.kind == "image":
        return image_inputs(data.inputs, large=device.type == "cuda").to(device)
    return table_inputs(data.inputs).to(device)


def text_inputs(texts: list[tuple[str, ...]]) -> Bags:
    """Words and pairs of words, and pieces of words of 3 and 4 characters, weighted by how rare they are."""
    import scipy.sparse
    from sklearn.feature_extraction.text import TfidfVectorizer

    joined = [" | ".join(part[:CHARACTERS] for part in text) for text in texts]
    settings = {"sublinear_tf": True, "max_features": NGRAMS, "dtype": np.float32}
    settings["min_df"] = (
        2 if len(texts) >= 200 else 1
    )  # an n-gram that is seen once teaches one label by heart
    vectorizers = [TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"(?u)\b\w+\b", **settings)]
    if sum(map(len, joined)) <= CHARACTERS_IN_ALL:
        vectorizers.append(TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 4), **settings))
    parts = []
    with progress.bar("reading n-grams", len(vectorizers)) as tick:
        for vectorizer in vectorizers:
            parts += _matrix(vectorizer, joined)
            tick(1)
    if not parts:
        raise InputError("the texts hold no word that two of them share; nothing can be learned from them")
    return bags_of(scipy.sparse.hstack(parts, format="csr"))


def _matrix(vectorizer: Any, texts: list[str]) -> list[Any]:
    try:
        return [vectorizer.fit_transform(texts)]
    except ValueError as error:
        if "vocabulary" in str(error) or "no terms" in str(error).lower():
            return []
        raise


def table_inputs(table: pd.DataFrame | NDArray[np.floating] | Any) -> Features | Bags:
    """Numbers standardised, missing ones at the median with a flag, categories one column each."""
    import scipy.sparse

    if scipy.sparse.issparse(table):
        sparse: Any = table
        return bags_of(_unit_columns(sparse.tocsr().astype(np.float32)))
    if isinstance(table, np.ndarray):
        values = np.empty(table.shape, dtype=np.float32)
        for start in range(0, table.shape[1], COLUMNS):
            block = slice(start, start + COLUMNS)
            values[:, block] = _standardised(table[:, block].copy())
        return Features(torch.from_numpy(values))
    numeric = [column for column in table if table[column].dtype.kind in "fiub"]
    numbers, categories = _numbers(table[numeric]), _categories(table.drop(columns=numeric))
    if categories is None:
        return Features(torch.from_numpy(numbers))
    if categories.shape[1] > WIDEST:
        return bags_of(scipy.sparse.hstack([scipy.sparse.csr_matrix(numbers), categories], format="csr"))
    return Features(torch.from_numpy(np.hstack([numbers, categories.toarray()])))


def _numbers(table: pd.DataFrame) -> NDArray[np.float32]:
    """Standardised numbers, then a flag for each column in which some are missing.

    A few columns at a time, so that a table of gigabytes is held twice and not four times.
    """
    from sklearn.impute import SimpleImputer

    missing = [column for column in table if table[column].isna().any()]
    values = np.empty((len(table), table.shape[1] + len(missing)), dtype=np.float32)
    for start in range(0, table.shape[1], COLUMNS):
        names = table.columns[start : start + COLUMNS]
        # Means are taken out before numbers are made coarser: what tells times apart are their last digits.
        width = np.float64 if any(table[name].dtype == np.float64 for name in names) else np.float32
        block = table[names].to_numpy(dtype=width, na_value=np.nan, copy=True)
        if not set(missing).isdisjoint(names):
            block = SimpleImputer(strategy="median", keep_empty_features=True).fit_transform(block)
        values[:, start : start + len(names)] = _standardised(block)
    for position, column in enumerate(missing, start=table.shape[1]):
        values[:, position] = table[column].isna()
    return values


def _categories(table: pd.DataFrame) -> Any:
    """A sparse column of 0 and 1 for each value that is seen twice, or None where there are no columns."""
    from sklearn.preprocessing import OneHotEncoder

    if not table.shape[1]:
        return None
    encoder = OneHotEncoder(min_frequency=2, handle_unknown="infrequent_if_exist", dtype=np.float32)
    return encoder.fit_transform(table.astype(object).where(table.notna(), None).astype(str))


def _standardised(values: NDArray[Any]) -> NDArray[Any]:
    """Each column with mean 0 and deviation 1, in place: there may be gigabytes of them."""
    if len(values) >= FEWEST:
        _tame(values)
    # Of numbers near the end of their range the difference to the mean would be infinite.
    largest = np.maximum(values.max(0), -values.min(0))
    size = np.where(largest > LARGE, largest, 1)
    values /= size
    values -= values.mean(0, dtype=np.float64).astype(values.dtype)
    spread = np.sqrt(np.einsum("ij,ij->j", values, values, dtype=np.float64) / len(values))
    values /= np.where(spread > CONSTANT * largest / size, spread, 1).astype(values.dtype)
    return np.clip(values, -FARTHEST, FARTHEST, out=values)


def _tame(values: NDArray[Any]) -> None:
    """Take from each column, in place, what would set its scale alone and leave no difference to the rest.

    A number that stands for none, such as 999999, and one with a slip in its point are put at the median; a
    column with tails as heavy as those of exp(3 z), z normal, becomes normal by its ranks.
    Columns in which most numbers are the same stay: their few others may be what counts.
    """
    from scipy.special import ndtri
    from scipy.stats import rankdata

    some = values[:: max(1, len(values) // SAMPLE)]
    with np.errstate(over="ignore", invalid="ignore"):  # of numbers near the end of their range
        low, lower, middle, upper, high = np.quantile(some, (0.1, 0.25, 0.5, 0.75, 0.9), axis=0)
        reach = high - low
        heavy = (upper > lower) & (reach > HEAVY * (upper - lower))
        least, most = low - FAR * reach, high + FAR * reach
        far = (reach > 0) & ~heavy & ((values.max(0) > most) | (values.min(0) < least))
    for column in np.flatnonzero(heavy):
        values[:, column] = ndtri((rankdata(values[:, column]) - 0.5) / len(values))
    for column in np.flatnonzero(far):
        numbers = values[:, column]
        numbers[(numbers > most[column]) | (numbers < least[column])] = middle[column]


def _unit_columns(matrix: Any) -> Any:
    """Sparse columns scaled by their largest entry; moving their mean would fill them."""
    from sklearn.preprocessing import MaxAbsScaler

    return MaxAbsScaler().fit_transform(matrix)


def image_inputs(images: Any, *, large: bool) -> Pictures:
    """All images at one small size, grey where all of them are."""
    if isinstance(images, np.ndarray):
        pixels = images if images.ndim == 4 else images[..., None]
        if max(pixels.shape[1:3]) > SIDE:
            pixels = _decoded(list(pixels.squeeze(-1) if pixels.shape[-1] == 1 else pixels))
    else:
        pixels = _decoded(images)
    if all(np.array_equal(picture, pixels[0]) for picture in pixels):
        side = " x ".join(map(str, pixels.shape[1:3]))
        raise InputError(
            f"all {len(pixels):,} images are the same at {side} pixels; nothing can be learned from them"
        )
    tensor = torch.from_numpy(np.ascontiguousarray(pixels)).permute(0, 3, 1, 2).contiguous()
    mean, std = image_stats(tensor)
    return Pictures(tensor, mean[:, None, None], std.clamp_min(1e-3)[:, None, None], large)


def _decoded(images: Any) -> NDArray[np.uint8]:
    """Images opened, made square and small, in colour unless all are grey."""
    with progress.bar("reading images", len(images)) as tick, ThreadPoolExecutor() as pool:
        small: list[NDArray[Any]] = []
        for picture in pool.map(_small, images):
            small.append(picture)
            tick(1)
    _make_shallow(small)
    if all(picture.shape[2] == 1 for picture in small):
        return np.stack(small)
    return np.stack([np.broadcast_to(p, (SIDE, SIDE, 3)) if p.shape[2] == 1 else p for p in small])


def _make_shallow(small: list[NDArray[Any]]) -> None:
    """Bring deeper greys to 8 bits, in place; those of whole numbers and of floats each have a scale."""
    from icelens.data.own.pixels import eight_bits

    for kind in "if":
        rows = [row for row, picture in enumerate(small) if picture.dtype.kind == kind]
        if rows:
            for row, picture in zip(rows, eight_bits([small[row] for row in rows]), strict=True):
                small[row] = picture


def _small(source: Any) -> NDArray[Any]:
    """(SIDE, SIDE, 1 or 3): uint8, or int32 or float32 where a grey has more than 8 bits."""
    from PIL import Image

    from icelens.data import open_image
    from icelens.data.own.pixels import flat

    with open_image(source) as image:
        pixels = np.asarray(flat(image).resize((SIDE, SIDE), Image.Resampling.BILINEAR))
    return pixels if pixels.ndim == 3 else pixels[..., None]
