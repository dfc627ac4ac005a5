"""Training: recipes, the loop, checkpoints and the run folder."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from icelens.train.recipe import SETTINGS, Recipe, make_recipe, read_recipe

if TYPE_CHECKING:
    from icelens.train.driver import run_recipe
    from icelens.train.run import Run

__all__ = ["SETTINGS", "Recipe", "Run", "make_recipe", "read_recipe", "run_recipe"]

_HOMES = {"run_recipe": "driver", "Run": "run"}


def __getattr__(name: str) -> Any:
    """Import what trains on first use: a recipe is read and checked without torch."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"icelens.train.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'icelens.train' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
