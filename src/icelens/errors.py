"""What icelens raises: one base class, each child also a subclass of Python's own."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Iterable, Mapping
from typing import Any


class IcelensError(Exception):
    """The base of every error that icelens raises on purpose."""


class InputError(IcelensError, ValueError):
    """A value handed in cannot be used: a wrong shape, an unknown name, a rate outside [0, 1)."""


class IndexRangeError(IcelensError, IndexError):
    """An index that is not a row of the data set."""


class FileError(IcelensError, ValueError):
    """A file that is truncated, damaged or of another format than its name says."""


class MissingFileError(IcelensError, FileNotFoundError):
    """A file that should be there and is not; the message says where to get it."""


class DownloadError(IcelensError, ConnectionError):
    """A file that could not be fetched whole and right."""


class TrainingError(IcelensError, RuntimeError):
    """A run that cannot go on, or a loss used in a way that would give wrong numbers."""


def unknown(what: str, name: str, known: Iterable[str], *, elsewhere: Mapping[str, str] = {}) -> InputError:
    """The error for a name that is in none of the registries, with the nearest name that is.

    Of names that begin with it that is the first, as the registry has them; `elsewhere` holds what other
    tools call some of them.

    >>> print(unknown("loss", "ise_linear", ["ice_linear", "cce"]))
    unknown loss 'ise_linear'; did you mean 'ice_linear'?
    """
    options = list(known)
    near = [elsewhere[name]] if name in elsewhere else []
    near = near or [option for option in options if option.startswith(name) and name]
    near = near or difflib.get_close_matches(name, sorted(options), n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"known are {', '.join(sorted(options))}"
    return InputError(f"unknown {what} '{name}'; {hint}")


def check_count(name: str, value: Any, least: int) -> int:
    """The value as an int; raises unless it is a whole number that is large enough.

    >>> check_count("steps", 0.5, least=1)
    Traceback (most recent call last):
    icelens.errors.InputError: steps must be a whole number of at least 1, got 0.5
    """
    if not hasattr(value, "__index__") or isinstance(value, bool) or operator.index(value) < least:
        raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return operator.index(value)
