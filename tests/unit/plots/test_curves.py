"""Lines named at their ends, or in a legend where the ends are too close."""

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.figure import Figure

from icelens.errors import InputError
from icelens.plots import accuracy_curves
from icelens.plots.style import PALETTE


@pytest.fixture
def ax():
    return Figure(figsize=(4, 3)).subplots()


def test_ends_apart_are_named_directly_in_the_colour_of_the_line(ax):
    assert accuracy_curves(ax, {"ICE": ([1, 2], [50, 98]), "CCE": ([1, 2], [50, 80])}) is ax
    assert [(text.get_text(), text.get_color()) for text in ax.texts] == list(
        zip(["ICE", "CCE"], PALETTE, strict=False)
    )
    assert ax.get_legend() is None


@pytest.mark.parametrize(
    "other",
    [([1, 2], [50, 97.5]), ([1, 1.5], [50, 70]), ([1, 2], [50, np.nan])],
    ids=["too close", "ends earlier", "not finite"],
)
def test_a_legend_where_names_would_not_fit(ax, other):
    accuracy_curves(ax, {"ICE": ([1, 2], [50, 98]), "CCE": other})
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["ICE", "CCE"]
    assert not ax.texts


def test_names_do_not_overlap_when_drawn(ax):
    accuracy_curves(ax, {str(end): ([0, 1], [0, end]) for end in range(20, 101, 20)})
    ax.figure.canvas.draw()
    boxes = sorted((text.get_window_extent() for text in ax.texts), key=lambda box: box.y0)
    assert len(boxes) == 5
    assert all(low.y1 <= high.y0 for low, high in pairwise(boxes))


def test_no_curves_is_an_empty_plot(ax):
    assert accuracy_curves(ax, {}) is ax


@pytest.mark.parametrize("curve", [([1, 2], [3]), ([], []), ([[1]], [[1]])])
def test_wrong_input_is_refused(ax, curve):
    with pytest.raises(InputError, match="curve 'ICE': steps and values must be of one length"):
        accuracy_curves(ax, {"ICE": curve})
