"""Batches of texts and of images through a pretrained encoder: one vector for each."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from icelens.data import Labelled
from icelens.data.own.pixels import colour
from icelens.errors import FileError, InputError
from icelens.models.encoder import load_backbone, load_image_processor, load_tokenizer

TOKENS = 256  # of a text, or fewer where the encoder takes fewer; the rest is not read

# From the rows of a batch to vectors on the CPU, (batch, width).
Encode = Callable[[NDArray[np.int64]], Tensor]


def text_encoder(data: Labelled, name: str | Path, device: torch.device) -> Encode:
    """Texts, or pairs of them, as the mean of their tokens' last hidden states."""
    network = load_backbone(name, "text").network.to(device)
    tokenizer = load_tokenizer(name)
    limit = _most_tokens(tokenizer, network)

    def encode(rows: NDArray[np.int64]) -> Tensor:
        tokens = _tokens(tokenizer, [data.inputs[row] for row in rows], limit)
        hidden = _hidden(_forward(name, network, tokens, device), name)
        mask = tokens["attention_mask"].to(device)[..., None].float()
        return ((hidden * mask).sum(1) / mask.sum(1)).cpu()

    return encode


def _most_tokens(tokenizer: Any, network: Any) -> int:
    positions = getattr(network.config, "max_position_embeddings", None) or TOKENS
    # Where there is no limit, a tokenizer names a number of thirty digits, and XLNet -1.
    return int(min(limit for limit in (TOKENS, tokenizer.model_max_length, positions) if limit > 0))


def _tokens(tokenizer: Any, texts: list[tuple[str, ...]], limit: int) -> dict[str, Tensor]:
    """What the tokenizer makes of a batch; of a pair that is too long, the longer text is cut."""
    columns = [list(column) for column in zip(*texts, strict=True)]
    tokens = dict(
        tokenizer(
            *columns,
            truncation="longest_first",
            max_length=limit,
            padding="longest",
            return_attention_mask=True,
            return_tensors="pt",
        )
    )
    if not tokens["input_ids"].shape[1]:
        shape = (len(texts), 1)
        tokens = {key: torch.zeros(shape, dtype=torch.int64) for key in tokens}
        tokens["input_ids"] += tokenizer.pad_token_id
    # A text without any token, where the tokenizer adds none of its own, is read as one of padding.
    tokens["attention_mask"][:, 0] = 1
    return tokens


def image_encoder(data: Labelled, name: str | Path, device: torch.device) -> Encode:
    """Images as the encoder's pooled output."""
    backbone, processor = load_backbone(name, "image"), load_image_processor(name)
    network = backbone.network.to(device)

    def encode(rows: NDArray[np.int64]) -> Tensor:
        # Pillow warns of metadata and sizes that it finds odd, but reads.
        with warnings.catch_warnings(), ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            warnings.simplefilter("ignore")
            pixels = list(pool.map(lambda row: _pixels(processor, data, row), rows))
        if len({image.shape for image in pixels}) > 1:
            raise FileError(f"{name}: its preprocessor_config.json leaves images at different sizes")
        output = _forward(name, network, {"pixel_values": torch.stack(pixels)}, device)
        return _pooled(output, name, backbone.pooler).cpu()

    return encode


def _pixels(processor: Any, data: Labelled, row: int) -> Tensor:
    """(channels, height, width), as the encoder takes it."""
    from icelens.data import open_image

    source = data.inputs[row]
    if isinstance(source, np.ndarray) and source.ndim == 3 and source.shape[2] == 1:
        source = source[..., 0]
    try:
        with open_image(source) as image:
            seen = colour(image)  # each by itself, as batches come one by one
    except Exception as error:  # decoders raise whatever the bytes lead them to
        raise FileError(f"{data.name}: image '{data.ids[row]}' cannot be read: {error}") from None
    pixels: Tensor = processor(images=seen, return_tensors="pt")["pixel_values"][0]
    return pixels


def _pooled(output: Any, name: str | Path, pooler: bool) -> Tensor:
    pooled = getattr(output, "pooler_output", None) if pooler else None
    if isinstance(pooled, Tensor):
        return pooled.float().flatten(1)
    hidden = _hidden(output, name)
    # (batch, positions, width) of a transformer, (batch, width, height, width) of a convolutional network.
    return hidden.mean(1) if hidden.ndim == 3 else hidden.flatten(2).mean(2)


def _forward(name: str | Path, network: nn.Module, inputs: dict[str, Tensor], device: torch.device) -> Any:
    # Tokenizers that are not made for one kind of encoder return more than some take.
    taken = inspect.signature(network.forward).parameters
    placed = {key: value.to(device) for key, value in inputs.items() if key in taken}
    half = torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda")
    try:
        with torch.inference_mode(), half:
            return network(**placed)
    except (ValueError, TypeError, IndexError) as error:
        reason = str(error).strip().split("\n", 1)[0]
        raise FileError(f"{name}: this encoder does not take what its own files prepare: {reason}") from None


def _hidden(output: Any, name: str | Path) -> Tensor:
    hidden = getattr(output, "last_hidden_state", None)
    if not isinstance(hidden, Tensor):
        raise InputError(f"{name}: gives no hidden states, so it is not an encoder")
    return hidden.float()
