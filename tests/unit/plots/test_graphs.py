"""Graphical models: who is shaded, and arrows from rim to rim."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch

from icelens.errors import InputError
from icelens.plots import graph
from icelens.plots.graphs import RADIUS

NODES = {"X": (0, 1), "Y": (0, 0), "Z": (1, 0)}


@pytest.fixture
def ax():
    return Figure().subplots()


def test_a_circle_for_each_node_grey_where_observed(ax):
    assert graph(ax, NODES, [], observed=["X"]) is ax
    circles = [patch for patch in ax.patches if isinstance(patch, Circle)]
    assert [circle.center for circle in circles] == list(NODES.values())
    assert [to_hex(circle.get_facecolor()) == "#ffffff" for circle in circles] == [False, True, True]
    assert [text.get_text() for text in ax.texts] == list(NODES)


def test_arrows_go_from_rim_to_rim(ax):
    graph(ax, NODES, [("X", "Z"), ("Y", "Z")])
    arrows = [patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]
    assert len(arrows) == 2
    for arrow, (start, end) in zip(arrows, [("X", "Z"), ("Y", "Z")], strict=True):
        tail, head = np.array(arrow._posA_posB)
        assert np.linalg.norm(tail - NODES[start]) == pytest.approx(RADIUS)
        assert np.linalg.norm(head - NODES[end]) == pytest.approx(RADIUS)
        gap = np.linalg.norm(np.subtract(NODES[end], NODES[start])) - 2 * RADIUS
        assert np.linalg.norm(head - tail) == pytest.approx(gap)


def test_everything_is_within_the_axes(ax):
    graph(ax, NODES, [("X", "Y")])
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    assert left < -RADIUS < 1 + RADIUS < right
    assert low < -RADIUS < 1 + RADIUS < high


@pytest.mark.parametrize("settings", [{"edges": [("X", "W")]}, {"edges": [], "observed": ["W"]}])
def test_a_node_that_is_not_there_is_refused(ax, settings):
    with pytest.raises(InputError, match="no node 'W'; nodes are X, Y, Z"):
        graph(ax, NODES, **settings)
