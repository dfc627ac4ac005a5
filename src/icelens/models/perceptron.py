"""A multilayer perceptron, for vectors and for features that another model made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from icelens.errors import InputError
from icelens.models.classifier import Classifier, dropout_rate


def mlp(
    shape: tuple[int, ...], outputs: int, *, hidden: Sequence[int] = (256, 256), dropout: float = 0.0
) -> Classifier:
    """Flatten, then Linear, ReLU and Dropout for each hidden width, then Linear.

    With `hidden=()` it is a linear model.

    >>> mlp((64,), 3, hidden=(16,)).features
    Sequential(
      (0): Flatten(start_dim=1, end_dim=-1)
      (1): Linear(in_features=64, out_features=16, bias=True)
      (2): ReLU()
      (3): Dropout(p=0.0, inplace=False)
    )
    """
    widths = [math.prod(shape), *hidden]
    if min(widths) < 1:
        raise InputError(f"every layer needs at least 1 unit, got inputs {shape} and hidden {tuple(hidden)}")
    layers: list[nn.Module] = [nn.Flatten()]
    for inputs, width in pairwise(widths):
        layers += [nn.Linear(inputs, width), nn.ReLU(), nn.Dropout(dropout_rate(dropout))]
    return Classifier(nn.Sequential(*layers), widths[-1], outputs)
