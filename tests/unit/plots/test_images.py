"""The gallery: pixels, captions and frames."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.offsetbox import AnnotationBbox, TextArea
from matplotlib.text import Text

from icelens.errors import InputError
from icelens.plots import BLUE, VERMILLION, Caption, gallery, gallery_size, style
from icelens.plots.style import GREY

CAPTIONS = [Caption(10 + i, f"given {i}", f"guess {i}") for i in range(5)]


def shown(images, **settings):
    figure = gallery(Figure(figsize=gallery_size(5, columns=4)), images, CAPTIONS, columns=4, **settings)
    return [ax for ax in figure.axes if ax.images]


def words(ax):
    (box,) = [item for item in ax.artists if isinstance(item, AnnotationBbox)]
    return [(text.get_text(), text.get_color()) for text in box.findobj(Text) if text.get_text()]


@pytest.mark.parametrize(
    ("images", "shape"),
    [
        (np.zeros((5, 8, 6)), (8, 6)),
        (np.zeros((5, 8, 6, 3)), (8, 6, 3)),
        (np.zeros((5, 8, 6, 1)), (8, 6)),
        (np.zeros((5, 3, 8, 6)), (8, 6, 3)),
        (torch.zeros(5, 1, 8, 6), (8, 6)),
        (torch.zeros(5, 3, 8, 6, dtype=torch.uint8), (8, 6, 3)),
        (torch.zeros(5, 3, 8, 3), (8, 3, 3)),
        (np.zeros((5, 3, 8, 3)), (3, 8, 3)),
    ],
)
def test_takes_every_order_of_axes(images, shape):
    axes = shown(images)
    assert len(axes) == 5
    assert {ax.images[0].get_array().shape for ax in axes} == {shape}


@pytest.mark.parametrize(
    ("images", "low", "high"),
    [
        (np.array([0, 51, 255, 0, 0], np.uint8), 0.2, 1),
        (np.array([0, 0.2, 0.5, 0, 0]), 0.2, 0.5),
        (np.array([-3, -2, 1, 0, 0]), 0.25, 1),
    ],
)
def test_pixels_are_brought_to_one_scale(images, low, high):
    axes = shown(np.broadcast_to(images[:, None, None], (5, 4, 4)))
    assert axes[1].images[0].get_array().max() == pytest.approx(low)
    assert axes[2].images[0].get_array().max() == pytest.approx(high)
    assert axes[0].images[0].get_clim() == (0, 1)


def test_equal_pixels_need_no_scale():
    assert not shown(np.full((5, 4, 4), 7.0))[0].images[0].get_array().any()


def test_small_images_keep_their_pixels():
    assert shown(np.zeros((5, 32, 32)))[0].images[0].get_interpolation() == "nearest"
    assert shown(np.zeros((5, 128, 128)))[0].images[0].get_interpolation() == "auto"


def test_captions_have_the_colours_of_their_parts():
    found = words(shown(np.zeros((5, 4, 4)))[2])
    assert sorted(found) == sorted([("12", GREY), ("given 2", VERMILLION), ("→", GREY), ("guess 2", BLUE)])


def test_a_dollar_sign_is_no_formula():
    figure = gallery(Figure(), np.zeros((1, 4, 4)), [Caption(0, "$1$", "$\\bad{$")])
    figure.canvas.draw()
    assert all(not area._text.get_parse_math() for area in figure.findobj(TextArea))


def test_captions_of_neighbours_do_not_touch():
    names = [Caption(48213 + i, "pickup_truck", "sweet_pepper") for i in range(8)]
    with style():
        figure = gallery(Figure(figsize=gallery_size(8)), np.zeros((8, 4, 4)), names)
    figure.canvas.draw()
    boxes = [box.get_window_extent() for box in figure.findobj(AnnotationBbox)]
    assert len(boxes) == 8
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
    assert all(box.x0 > 0 and box.x1 < figure.bbox.x1 and box.y0 > 0 for box in boxes)


def test_a_caption_ends_above_the_image_below():
    figure = gallery(
        Figure(figsize=gallery_size(2, columns=1, width=2)), np.zeros((2, 4, 4)), CAPTIONS[:2], columns=1
    )
    figure.canvas.draw()
    first = figure.findobj(AnnotationBbox)[0].get_window_extent()
    assert first.y0 > [ax for ax in figure.axes if ax.images][1].get_window_extent().y1


def test_frames_mark_the_flipped():
    flags = np.array([True, False, True, False, False])
    spines = [ax.spines["left"] for ax in shown(np.zeros((5, 4, 4)), flipped=flags)]
    assert [spine.get_visible() for spine in spines] == flags.tolist()
    assert to_hex(spines[0].get_edgecolor()).upper() == VERMILLION
    assert not any(ax.spines["left"].get_visible() for ax in shown(np.zeros((5, 4, 4))))


def test_draws_into_part_of_a_figure():
    with style():
        _, right = Figure(figsize=(8, 3)).subfigures(1, 2)
    assert gallery(right, np.zeros((5, 4, 4)), CAPTIONS, columns=4) is right
    right.figure.canvas.draw()
    assert all(ax.get_window_extent().x0 >= right.bbox.x0 for ax in right.axes)


def test_no_images_is_an_empty_figure():
    gallery(Figure(), np.zeros((0, 4, 4)), []).canvas.draw()


@pytest.mark.parametrize(
    ("images", "settings", "message"),
    [
        (np.zeros((4, 8, 8)), {}, "4 images need as many captions, got 5"),
        (np.zeros((5, 8)), {}, r"images must be .* got \(5, 8\)"),
        (np.zeros((5, 8, 8, 4)), {}, "must have 1 or 3 channels"),
        (np.zeros((5, 8, 8)), {"flipped": [True]}, "one boolean for each of 5 examples"),
        (np.zeros((5, 8, 8)), {"columns": 0}, "columns must be at least 1, got 0"),
        (np.zeros((5, 8, 8)), {"columns": 1}, "5 images in 1 columns do not fit the figure"),
    ],
)
def test_wrong_input_is_refused(images, settings, message):
    with pytest.raises(InputError, match=message):
        gallery(Figure(figsize=(4, 1.5)), images, CAPTIONS, **settings)
