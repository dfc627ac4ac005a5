"""What a setting of a loss may be: every one is a number, within a range where the loss can work."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any, NamedTuple

import torch
from torch import Tensor

from icelens.errors import InputError, check_count


class Range(NamedTuple):
    """A range in words, after "must", and as a test of a finite number."""

    words: str
    holds: Callable[[float], bool]


ANY = Range("be finite", lambda value: True)
SHARE = Range("lie in [0, 1]", lambda value: 0 <= value <= 1)
BELOW_ONE = Range("lie in [0, 1)", lambda value: 0 <= value < 1)
INSIDE = Range("lie in [1e-7, 1 − 1e-7]", lambda value: 1e-7 <= value <= 1 - 1e-7)  # has a logit in float32
AT_LEAST_0 = Range("be finite and at least 0", lambda value: value >= 0)
AT_MOST_0 = Range("be finite and at most 0", lambda value: value <= 0)
POSITIVE = Range("be finite and more than 0", lambda value: value > 0)


def check_setting(name: str, value: Any, allowed: Range) -> None:
    """Raise unless the value is a number within the range.

    >>> check_setting("smoothing", 2, SHARE)
    Traceback (most recent call last):
    icelens.errors.InputError: smoothing must lie in [0, 1], got 2
    """
    if not _is_number(value):
        raise InputError(f"{name} must be a number, got {value!r}")
    if not (math.isfinite(value) and allowed.holds(float(value))):
        raise InputError(f"{name} must {allowed.words}, got {value}")


def check_settings(ranges: Mapping[str, Range], **settings: Any) -> None:
    """Raise unless each of these settings is a number within its range."""
    for name, value in settings.items():
        check_setting(name, value, ranges[name])


def check_sizes(examples: int, classes: int) -> None:
    """Raise unless a loss can have a row for each example and a column for each class."""
    check_count("examples", examples, least=1)
    check_count("classes", classes, least=2)


def _is_number(value: Any) -> bool:
    if isinstance(value, Tensor):  # a step size that changes without a new compilation is one
        return value.ndim == 0 and not value.is_complex() and value.dtype != torch.bool
    return isinstance(value, Real) and not isinstance(value, bool)
