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
from icelens.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

SIDE = 32  # pixels of an image on its longer side; the networks are made for such
CHARACTERS = 4000  # of a text that are read
CHARACTERS_IN_ALL = 40_000_000  # beyond, words alone: n-grams of characters would take minutes
NGRAMS = 200_000
WIDEST = 4096  # columns of a table after encoding, beyond which it is kept sparse
FARTHEST = 8.0  # standard deviations; a cell farther out says no more than that it is far out


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


def table_inputs(table: pd.DataFrame | NDArray[np.float32] | Any) -> Features | Bags:
    """Numbers standardised, missing ones at the median with a flag, categories one column each."""
    import scipy.sparse

    if scipy.sparse.issparse(table):
        sparse: Any = table
        return bags_of(_unit_columns(sparse.tocsr().astype(np.float32)))
    if isinstance(table, np.ndarray):
        return Features(torch.from_numpy(_standardised(np.array(table, dtype=np.float32))))
    matrix = _encoder(table).fit_transform(table)
    if scipy.sparse.issparse(matrix):
        if matrix.shape[1] > WIDEST:
            return bags_of(matrix.astype(np.float32))
        matrix = matrix.toarray()
    values = np.clip(np.asarray(matrix, dtype=np.float32), -FARTHEST, FARTHEST)
    return Features(torch.from_numpy(np.ascontiguousarray(values)))


def _encoder(table: pd.DataFrame) -> Any:
    """scikit-learn's preprocessing of the columns by their kind."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numeric = [column for column in table if table[column].dtype.kind in "fiub"]
    others = [column for column in table if column not in set(numeric)]
    impute = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    one_hot = OneHotEncoder(min_frequency=2, handle_unknown="infrequent_if_exist", dtype=np.float32)
    return ColumnTransformer(
        [("numbers", make_pipeline(impute, StandardScaler()), numeric), ("categories", one_hot, others)]
    )


def _standardised(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Each column with mean 0 and deviation 1, in place: there may be gigabytes of them."""
    values -= values.mean(0, dtype=np.float64).astype(np.float32)
    spread = np.sqrt(np.einsum("ij,ij->j", values, values, dtype=np.float64) / len(values)).astype(np.float32)
    values /= np.where(spread > 0, spread, 1)
    return np.clip(values, -FARTHEST, FARTHEST, out=values)


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
    tensor = torch.from_numpy(np.ascontiguousarray(pixels)).permute(0, 3, 1, 2).contiguous()
    scaled = [channel.double().div(255) for channel in tensor.unbind(1)]
    mean = torch.stack([channel.mean() for channel in scaled]).float()[:, None, None]
    std = torch.stack([channel.std() for channel in scaled]).float().clamp_min(1e-3)[:, None, None]
    return Pictures(tensor, mean, std, large)


def _decoded(images: Any) -> NDArray[np.uint8]:
    """Images opened, made square and small, in colour unless all are grey."""
    with progress.bar("reading images", len(images)) as tick, ThreadPoolExecutor() as pool:
        small = []
        for picture in pool.map(_small, images):
            small.append(picture)
            tick(1)
    if all(picture.shape[2] == 1 for picture in small):
        return np.stack(small)
    return np.stack([np.broadcast_to(p, (SIDE, SIDE, 3)) if p.shape[2] == 1 else p for p in small])


def _small(source: Any) -> NDArray[np.uint8]:
    """(SIDE, SIDE, 1 or 3)."""
    from PIL import Image

    from icelens.data import open_image

    image = Image.fromarray(source) if isinstance(source, np.ndarray) else open_image(source)
    grey = image.mode in ("1", "L", "LA", "I", "I;16", "F")
    image = image.convert("L" if grey else "RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    pixels = np.asarray(image, dtype=np.uint8)
    return pixels[..., None] if grey else pixels
