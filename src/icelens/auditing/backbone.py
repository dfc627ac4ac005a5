"""Features by a pretrained encoder: a vector for each text or image, computed once and kept on disk."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from icelens import progress
from icelens.auditing.encoding import TOKENS, Encode, image_encoder, text_encoder
from icelens.auditing.features import table_inputs
from icelens.auditing.inputs import Features
from icelens.data import Labelled
from icelens.errors import FileError, InputError, MissingFileError
from icelens.files import replacing
from icelens.models.encoder import fingerprint_of
from icelens.ranks import Ranks, dealt_out

FORMAT = 3  # of what is kept: another number where the same encoder would give the same data other vectors
CHUNK = 512  # examples that are kept at a time: what an embedding that is stopped can lose
BATCH, BATCH_ON_GPU = 32, 256

Rows = NDArray[np.int64]
Vectors = NDArray[np.float32]


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
    ranks = Ranks.here()
    kept = cache if ranks.is_first else None  # the others get theirs from it
    path = None if kept is None else kept / f"embeddings-{_key(data, backbone)}.npy"
    values = _stored(path, len(data))
    if ranks.of_first(lambda: values is None):
        values = _embedded(data, backbone, device, path)
    elif ranks.count > 1:
        values = _handed(values, ranks)
    assert values is not None
    return cast(Features, table_inputs(values)).to(device)


def _embedded(data: Labelled, backbone: str | Path, device: torch.device, path: Path | None) -> Vectors:
    """The embeddings, chunk by chunk; chunks are kept beside `path` until all are there."""
    encode = (text_encoder if data.kind == "text" else image_encoder)(data, backbone, device)
    size = BATCH_ON_GPU if device.type == "cuda" else BATCH
    parts = None if path is None else path.with_suffix(".parts")
    order, values = _reading_order(data), np.empty((0, 0), np.float32)
    with progress.bar(f"embedding {data.kind}s", len(data)) as tick:
        for rows, chunk in _chunks(order, parts, partial(_chunk, data, encode=encode, size=size), tick):
            if not len(values):
                values = np.empty((len(data), chunk.shape[1]), np.float32)
            values[rows] = chunk
    _keep(path, values)
    if parts is not None:
        shutil.rmtree(parts, ignore_errors=True)
    # Mapped from the disk they do not lie in memory twice while they are standardised.
    stored = _stored(path, len(data))
    return values if stored is None else stored


def _chunks(
    order: Rows, parts: Path | None, make: Callable[..., Vectors], tick: Callable[..., None]
) -> Iterator[tuple[Rows, Vectors]]:
    """All chunks of rows and their vectors: those that are kept, then the rest, one a rank at a time."""
    ranks = Ranks.here()
    chunks = {start: order[start : start + CHUNK] for start in range(0, len(order), CHUNK)}
    files = {start: None if parts is None else parts / f"{start:09}.npy" for start in chunks}
    missing = ranks.of_first(
        lambda: [s for s, rows in chunks.items() if _stored(files[s], len(rows)) is None]
    )
    for start in sorted(chunks.keys() - set(missing)):
        yield chunks[start], _handed(_stored(files[start], len(chunks[start])), ranks)
        tick(len(chunks[start]))
    # Ticks for each batch where all of them are made here, else for each chunk.
    within, after = (tick, _nothing) if ranks.count == 1 else (_nothing, tick)

    def made(start: int) -> dict[str, Tensor]:
        return {"vectors": torch.from_numpy(make(chunks[start], tick=within))}

    for start, found in dealt_out(missing, made, ranks):
        vectors = found["vectors"].numpy()
        _keep(files[start], vectors)
        yield chunks[start], vectors
        after(len(vectors))


def _nothing(amount: float = 1) -> None:
    pass


def _handed(values: Vectors | None, ranks: Ranks) -> Vectors:
    """What the first rank has, on all of them."""
    if ranks.count == 1 and values is not None:
        return values
    mine = {} if values is None else {"vectors": torch.from_numpy(np.array(values))}
    return ranks.tensors(mine)["vectors"].numpy()


def _reading_order(data: Labelled) -> Rows:
    """Long texts first and beside texts of their length, so that little of a batch is padding."""
    if data.kind == "image":
        return np.arange(len(data))
    return np.argsort([-sum(map(len, text)) for text in data.inputs], kind="stable")


def _chunk(data: Labelled, rows: Rows, *, encode: Encode, size: int, tick: Callable[..., None]) -> Vectors:
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


def _stored(path: Path | None, rows: int) -> Vectors | None:
    """The vectors of a file, not yet read, or None where it is not there or not whole."""
    if path is None:
        return None
    try:
        values = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    whole = values.ndim == 2 and len(values) == rows and values.dtype == np.float32
    return values if whole else None


def _keep(path: Path | None, values: Vectors) -> None:
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
