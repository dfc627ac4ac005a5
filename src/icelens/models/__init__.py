"""Networks that turn a batch of inputs into logits, found by name in `MODELS`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from icelens.errors import InputError, unknown
from icelens.models.classifier import Classifier
from icelens.models.convolutional import cnn
from icelens.models.perceptron import mlp
from icelens.models.residual import resnet18, resnet18_paper

__all__ = ["MODELS", "Classifier", "cnn", "mlp", "network", "resnet18", "resnet18_paper"]

# Each is make(shape, outputs, **settings): the shape is that of one input, without the batch.
MODELS: dict[str, Callable[..., nn.Module]] = {
    "mlp": mlp,
    "cnn": cnn,
    "resnet18": resnet18,
    "resnet18_paper": resnet18_paper,
}


def network(name: str, shape: tuple[int, ...], outputs: int, **settings: Any) -> nn.Module:
    """The model of that name for inputs of that shape; a name or a setting that is not known is refused.

    >>> network("mlp", (64,), 10, hidden=[32]).head
    Linear(in_features=32, out_features=10, bias=True)
    """
    if name not in MODELS:
        raise unknown("model", name, MODELS)
    known = _settings(MODELS[name])
    for setting in settings:
        if setting not in known:
            raise InputError(f"model {name}: {unknown('setting', setting, known)}")
    return MODELS[name](tuple(shape), outputs, **settings)


def _settings(make: Callable[..., nn.Module]) -> list[str]:
    parameters = inspect.signature(make).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
