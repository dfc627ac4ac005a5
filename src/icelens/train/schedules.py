"""How the learning rate and the step of the confidences change over a run, as factors of their settings."""

from __future__ import annotations

from icelens.train.recipe import Recipe

PAPER_RISE = 400  # iterations, whatever the length of the run


def rate_factor(recipe: Recipe, iteration: int, iterations: int) -> float:
    """The factor on the learning rate at an iteration: a rise from 0 over the warm-up, then the schedule.

    >>> recipe = Recipe(schedule="linear", warmup=2)
    >>> [rate_factor(recipe, t, 6) for t in range(7)]
    [0.0, 0.5, 1.0, 0.75, 0.5, 0.25, 0.0]
    """
    if iteration < recipe.warmup:
        return iteration / recipe.warmup
    done = (iteration - recipe.warmup) / max(1, iterations - recipe.warmup)
    if recipe.schedule == "linear":
        return 1 - done
    return float(recipe.decay**done) if recipe.schedule == "exponential" else 1.0


def confidence_factor(recipe: Recipe, iteration: int, iterations: int) -> float:
    """The factor on the step of the confidences: 1, or the authors' rise and fall."""
    if recipe.confidence_schedule == "constant":
        return 1.0
    if iteration < PAPER_RISE:
        return iteration / PAPER_RISE
    return (iterations - iteration) / max(1, iterations - PAPER_RISE)
