"""What an audit learns from, in memory: rows of features, bags of n-grams, or small images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from icelens.data.device import crop_flip, draw
from icelens.models import mlp, resnet18


@dataclass(frozen=True)
class Plan:
    """How long and in what steps to train, chosen from the number of examples."""

    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float = 0.0


class Inputs(Protocol):
    """Rows that can be gathered into batches, and the network that takes those."""

    def __len__(self) -> int: ...

    def batch(self, rows: Tensor, *, training: bool) -> Any:
        """What the network takes for these rows."""

    def network(self, classes: int) -> nn.Module:
        """A new network, drawn from torch's seed."""

    def plan(self) -> Plan:
        """How to train it."""

    def to(self, device: torch.device) -> Inputs:
        """The same on a device."""

    @property
    def model(self) -> str:
        """What the network is, for people."""

    @property
    def recordable(self) -> bool:
        """Whether all batches of a size run the same operations, so that a step can be a CUDA graph."""

    @property
    def memorises(self) -> bool:
        """Whether the network would learn wrong labels by heart, if it were not kept from it."""

    @property
    def precision(self) -> str:
        """What the network computes in: "float32" or "bfloat16"."""


def _epochs(examples: int, at_5000: float, power: float, low: int, high: int) -> int:
    """More examples are seen less often each: the number of steps grows, but slower than the data."""
    return int(min(high, max(low, round(at_5000 * (5000 / examples) ** power))))


def _batch_size(examples: int) -> int:
    return 32 if examples < 1000 else 128 if examples < 30_000 else 512


@dataclass(frozen=True, eq=False)
class Features:
    """Dense features, (N, width) float32, into an MLP with one hidden layer."""

    values: Tensor
    hidden: int = 256
    dropout: float = 0.2
    recordable = True
    memorises = False
    precision = "float32"

    def __len__(self) -> int:
        return len(self.values)

    def batch(self, rows: Tensor, *, training: bool) -> Tensor:
        """(batch, width)."""
        return self.values[rows]

    def network(self, classes: int) -> nn.Module:
        """An MLP."""
        return mlp((self.values.shape[1],), classes, hidden=(self.hidden,), dropout=self.dropout)

    def plan(self) -> Plan:
        """AdamW with 30 epochs at 5,000 rows, 5 at a million."""
        return Plan(_epochs(len(self), 30, 0.35, 5, 100), _batch_size(len(self)), 2e-3, 1e-2)

    def to(self, device: torch.device) -> Features:
        """The same on a device."""
        return Features(self.values.to(device), self.hidden, self.dropout)

    @property
    def model(self) -> str:
        """For people."""
        return f"an MLP ({self.values.shape[1]} features, {self.hidden} hidden)"


@dataclass(frozen=True, eq=False)
class Bags:
    """Sparse rows, as of n-grams, into one linear layer; half of the entries are dropped in training.

    The three tensors are those of a CSR matrix.
    """

    starts: Tensor
    columns: Tensor
    weights: Tensor
    width: int
    dropout: float = 0.5
    recordable = False  # the number of n-grams of a batch changes
    memorises = False
    precision = "float32"

    def __len__(self) -> int:
        return len(self.starts) - 1

    def batch(self, rows: Tensor, *, training: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Columns and weights of the rows, one after the other, and where each row starts."""
        first = self.starts[rows]
        lengths = self.starts[rows + 1] - first
        offsets = lengths.cumsum(0) - lengths
        total = int(lengths.sum())
        at = torch.arange(total, device=first.device) + (first - offsets).repeat_interleave(lengths)
        weights = self.weights[at]
        if training and self.dropout:
            weights = weights * (torch.rand_like(weights) >= self.dropout) / (1 - self.dropout)
        return self.columns[at], offsets, weights

    def network(self, classes: int) -> nn.Module:
        """A linear layer over sparse rows."""
        return SparseLinear(self.width, classes)

    def plan(self) -> Plan:
        """A few epochs of Adam: a linear layer over n-grams remembers its labels soon."""
        return Plan(_epochs(len(self), 6, 0.25, 3, 10), _batch_size(len(self)), 2e-2)

    def to(self, device: torch.device) -> Bags:
        """The same on a device."""
        tensors = (self.starts.to(device), self.columns.to(device), self.weights.to(device))
        return Bags(*tensors, self.width, self.dropout)

    @property
    def model(self) -> str:
        """For people."""
        return f"a linear layer over {self.width:,} n-grams"


class SparseLinear(nn.Module):
    """logits = x·W + b for sparse x; only the rows of W that a batch touches are read and updated."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.EmbeddingBag(width, classes, mode="sum", sparse=True)
        nn.init.zeros_(self.weight.weight)
        self.bias = nn.Parameter(torch.zeros(classes))

    def forward(self, bags: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """Logits, (batch, classes)."""
        columns, offsets, weights = bags
        logits: Tensor = self.weight(columns, offsets, per_sample_weights=weights) + self.bias
        return logits


def bags_of(matrix: Any) -> Bags:
    """From a scipy matrix."""
    matrix = matrix.tocsr()
    return Bags(
        torch.from_numpy(matrix.indptr.astype(np.int64)),
        torch.from_numpy(matrix.indices.astype(np.int64)),
        torch.from_numpy(matrix.data.astype(np.float32)),
        matrix.shape[1],
    )


@dataclass(frozen=True, eq=False)
class Pictures:
    """Small images, (N, channels, height, width) uint8, into a convolutional network."""

    pixels: Tensor
    mean: Tensor
    std: Tensor
    large: bool = False
    recordable = True

    def __len__(self) -> int:
        return len(self.pixels)

    def batch(self, rows: Tensor, *, training: bool) -> Tensor:
        """(batch, channels, height, width), normalised; photographs are cropped and mirrored in training."""
        pixels = self.pixels[rows]
        if training and self.large:
            pixels = crop_flip(pixels, *draw(len(rows), pixels.device))
        scaled = (pixels.float() / 255 - self.mean) / self.std
        return scaled.contiguous(memory_format=torch.channels_last) if self.large else scaled

    def network(self, classes: int) -> nn.Module:
        """ResNet-18 on a GPU, three convolutions on a CPU."""
        if self.large:
            network = resnet18(tuple(self.pixels.shape[1:]), classes)
            return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]
        return _small_convolutional(self.pixels.shape[1:], classes)

    def plan(self) -> Plan:
        """Epochs fall with the number of images."""
        if self.large:
            return Plan(_epochs(len(self), 60, 0.25, 20, 80), 256, 1e-3, 5e-2)
        return Plan(_epochs(len(self), 20, 0.3, 6, 40), _batch_size(len(self)), 2e-3, 1e-2)

    def to(self, device: torch.device) -> Pictures:
        """The same on a device."""
        return Pictures(self.pixels.to(device), self.mean.to(device), self.std.to(device), self.large)

    @property
    def model(self) -> str:
        """For people."""
        size = " x ".join(map(str, self.pixels.shape[2:]))
        return f"{'ResNet-18' if self.large else 'three convolutions'} on {size} pixels"

    @property
    def memorises(self) -> bool:
        """The large network sees each image often enough to."""
        return self.large

    @property
    def precision(self) -> str:
        """The large network runs on tensor cores."""
        return "bfloat16" if self.large else "float32"


def _small_convolutional(shape: torch.Size, classes: int) -> nn.Module:
    """Three convolutions that a CPU can afford, and one hidden layer."""
    channels, height, width = shape
    layers: list[nn.Module] = []
    for wide_in, wide in ((channels, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(wide_in, wide, 3, padding=1, bias=False), nn.BatchNorm2d(wide), nn.ReLU()]
        layers.append(nn.MaxPool2d(2, ceil_mode=True))
        height, width = -(-height // 2), -(-width // 2)
    hidden = [nn.Flatten(), nn.Dropout(0.2), nn.Linear(64 * height * width, 128), nn.ReLU()]
    return nn.Sequential(*layers, *hidden, nn.Linear(128, classes))
