"""A text task as token numbers on the device, and its batches."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from icelens.data import Examples, find, load
from icelens.data.examples import Texts
from icelens.errors import InputError
from icelens.models.encoder import load_tokenizer

_CHUNK = 20_000  # texts handed to the tokenizer at a time, since it answers in Python lists
_ROUND = 8  # lengths that a GPU's matrix units like, and few enough that kernels are chosen once


@dataclass(frozen=True, eq=False)
class Tokens:
    """Texts as the encoder takes them: row i is row i of the file.

    Args:
        inputs: what the tokenizer returns (`input_ids`, `attention_mask`, ...), each (N, longest), int32.
        lengths: (N,), tokens of each text, on the CPU: the width of a batch is known without asking the
            device.
        labels: (N,), the given classes.
    """

    inputs: dict[str, Tensor]
    lengths: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.lengths)

    def to(self, device: torch.device) -> Tokens:
        """The same, with all but the lengths on a device."""
        inputs = {name: values.to(device) for name, values in self.inputs.items()}
        return Tokens(inputs, self.lengths, self.labels.to(device))

    def batches(self, order: Tensor, size: int) -> Iterator[tuple[int, Tensor]]:
        """Width and rows of each batch in this order; the rows lie on the device.

        The width is that of the longest text of the batch, rounded up to a multiple of 8. Padding is masked:
        it changes no number but by rounding.

        Args:
            order: rows, on the CPU.
            size: rows of a batch; the last one may be smaller.
        """
        on_device = order.to(self.labels.device)
        for start in range(0, len(order), size):
            longest = int(self.lengths[order[start : start + size]].max())
            yield math.ceil(longest / _ROUND) * _ROUND, on_device[start : start + size]

    def inputs_of(self, rows: Tensor, width: int) -> dict[str, Tensor]:
        """What the encoder takes for these rows, cut to a width."""
        return {name: values[:, :width][rows].long() for name, values in self.inputs.items()}


@dataclass(frozen=True, eq=False)
class TextTask:
    """The training set and the test sets of a task; the first test set has the empty name."""

    train: Tokens
    tests: dict[str, Tokens]
    classes: tuple[str, ...]


def prepare_text(
    data: str, root: Path | str, encoder: str, max_length: int, device: torch.device
) -> TextTask:
    """Read a task of text and tokenise all of it, once for all the trials on it."""
    find(data)
    split, tokenizer = load(data, root), load_tokenizer(encoder)
    tests = {"": split.test, **split.extra}
    for name, examples in {"train": split.train, **tests}.items():
        if not len(examples):
            raise InputError(f"data set '{data}' has no rows{f' in {name}' if name else ' to test on'}")
    return TextTask(
        train=tokenise(tokenizer, split.train, max_length).to(device),
        tests={
            name: tokenise(tokenizer, examples, max_length).to(device) for name, examples in tests.items()
        },
        classes=split.train.classes,
    )


def tokenise(tokenizer: Any, examples: Examples, max_length: int) -> Tokens:
    """The texts of a task as numbers; of a pair that is too long, its longer text is cut."""
    texts = examples.inputs
    if max_length > tokenizer.model_max_length:
        raise InputError(
            f"max_length is {max_length}, but this encoder takes {tokenizer.model_max_length} tokens"
        )
    if isinstance(texts, Tensor):
        raise InputError("an encoder reads text, but these inputs are numbers")
    parts = [
        _encoded(tokenizer, texts[start : start + _CHUNK], max_length)
        for start in range(0, len(texts), _CHUNK)
    ]
    width = max(part["attention_mask"].shape[1] for part in parts)
    width = min(math.ceil(width / _ROUND) * _ROUND, max_length)
    inputs = {
        name: torch.cat([_widened(part[name], width, _filler(tokenizer, name)) for part in parts])
        for name in parts[0]
    }
    return Tokens(inputs, inputs["attention_mask"].sum(1, dtype=torch.int64), examples.labels)


def _encoded(tokenizer: Any, texts: Texts, max_length: int) -> dict[str, Tensor]:
    columns = [list(column) for column in zip(*texts, strict=True)]
    encoded = tokenizer(
        *columns,
        truncation="longest_first",
        max_length=max_length,
        padding="longest",
        return_attention_mask=True,
        return_tensors="pt",
    )
    return {name: values.to(torch.int32) for name, values in encoded.items()}


def _filler(tokenizer: Any, name: str) -> int:
    return int(tokenizer.pad_token_id) if name == "input_ids" else 0


def _widened(values: Tensor, width: int, filler: int) -> Tensor:
    return torch.nn.functional.pad(values, (0, width - values.shape[1]), value=filler)
