"""What the trained network sees of an example before its last layer: what alike means to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from icelens.auditing.fit import BATCH
from icelens.auditing.inputs import Bags, Inputs
from icelens.models.classifier import Classifier

WIDTH = 32  # numbers that describe an example to re-ranking


def view_of(inputs: Inputs, weights: dict[str, Tensor], classes: int, rows: NDArray[np.int64]) -> Any:
    """Rows of unit length, (rows, width): hidden features, or sparse n-grams where the network is linear."""
    from sklearn.preprocessing import normalize

    if isinstance(inputs, Bags):
        return normalize(_bags(inputs, rows))
    network = inputs.network(classes)
    network.load_state_dict(weights)
    return normalize(_hidden(inputs, before_last(network), rows))


def before_last(network: nn.Module) -> nn.Module:
    """The network without its last layer."""
    if isinstance(network, Classifier):
        return network.features
    assert isinstance(network, nn.Sequential), f"no last layer is known of {type(network).__name__}"
    return network[:-1]


@torch.no_grad()
def _hidden(inputs: Inputs, network: nn.Module, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    device = next(value.device for value in vars(inputs).values() if isinstance(value, Tensor))
    network.eval().to(device)
    parts = [
        network(inputs.batch(part.to(device), training=False)).float().cpu()
        for part in torch.split(torch.from_numpy(rows), BATCH)
    ]
    hidden: NDArray[np.float32] = torch.cat(parts).numpy()
    return hidden


def _bags(inputs: Bags, rows: NDArray[np.int64]) -> Any:
    """Sparse rows as a scipy matrix."""
    import scipy.sparse

    at = torch.from_numpy(rows).to(inputs.starts.device)
    columns, offsets, weights = (part.cpu().numpy() for part in inputs.batch(at, training=False))
    starts = np.append(offsets, len(columns))
    return scipy.sparse.csr_matrix((weights, columns, starts), (len(rows), inputs.width))


def compressed(view: Any, seed: int = 0) -> NDArray[np.float16]:
    """The principal components of a view, at most WIDTH, in deviations of the first, (rows, width)."""
    import scipy.sparse
    from sklearn.utils.extmath import randomized_svd

    if not scipy.sparse.issparse(view):
        view = view - view.mean(0)
    width = min(WIDTH, *view.shape)
    left, sizes, _ = randomized_svd(view, width, random_state=seed)
    spread = np.sqrt((left[:, :1] ** 2).mean()) * sizes[0]
    vectors: NDArray[np.float16] = (left * sizes / max(spread, 1e-12)).astype(np.float16)
    return vectors
