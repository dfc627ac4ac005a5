"""Contours, and a bar whose colours are theirs."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from icelens.plots import contours, level_bar

LEVELS = [-2.0, -1.0, -0.5, 0.0]
X, Y = np.linspace(-3, 0, 31), np.linspace(0, 1, 11)


@pytest.fixture
def ax():
    return Figure().subplots()


def test_lines_lie_where_the_function_has_the_level(ax):
    assert contours(ax, X, Y, np.broadcast_to(X, (11, 31)), LEVELS) is ax
    _, lines = ax.collections
    drawn = [path.vertices[:, 0] for path in lines.get_paths()]
    # The last level is the right edge itself.
    for level, x in zip(LEVELS[:3], drawn[:3], strict=True):
        assert x == pytest.approx(np.full(len(x), level))
    assert (ax.get_xlim(), ax.get_ylim()) == ((-3, 0), (0, 1))


def test_rows_are_y_and_columns_are_x(ax):
    contours(ax, X, Y, np.repeat(Y[:, None], 31, axis=1) - 1, [-0.75, -0.25])
    _, lines = ax.collections
    assert lines.get_paths()[0].vertices[:, 1] == pytest.approx(np.full(31, 0.25))


def test_minus_infinity_is_below_every_level(ax):
    z = np.broadcast_to(np.where(X < -2.5, -np.inf, X), (11, 31))
    contours(ax, X, Y, z, LEVELS)
    fills, _ = ax.collections
    assert fills.get_paths()[0].vertices[:, 0].min() == -3


def test_the_bar_has_the_colours_of_the_fills(ax):
    contours(ax, X, Y, np.broadcast_to(X, (11, 31)), LEVELS)
    bar = level_bar(ax.figure, ax, LEVELS, label="log q")
    fills, _ = ax.collections
    middles = [-2.5, -1.5, -0.75, -0.25]
    assert fills.get_facecolor() == pytest.approx(bar.cmap(bar.norm(middles)))
    assert len(np.unique(fills.get_facecolor(), axis=0)) == 4
    assert bar.ax.get_ylabel() == "log q"
