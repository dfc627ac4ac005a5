"""Training: recipes, the loop, checkpoints and the run folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from icelens.lazy import lazy
from icelens.train.recipe import SETTINGS, Recipe, make_recipe, read_recipe

if TYPE_CHECKING:
    from icelens.train.driver import run_recipe
    from icelens.train.run import Run

__all__ = ["SETTINGS", "Recipe", "Run", "make_recipe", "read_recipe", "run_recipe"]

# A recipe is read and checked without torch.
__getattr__ = lazy(__name__, {"driver": ("run_recipe",), "run": ("Run",)})


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
