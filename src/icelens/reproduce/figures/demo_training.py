"""Training for the demo: one input, three classes, fifteen wrong labels, four ways to learn from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from icelens.losses import ICELoss, confidence_cross_entropy, cross_entropy
from icelens.models import network

Array = NDArray[Any]

WEIGHTS, MEANS, DEVIATIONS = np.array([[0.4, 0.35, 0.25], [-6.5, -1.5, 4.0], [1.2, 1.4, 1.6]])
EXAMPLES, MISLABELLED = 200, 15
HIDDEN, BATCH, EPOCHS, FURTHER_EPOCHS = 256, 64, 100, 400
# Nobody says which rate Adam had; this is its own default.
LEARNING_RATE, WEIGHT_DECAY = 1e-3, 0.5
# The authors' rate of 100 on the mean loss of a batch, as a step per visit.
STEP_SIZE = 100 / BATCH
GRID = np.linspace(-10.5, 9.5, 401)

BatchLoss = Callable[[Tensor], Tensor]


class Sample(NamedTuple):
    """Examples (n,): the input, the given label, and whether it is wrong on purpose."""

    x: Array
    labels: Array
    moved: Array


def posterior(x: Array, weights: Array) -> Array:
    """P(class | x) of the mixture of three normal distributions with these weights, (n, 3)."""
    log_density = np.log(weights / DEVIATIONS) - 0.5 * ((x[:, None] - MEANS) / DEVIATIONS) ** 2
    density = np.exp(log_density - log_density.max(1, keepdims=True))
    return np.asarray(density / density.sum(1, keepdims=True))


def draw_sample(seed: int) -> Sample:
    """Examples with equal shares of the classes; some of them get one of their two least likely labels."""
    rng = np.random.default_rng(seed)
    classes = np.arange(EXAMPLES) % 3
    x = rng.normal(MEANS[classes], DEVIATIONS[classes])
    rows = rng.choice(EXAMPLES, MISLABELLED, replace=False)
    unlikely = posterior(x[rows], WEIGHTS).argsort(1)[:, :2]
    labels = classes.copy()
    labels[rows] = unlikely[np.arange(MISLABELLED), rng.integers(2, size=MISLABELLED)]
    return Sample(x, labels, np.isin(np.arange(EXAMPLES), rows))


def train_demo(seed: int = 0) -> dict[str, Array]:
    """Learn the class-posteriors in four ways; takes a few seconds.

    Returns:
        `x`, `labels`, `moved` (200,), the examples; `grid` (401,), and on it `truth`, `cross_entropy`,
        `weight_decay`, `network`, `embedding` (401, 3), the posteriors; `network_confidence` (401,), C = g(x)
        on the grid; `embedding_confidence` (200,), C of each example.
    """
    sample = draw_sample(seed)
    x, labels = torch.tensor(sample.x, dtype=torch.float32)[:, None], torch.tensor(sample.labels)
    network_p, network_c = _with_network(x, labels, seed)
    embedding_p, embedding_c = _with_embedding(x, labels, seed)
    arrays = {
        "grid": GRID,
        "truth": posterior(GRID, np.full(3, 1 / 3)),
        "cross_entropy": _plain(x, labels, seed, weight_decay=0.0),
        "weight_decay": _plain(x, labels, seed, weight_decay=WEIGHT_DECAY),
        "network": network_p,
        "network_confidence": network_c,
        "embedding": embedding_p,
        "embedding_confidence": embedding_c,
    }
    floats = {name: array.astype(np.float32) for name, array in arrays.items()}
    return {
        "x": sample.x.astype(np.float32),
        "labels": sample.labels.astype(np.int8),
        "moved": sample.moved,
        **floats,
    }


def _plain(x: Tensor, labels: Tensor, seed: int, *, weight_decay: float) -> Array:
    f = _network(3, seed)
    _train(f, lambda rows: cross_entropy(f(x[rows]), labels[rows]).mean(), seed, weight_decay=weight_decay)
    return _predicted(f)


def _with_network(x: Tensor, labels: Tensor, seed: int) -> tuple[Array, Array]:
    """f and g together, then g alone, which needs longer."""
    f, g = _network(3, seed), _network(1, seed + 1)

    def loss(rows: Tensor) -> Tensor:
        return confidence_cross_entropy(f(x[rows]), labels[rows], g(x[rows]).squeeze(1)).mean()

    _train(nn.ModuleList([f, g]), loss, seed)
    _train(g, loss, seed + 1, epochs=FURTHER_EPOCHS)
    with torch.no_grad():
        return _predicted(f), g(_grid()).squeeze(1).sigmoid().numpy()


def _with_embedding(x: Tensor, labels: Tensor, seed: int) -> tuple[Array, Array]:
    f, ice = _network(3, seed), ICELoss(EXAMPLES, step_size=STEP_SIZE)
    _train(f, lambda rows: ice(f(x[rows]), labels[rows], rows), seed)
    return _predicted(f), ice.confidence().numpy()


def _train(
    model: nn.Module, loss: BatchLoss, seed: int, *, epochs: int = EPOCHS, weight_decay: float = 0.0
) -> None:
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE, weight_decay=weight_decay)
    for rows in _batches(epochs, seed):
        optimizer.zero_grad()
        loss(rows).backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def _batches(epochs: int, seed: int) -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        yield from torch.split(torch.randperm(EXAMPLES, generator=generator), BATCH)


def _network(outputs: int, seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return network("mlp", (1,), outputs, hidden=(HIDDEN,))


def _predicted(f: nn.Module) -> Array:
    with torch.no_grad():
        return np.asarray(f(_grid()).softmax(1))


def _grid() -> Tensor:
    return torch.tensor(GRID, dtype=torch.float32)[:, None]
