"""A recipe: all settings of a run in one flat place, from a TOML file and `key=value` overrides."""

from __future__ import annotations

import dataclasses
import math
import re
import tomllib
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from icelens.errors import FileError, InputError, MissingFileError, unknown


@dataclass(frozen=True)
class Recipe:
    """The settings of a run; `SETTINGS` says what each of them means."""

    data: str = "digits"
    root: str = "data"
    noise: str = "symmetric"
    noise_rate: float = 0.0
    validation: float = 0.0
    model: str = "mlp"
    model_settings: dict[str, Any] = field(default_factory=dict)
    loss: str = "ice_linear"
    loss_settings: dict[str, Any] = field(default_factory=dict)
    confidence_schedule: str = "constant"
    optimizer: str = "adamw"
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    momentum: float = 0.9
    schedule: str = "linear"
    warmup: int = 0
    decay: float = 0.1
    iterations: int = 0
    epochs: float = 30.0
    batch_size: int = 64
    augment: str = "none"
    mixup: float = 0.0
    averaging: float = 0.0
    refine: float = 0.0
    normalize: bool = False
    precision: str = "float32"
    channels_last: bool = False
    eager: bool = False
    compiled: bool = False
    device: str = "auto"
    evaluations: int = 10
    snapshots: int = 0
    seed: int = 0


SETTINGS: dict[str, str] = {
    "data": "Name of a data set, as `icelens data ls` lists them.",
    "root": "Folder that holds the data sets.",
    "noise": "How labels are flipped on purpose: symmetric, pair, dirichlet or instance.",
    "noise_rate": "Expected share of the training labels to flip; 0 leaves them as they are.",
    "validation": "Share of the training set held out, with its given labels, for validation.",
    "model": "Network: mlp, cnn, resnet18 or resnet18_paper.",
    "model_settings": "Settings of that network, such as model_settings.dropout=0.5.",
    "loss": "Method: a name in the table of losses.",
    "loss_settings": "Settings of that method, such as loss_settings.q=0.5.",
    "confidence_schedule": "ICE's step over time: constant, or paper: up for 400 iterations, then down.",
    "optimizer": "adamw, adam or sgd.",
    "learning_rate": "Learning rate at its highest.",
    "weight_decay": "Weight decay of the optimizer.",
    "momentum": "Momentum of sgd; adam and adamw do not read it.",
    "schedule": "Learning rate over time: constant, linear (down to 0), exponential (down to `decay`).",
    "warmup": "Iterations over which the learning rate first rises from 0.",
    "decay": "What the exponential schedule ends at, as a factor of the learning rate.",
    "iterations": "Length of the run in batches, with `refine` of its first stage; 0 leaves it to `epochs`.",
    "epochs": "Length of the run in passes over the training data, where `iterations` is 0.",
    "batch_size": "Examples in a batch; the last batch of an epoch may be smaller.",
    "augment": "none, or crop_flip for images.",
    "mixup": "a, where inputs are mixed in pairs with a share drawn from Beta(a, a) per batch; 0 is off.",
    "averaging": "Decay of a moving average of the weights, which then predicts in their place; 0 is off.",
    "refine": "Epochs of a second stage for images (ICE+), after those with ice_held; 0 is none.",
    "normalize": "Whether to normalise images per channel of the training set; else pixels are in [0, 1].",
    "precision": "float32; bfloat16 for mixed precision in training and prediction; float64 to compare runs.",
    "channels_last": "Whether images lie channels last in memory, which GPUs like.",
    "eager": "Whether a GPU gets each operation by itself, and not the whole step as one CUDA graph.",
    "compiled": "Whether torch.compile compiles the network, and ice_held: a minute more, then faster.",
    "device": "cpu, cuda, cuda:1, or auto: a GPU where there is one.",
    "evaluations": "How many times, spread over the run, accuracy is measured and a checkpoint written.",
    "snapshots": "How many times after the start, spread over the run, ICE's confidences are recorded.",
    "seed": "Seed of all that is drawn: noise, split, weights, order, augmentation, mixup, dropout.",
}

# Where no likeness of the letters leads from what other tools call a setting.
_ELSEWHERE = {
    "lr": "learning_rate",
    "wd": "weight_decay",
    "bs": "batch_size",
    "steps": "iterations",
    "ema": "averaging",
}
_CHOICES = {
    "confidence_schedule": ("constant", "paper"),
    "optimizer": ("adamw", "adam", "sgd"),
    "schedule": ("constant", "linear", "exponential"),
    "augment": ("none", "crop_flip"),
    "precision": ("float32", "bfloat16", "float64"),
}
_AT_LEAST = {"iterations": 0, "batch_size": 1, "evaluations": 1, "snapshots": 0, "warmup": 0, "seed": 0,
             "learning_rate": 0.0, "weight_decay": 0.0, "decay": 0.0, "epochs": 0.0,
             "mixup": 0.0, "refine": 0.0}  # fmt: skip


_KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a string", dict: "a table"}


def read_recipe(path: str | Path | None = None, overrides: Iterable[str] = ()) -> Recipe:
    """The recipe of a TOML file, or the defaults, with `key=value` overrides on top.

    >>> read_recipe(overrides=["loss=gce", "loss_settings.q=0.5", "epochs=3"]).loss_settings
    {'q': 0.5}
    """
    settings = _read(Path(path)) if path is not None else {}
    where = f"{path}: " if path is not None else ""
    recipe = make_recipe(settings, where=where)
    return make_recipe(_overridden(dataclasses.asdict(recipe), overrides))


def make_recipe(settings: Mapping[str, Any], *, where: str = "") -> Recipe:
    """A recipe of these settings, each checked for its name, type and range."""
    types_of = typing.get_type_hints(Recipe)
    for name, value in settings.items():
        if name not in types_of:
            raise InputError(f"{where}{unknown('setting', name, types_of, elsewhere=_ELSEWHERE)}")
        settings = {**settings, name: _typed(name, value, types_of[name], where)}
    recipe = Recipe(**settings)
    _check(recipe, where)
    return recipe


def _check(recipe: Recipe, where: str) -> None:
    for name, choices in _CHOICES.items():
        if getattr(recipe, name) not in choices:
            raise InputError(f"{where}{unknown(name, getattr(recipe, name), choices)}")
    for name, least in _AT_LEAST.items():
        value = getattr(recipe, name)
        if not (value >= least and math.isfinite(value)):
            raise InputError(f"{where}{name} must be at least {least} and finite, got {value}")
    if recipe.seed >= 2**32:
        raise InputError(f"{where}seed must be less than 2^32, got {recipe.seed}")
    for name in ("noise_rate", "validation", "momentum", "averaging"):
        if not 0 <= getattr(recipe, name) < 1:
            raise InputError(f"{where}{name} must lie in [0, 1), got {getattr(recipe, name)}")
    if recipe.iterations == 0 and recipe.epochs == 0:
        raise InputError(f"{where}iterations and epochs are both 0: the run would have no length")


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise MissingFileError(f"{path}: no such recipe") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise FileError(f"{path}: not a recipe in TOML: {error}") from None


def _overridden(settings: dict[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals:
            raise InputError(f"'{override}' is not of the form key=value")
        if not value.strip():
            raise InputError(f"'{override}' has no value after the =")
        name, dot, inner = key.strip().partition(".")
        if dot:
            table = settings.get(name)
            if not isinstance(table, dict):
                raise InputError(f"'{key}': only model_settings and loss_settings have settings of their own")
            settings[name] = {**table, inner: _value(value)}
        else:
            settings[name] = _value(value)
    return settings


def _value(text: str) -> Any:
    """A TOML value, or what people type for one: .5, 1., True; what is none of these is a string."""
    # TOML wants a digit on both sides of the point.
    whole = re.sub(r"(?<=\d)\.$", ".0", re.sub(r"^([+-]?)\.(?=\d)", r"\g<1>0.", text.strip()))
    for spelling in (text, text.lower(), whole):
        try:
            return tomllib.loads(f"value = {spelling}")["value"]
        except tomllib.TOMLDecodeError:
            continue
    return text


def _typed(name: str, value: Any, wanted: Any, where: str) -> Any:
    wanted = typing.get_origin(wanted) or wanted
    if wanted is float and type(value) is int:
        return float(value)
    # By type and not isinstance: True is an int to Python, but seed=true is a slip.
    if type(value) is not wanted:
        raise InputError(f"{where}{name} must be {_KINDS[wanted]}, got {value!r}")
    return value
