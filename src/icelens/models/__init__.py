"""Networks that turn a batch of inputs into logits, found by name in `MODELS`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from numbers import Integral, Real
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
    """The model of that name for inputs of that shape; what is not known or cannot work is refused.

    >>> network("mlp", (64,), 10, hidden=[32]).head
    Linear(in_features=32, out_features=10, bias=True)
    """
    if name not in MODELS:
        raise unknown("model", name, MODELS)
    try:
        defaults = _settings(MODELS[name])
        for setting, value in settings.items():
            if setting not in defaults:
                raise unknown("setting", setting, defaults)
            _check_kind(setting, value, defaults[setting])
        return MODELS[name](tuple(shape), outputs, **settings)
    except InputError as error:
        raise InputError(f"model {name}: {error}") from None


def _settings(make: Callable[..., nn.Module]) -> dict[str, Any]:
    """The keyword-only settings of a model with their defaults."""
    parameters = inspect.signature(make).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def _check_kind(setting: str, value: Any, default: Any) -> None:
    """Raise unless the value is of the kind of its default; the range is for the model to check."""
    words, fits = KINDS[type(default)]
    if not fits(value):
        raise InputError(f"{setting} must be {words}, got {value!r}")


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


# By the type of a default: what a setting must be, in words and as a test. To Python a bool is a number too.
KINDS: dict[type, tuple[str, Callable[[Any], bool]]] = {
    bool: ("true or false", lambda value: isinstance(value, bool)),
    int: ("a whole number", _is_whole),
    float: ("a number", lambda value: isinstance(value, Real) and not isinstance(value, bool)),
    tuple: (
        "a list of whole numbers",
        lambda value: isinstance(value, (list, tuple)) and all(map(_is_whole, value)),
    ),
}
