"""The ridgeline: what is drawn, and densities that stay in [0, 1]."""

import numpy as np
import pytest
import torch
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from icelens.errors import InputError
from icelens.plots import BLUE, VERMILLION, ridgeline
from icelens.plots.ridges import BINS, density
from icelens.plots.style import GREY


@pytest.fixture
def ax():
    return Figure().subplots()


def confidences(snapshots=5, examples=200):
    return np.random.default_rng(0).beta(2, 3, (snapshots, examples))


def fills(ax, colour):
    drawn = [item for item in ax.collections if isinstance(item, PolyCollection)]
    return [item for item in drawn if to_hex(item.get_facecolor()[0]).upper() == colour]


def test_one_ridge_per_snapshot_and_group(ax):
    flipped = np.arange(200) % 3 == 0
    assert ridgeline(ax, confidences(), flipped) is ax
    assert len(fills(ax, VERMILLION)) == len(fills(ax, BLUE)) == 5
    assert {text.get_text(): text.get_color() for text in ax.texts} == {
        "flipped labels": VERMILLION,
        "original labels": BLUE,
    }
    ax.figure.canvas.draw()


def test_time_runs_downwards_with_the_steps_at_the_left(ax):
    ridgeline(ax, confidences(3), np.arange(200) < 90, steps=[0, 1000, 2_000_000])
    ticks = sorted(zip(ax.get_yticks(), [label.get_text() for label in ax.get_yticklabels()], strict=True))
    assert [label for _, label in ticks] == ["2,000,000", "1,000", "0"]


def test_colours_stand_where_their_group_is(ax):
    flipped = np.arange(200) < 50
    ridgeline(ax, np.where(flipped, 0.1, 0.9)[None], flipped)
    for colour, place in [(VERMILLION, 0.1), (BLUE, 0.9)]:
        x, y = fills(ax, colour)[0].get_paths()[0].vertices.T
        assert x[y.argmax()] == pytest.approx(place, abs=0.01)


@pytest.mark.parametrize("flags", [np.zeros(200, bool), np.ones(200, bool)])
def test_an_empty_group_is_left_out(ax, flags):
    ridgeline(ax, confidences(), flags)
    assert sorted([len(fills(ax, VERMILLION)), len(fills(ax, BLUE))]) == [0, 5]


def test_nothing_known_gives_one_grey_density(ax):
    ridgeline(ax, confidences())
    assert len(fills(ax, GREY)) == 5
    assert not ax.texts


def test_takes_tensors(ax):
    ridgeline(ax, torch.rand(2, 50).bfloat16(), torch.rand(50) < 0.3)
    assert len(fills(ax, BLUE)) == 2


def test_many_ridges_have_few_ticks_and_keep_the_last(ax):
    ridgeline(ax, confidences(100, 20))
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert "100" in labels
    assert len(labels) <= 16


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_equal_values_give_a_narrow_peak_at_their_place(value):
    height = density(np.full(30, value))
    assert height.argmax() == pytest.approx(value * BINS, abs=1)
    assert (height > height.max() / 2).mean() < 0.05


@pytest.mark.parametrize("shape", [(1, 1), (0.3, 0.2), (1, 9)])
def test_density_is_one_in_total_and_does_not_sink_at_the_edges(shape):
    values = np.random.default_rng(1).beta(*shape, 20_000)
    assert density(values).mean() == pytest.approx(1)
    if shape == (1, 1):
        assert density(values)[[0, -1]] == pytest.approx([1, 1], abs=0.15)


def test_density_is_the_kernel_sum_with_mirrored_examples():
    from scipy.stats import gaussian_kde

    values = np.random.default_rng(2).beta(1.5, 3, 2000)
    mirrored = np.concatenate([values, -values, 2 - values])
    # SciPy's factor is relative to the deviation of all it is given; this sets Scott's for the values.
    bandwidth = values.std() * 2000**-0.2 / mirrored.std(ddof=1)
    exact = 3 * gaussian_kde(mirrored, bandwidth)((np.arange(BINS) + 0.5) / BINS)
    assert np.abs(density(values) - exact).max() < 0.02


@pytest.mark.parametrize(
    ("history", "flipped", "steps", "message"),
    [
        (np.zeros(5), None, None, r"history must have shape \(snapshots, examples\), got \(5,\)"),
        (np.zeros((0, 5)), None, None, "history must have shape"),
        (np.array([[0.5, 1.5]]), None, None, "got 1.5 in snapshot 0 of example 1"),
        (np.array([[0.5], [np.nan]]), None, None, "got nan in snapshot 1 of example 0"),
        (np.zeros((2, 3)), [True], None, "one boolean for each of 3 examples, got bool of shape"),
        (np.zeros((2, 3)), [0, 1, 0], None, "got int64 of shape"),
        (np.zeros((2, 3)), None, [1, 2, 3], "steps must name each of 2 snapshots"),
    ],
)
def test_wrong_input_is_refused(ax, history, flipped, steps, message):
    with pytest.raises(InputError, match=message):
        ridgeline(ax, history, flipped, steps=steps)
