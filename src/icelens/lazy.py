"""Names of a package that are imported on their first use, since what they need takes seconds to load."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy(package: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """The `__getattr__` of a package: imports a name from its module, and keeps it.

    Args:
        package: its `__name__`.
        homes: names by the module below the package that has them.
    """
    places = {name: f"{package}.{module}" for module, names in homes.items() for name in names}

    def found(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = getattr(importlib.import_module(places[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return found
