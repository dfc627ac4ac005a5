"""Features by a pretrained encoder: a vector for each text or image, computed once and kept on disk."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from icelens import progress
from icelens.auditing.encoding import TOKENS, Encode, image_encoder, text_encoder
from icelens.auditing.features import table_inputs
from icelens.auditing.inputs import Features
from icelens.data import Labelled
from icelens.errors import FileError, InputError, MissingFileError
from icelens.files import replacing
from icelens.models.encoder import fingerprint_of

FORMAT = 1  # of what is kept: another number where the same encoder would give the same data other vectors
CHUNK = 512  # examples that are kept at a time: what an embedding that is stopped can lose
BATCH, BATCH_ON_GPU = 32, 256


def embed(data: Labelled, backbone: str | Path, device: torch.device, cache: Path | None = None) -> Features:
    """The texts or images of a data set as a pretrained encoder sees them, each column standardised.

    A text is the mean of its tokens' last hidden states, an image the pooled output, or the mean over its
    positions where none was learned. The encoder is not trained.

    Args:
        data: texts or images; labels and ids have no influence.
        backbone: a folder that `save_pretrained` wrote, or the name of a model on the hub, which is fetched.
        device: where the encoder runs, on a GPU in bfloat16, and where the features will be.
        cache: a folder that keeps the embeddings. A second call with the same backbone and inputs reads them;
            one that was stopped goes on. None keeps nothing.
    """
    if data.kind not in ("text", "image"):
        raise InputError(f"{data.name}: a backbone reads texts or images, but this is a {data.kind}")
    path = None if cache is None else cache / f"embeddings-{_key(data, backbone)}.npy"
    values = _stored(path, len(data))
    if values is None:
        values = _embedded(data, backbone, device, path)
    return cast(Features, table_inputs(values)).to(device)


def _embedded(
    data: Labelled, backbone: str | Path, device: torch.device, path: Path | None
) -> NDArray[np.float32]:
    """The embeddings, chunk by chunk; chunks are kept beside `path` until all are there."""
    encode = (text_encoder if data.kind == "text" else image_encoder)(data, backbone, device)
    size = BATCH_ON_GPU if device.type == "cuda" else BATCH
    parts = None if path is None else path.with_suffix(".parts")
    order, values = _reading_order(data), np.empty((0, 0), np.float32)
    with progress.bar(f"embedding {data.kind}s", len(data)) as tick:
        for start in range(0, len(data), CHUNK):
            rows = order[start : start + CHUNK]
            kept = None if parts is None else parts / f"{start:09}.npy"
            chunk = _stored(kept, len(rows))
            if chunk is None:
                chunk = _chunk(data, rows, encode, size, tick)
                _keep(kept, chunk)
            else:
                tick(len(rows))
            if not start:
                values = np.empty((len(data), chunk.shape[1]), np.float32)
            values[rows] = chunk
    _keep(path, values)
    if parts is not None:
        shutil.rmtree(parts, ignore_errors=True)
    # Mapped from the disk they do not lie in memory twice while they are standardised.
    stored = _stored(path, len(data))
    return values if stored is None else stored


def _reading_order(data: Labelled) -> NDArray[np.int64]:
    """Long texts first and beside texts of their length, so that little of a batch is padding."""
    if data.kind == "image":
        return np.arange(len(data))
    return np.argsort([-sum(map(len, text)) for text in data.inputs], kind="stable")


def _chunk(
    data: Labelled, rows: NDArray[np.int64], encode: Encode, size: int, tick: Callable[..., None]
) -> NDArray[np.float32]:
    vectors = []
    for start in range(0, len(rows), size):
        batch = rows[start : start + size]
        vectors.append(encode(batch))
        tick(len(batch))
    chunk = torch.cat(vectors).numpy()
    wrong = np.flatnonzero(~np.isfinite(chunk).all(1))
    if len(wrong):
        raise FileError(f"the backbone gives no finite numbers for example '{data.ids[rows[wrong[0]]]}'")
    return chunk


def _stored(path: Path | None, rows: int) -> NDArray[np.float32] | None:
    """The vectors of a file, not yet read, or None where it is not there or not whole."""
    if path is None:
        return None
    try:
        values = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    whole = values.ndim == 2 and len(values) == rows and values.dtype == np.float32
    return values if whole else None


def _keep(path: Path | None, values: NDArray[np.float32]) -> None:
    if path is not None:
        with replacing(path) as part, part.open("wb") as file:
            np.save(file, values, allow_pickle=False)


def _key(data: Labelled, backbone: str | Path) -> str:
    """Names the embeddings of these inputs by this encoder; of all else, the name is another."""
    digest = hashlib.sha256(json.dumps([FORMAT, TOKENS, data.kind, fingerprint_of(backbone)]).encode())
    for example in data.inputs:
        digest.update(json.dumps(_identity(example)).encode() + b"\n")
    return digest.hexdigest()[:32]


def _identity(example: Any) -> Any:
    """What tells an input from another one: all of it, but of a file on disk the place, size and time."""
    if isinstance(example, np.ndarray):
        return [example.shape, hashlib.sha256(example.tobytes()).hexdigest()]
    if isinstance(example, io.BytesIO):
        return hashlib.sha256(example.getbuffer()).hexdigest()
    if isinstance(example, tuple):
        return example
    try:
        found = os.stat(example)
    except OSError as error:
        raise MissingFileError(f"{example}: {error.strerror}") from None
    return [os.path.abspath(example), found.st_size, found.st_mtime_ns]
