import pytest

from icelens.train.recipe import Recipe
from icelens.train.schedules import confidence_factor, rate_factor


def test_exponential_is_the_papers_decay_per_iteration():
    recipe = Recipe(schedule="exponential", decay=0.1)
    assert rate_factor(recipe, 1, 2000) == pytest.approx(0.1 ** (1 / 2000))
    assert rate_factor(recipe, 2000, 2000) == pytest.approx(0.1)


def test_constant_stays():
    assert [rate_factor(Recipe(schedule="constant"), t, 10) for t in (0, 5, 10)] == [1.0, 1.0, 1.0]


def test_the_papers_confidence_schedule_rises_for_400_iterations_and_falls_to_0():
    recipe = Recipe(confidence_schedule="paper")
    assert [confidence_factor(recipe, t, 4000) for t in (0, 200, 400, 2200, 4000)] == [0, 0.5, 1, 0.5, 0]
    assert confidence_factor(Recipe(), 3, 10) == 1.0
