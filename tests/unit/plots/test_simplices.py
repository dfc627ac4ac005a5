"""The simplex: where distributions lie, what maps make of it, and contours on it."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from icelens.errors import InputError
from icelens.plots import simplex, simplex_contours
from icelens.plots.simplices import CORNERS, arrow, mark, mesh, place, simplex_points, triangle

HEIGHT = np.sqrt(0.75)
TRANSITION = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.1, 0.6]])


@pytest.fixture
def ax():
    return Figure().subplots()


def drawn_lines(ax):
    return [np.stack(line.get_data(), axis=1) for line in ax.lines]


def test_corners_are_the_certain_distributions_and_their_sides_are_equal():
    assert place(np.eye(3)) == pytest.approx(np.array([[0.5, HEIGHT], [0, 0], [1, 0]]))
    sides = np.linalg.norm(CORNERS - np.roll(CORNERS, 1, axis=0), axis=1)
    assert sides == pytest.approx(np.ones(3))


def test_mixtures_of_distributions_lie_on_the_line_between_them():
    p, q = np.random.default_rng(0).dirichlet(np.ones(3), (2, 50))
    assert place(0.3 * p + 0.7 * q) == pytest.approx(0.3 * place(p) + 0.7 * place(q))


@pytest.mark.parametrize("p", [np.ones(4) / 4, 0.5, np.ones((3, 2))])
def test_only_three_classes_have_a_place(p):
    with pytest.raises(InputError, match="a simplex is drawn for 3 classes, got shape"):
        place(p)


def test_the_outline_has_a_name_at_each_corner(ax):
    assert simplex(ax, names=("cat", "dog", "owl")) is ax
    assert {text.get_text(): text.xy for text in ax.texts} == {
        "cat": tuple(CORNERS[0]),
        "dog": tuple(CORNERS[1]),
        "owl": tuple(CORNERS[2]),
    }
    assert ax.patches[0].get_xy()[:3] == pytest.approx(CORNERS)


@pytest.mark.parametrize("steps", [1, 4, 30])
def test_points_cover_the_simplex_once(steps):
    p = simplex_points(steps)
    assert p.shape == ((steps + 1) * (steps + 2) // 2, 3)
    assert p.min() == 0
    assert p.sum(1) == pytest.approx(np.ones(len(p)))
    assert len(np.unique((p * steps).round(), axis=0)) == len(p)


def test_a_plain_mesh_has_lines_of_one_probability(ax):
    mesh(ax, lines=4)
    # Three levels for each class; those of class 1, the upper corner, are horizontal.
    lines = drawn_lines(ax)
    assert len(lines) == 9
    heights = [line[0, 1] / HEIGHT for line in lines if np.ptp(line[:, 1]) < 1e-12]
    assert heights == pytest.approx([0.25, 0.5, 0.75])


def test_a_transition_matrix_maps_the_mesh_into_the_triangle_of_its_rows(ax):
    mesh(ax, lambda p: p @ TRANSITION, lines=5)
    triangle(ax, TRANSITION)
    vertices = ax.patches[0].get_xy()[:3]
    assert vertices == pytest.approx(place(TRANSITION))
    shares = np.linalg.solve(np.vstack([vertices.T, np.ones(3)]), np.vstack([*_columns(ax), _ones(ax)]))
    assert shares.min() > -1e-9


def _columns(ax):
    return np.concatenate(drawn_lines(ax)).T


def _ones(ax):
    return np.ones(len(np.concatenate(drawn_lines(ax))))


def test_marks_and_arrows_stand_at_their_distributions(ax):
    p, q = np.array([0.2, 0.7, 0.1]), np.array([1.0, 0.0, 0.0])
    mark(ax, p, "^", "#0072B2", hollow=True)
    mark(ax, np.stack([p, q]), "v")
    arrow(ax, p, q)
    first, second = drawn_lines(ax)
    assert first == pytest.approx(place(p)[None])
    assert second == pytest.approx(place(np.stack([p, q])))
    assert ax.lines[0].get_markerfacecolor() == "white"
    assert ax.patches[0]._posA_posB == [pytest.approx(place(p)), pytest.approx(place(q))]
    ax.figure.canvas.draw()


def test_contours_lie_where_the_function_has_the_level(ax):
    p = simplex_points(20)
    assert simplex_contours(ax, p, p[:, 0], [0.25, 0.5, 0.75]) is ax
    _, lines = ax.collections
    for level, path in zip([0.25, 0.5, 0.75], lines.get_paths(), strict=True):
        assert path.vertices[:, 1] == pytest.approx(np.full(len(path.vertices), level * HEIGHT))


def test_minus_infinity_is_below_every_level(ax):
    p = simplex_points(20)
    with np.errstate(divide="ignore"):
        simplex_contours(ax, p, np.log(p[:, 0]), [-4, -2, 0])
    fills, _ = ax.collections
    # The darkest colour reaches down to the lower edge.
    assert fills.get_paths()[0].vertices[:, 1].min() == 0
