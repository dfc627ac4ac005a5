"""Training: recipes, the loop, checkpoints and the run folder."""

from icelens.train.driver import run_recipe
from icelens.train.recipe import SETTINGS, Recipe, make_recipe, read_recipe
from icelens.train.run import Run

__all__ = ["SETTINGS", "Recipe", "Run", "make_recipe", "read_recipe", "run_recipe"]
