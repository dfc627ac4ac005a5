"""Posteriors as lines, and examples in the colour of their given label."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from icelens.errors import InputError
from icelens.plots import points_by_class, posteriors
from icelens.plots.style import CLASSES, INK

X = np.linspace(0, 1, 5)
P = np.stack([X / 2, 1 - X, X / 2], axis=1)


@pytest.fixture
def ax():
    return Figure().subplots()


def test_one_line_per_class_in_its_colour(ax):
    assert posteriors(ax, X, P) is ax
    assert [line.get_color() for line in ax.lines] == list(CLASSES)
    assert np.stack([line.get_ydata() for line in ax.lines], axis=1) == pytest.approx(P)


def test_the_truth_is_dashed_and_of_the_same_colours(ax):
    posteriors(ax, X, P, truth=P[::-1])
    dashed = [line for line in ax.lines if line.is_dashed()]
    assert [line.get_color() for line in dashed] == list(CLASSES)
    assert np.stack([line.get_ydata() for line in dashed], axis=1) == pytest.approx(P[::-1])


def test_every_example_is_drawn_once_with_an_edge_where_flipped(ax):
    labels, flipped = np.array([0, 1, 2, 1, 0]), np.array([False, True, False, False, True])
    assert points_by_class(ax, X, X**2, labels, flipped=flipped) is ax
    found = {}
    for group in ax.collections:
        edged = len(group.get_edgecolor()) and to_hex(group.get_edgecolor()[0]) == INK
        for x, y in group.get_offsets():
            found[float(x)] = (float(y), to_hex(group.get_facecolor()[0]).upper(), bool(edged))
    expected = zip(X, X**2, labels, flipped, strict=True)
    assert found == {x: (y, CLASSES[label], flag) for x, y, label, flag in expected}


@pytest.mark.parametrize("p", [P[:3], P[:, 0], np.ones((5, 4))])
def test_wrong_shapes_are_refused(ax, p):
    with pytest.raises(InputError, match=r"p must be \(5, at most 3 classes\), got shape"):
        posteriors(ax, X, p)


def test_flags_must_be_one_for_each_example(ax):
    with pytest.raises(InputError, match="one boolean for each of 5 examples"):
        points_by_class(ax, X, X, np.zeros(5, int), flipped=[True])
