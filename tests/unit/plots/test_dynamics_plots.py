"""The data map and the histogram of AUM: what is drawn, and where."""

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from icelens.errors import InputError
from icelens.plots import BLUE, VERMILLION, aum_histogram, data_map
from icelens.plots import dynamics as module
from icelens.plots.style import GREY


@pytest.fixture
def ax():
    return Figure().subplots()


def columns(count=200):
    draw = np.random.default_rng(0)
    p = draw.beta(2, 1, (6, count))
    return p.std(0), p.mean(0), (p > 0.5).mean(0)


def points(ax):
    return ax.collections[0]


class TestDataMap:
    def test_a_point_for_each_example_at_its_place_and_in_its_colour(self, ax):
        variability, p_label, correctness = columns()
        assert data_map(ax, variability, p_label, correctness) is ax
        drawn = np.c_[points(ax).get_offsets(), points(ax).get_array()]
        expected = np.c_[variability, p_label, correctness]
        np.testing.assert_allclose(drawn[np.lexsort(drawn.T)], expected[np.lexsort(expected.T)])
        assert (np.diff(points(ax).get_array()) <= 0).all()  # the least correct lie on top
        assert ax.get_title() == "200 examples"
        ax.figure.canvas.draw()

    def test_examples_that_were_never_visited_are_left_out(self, ax):
        given = [np.r_[column, np.nan] for column in columns()]
        data_map(ax, *given)
        assert len(points(ax).get_offsets()) == 200

    def test_of_many_a_sample_is_drawn_and_said_to_be_one(self, ax, monkeypatch):
        monkeypatch.setattr(module, "MOST_POINTS", 50)
        data_map(ax, *columns())
        assert len(points(ax).get_offsets()) == 50
        assert ax.get_title() == "50 of 200 examples"

    def test_names_of_regions_stand_where_no_point_can_be(self, ax):
        data_map(ax, *columns())
        ax.figure.canvas.draw()
        boxes = [text.get_window_extent().transformed(ax.transData.inverted()) for text in ax.texts]
        assert len(boxes) == 3
        for box in boxes:
            mean = np.clip(np.linspace(box.y0, box.y1, 50), 0, 1)
            assert box.x0 > np.sqrt(mean * (1 - mean)).max()

    def test_takes_tensors(self, ax):
        data_map(ax, *(torch.tensor(column).bfloat16() for column in columns()))
        assert len(points(ax).get_offsets()) == 200

    def test_columns_of_different_lengths_are_refused(self, ax):
        with pytest.raises(InputError, match=r"must be of one length, got shapes \(3,\), \(2,\), \(3,\)"):
            data_map(ax, np.zeros(3), np.zeros(2), np.zeros(3))


def bars(ax, colour):
    """(left, right, height) of the bars of a colour that are not empty."""
    drawn = [bar for bar in ax.patches if to_hex(bar.get_facecolor()).upper() == colour and bar.get_height()]
    return [(bar.get_x(), bar.get_x() + bar.get_width(), bar.get_height()) for bar in drawn]


class TestHistogram:
    def test_all_are_counted_and_the_sign_is_told_by_colour(self, ax):
        aum = np.random.default_rng(0).normal(1, 2, 5000)
        assert aum_histogram(ax, np.r_[aum, np.nan]) is ax
        below, above = bars(ax, VERMILLION), bars(ax, GREY)
        assert sum(height for *_, height in below) == (aum < 0).sum()
        assert sum(height for *_, height in above) == (aum >= 0).sum()
        assert max(right for _, right, _ in below) <= 1e-9
        assert min(left for left, *_ in above) >= -1e-9
        names = [text.get_text() for text in ax.get_legend().get_texts()]
        assert names == [f"0 and above: {(aum >= 0).sum():,}", f"below 0: {(aum < 0).sum():,}"]
        ax.figure.canvas.draw()

    def test_known_flips_are_told_from_the_others(self, ax):
        flipped = np.arange(500) < 100
        aum_histogram(ax, np.where(flipped, -2.0, 2.0), flipped)
        assert [height for *_, height in bars(ax, VERMILLION)] == [100]
        assert [height for *_, height in bars(ax, BLUE)] == [400]

    @pytest.mark.parametrize(("count", "scale"), [(60, "linear"), (60_000, "symlog")])
    def test_a_few_are_seen_beside_many(self, ax, count, scale):
        aum_histogram(ax, np.r_[np.full(count, 3.0), -1.0])
        assert ax.get_yscale() == scale
        ax.figure.canvas.draw()
        height = ax.transAxes.inverted().transform(ax.transData.transform((0, 1)))[1]
        assert height > 0.01

    @pytest.mark.parametrize("values", [[0.0], [2.0, 2.0], [-1.0], [1e-30, -1e-30]])
    def test_equal_and_tiny_values_can_be_drawn(self, ax, values):
        aum_histogram(ax, values)
        assert sum(bar.get_height() for bar in ax.patches) == len(values)
        ax.figure.canvas.draw()

    @pytest.mark.parametrize(
        ("aum", "flipped", "message"),
        [
            (np.zeros((2, 2)), None, r"aum must have shape \(examples,\), got \(2, 2\)"),
            ([np.nan], None, "aum holds no finite value"),
            ([1.0, 2.0], [True], "flipped must hold one boolean for each of 2 examples"),
        ],
    )
    def test_wrong_input_is_refused(self, ax, aum, flipped, message):
        with pytest.raises(InputError, match=message):
            aum_histogram(ax, aum, flipped)
