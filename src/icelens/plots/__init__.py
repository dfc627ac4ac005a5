"""Figures: each function draws into the Axes or Figure it is given and returns it."""

from icelens.plots.classes import points_by_class, posteriors
from icelens.plots.curves import accuracy_curves
from icelens.plots.dynamics import aum_histogram, data_map
from icelens.plots.graphs import graph
from icelens.plots.images import Caption, gallery, gallery_size
from icelens.plots.levels import contours, level_bar
from icelens.plots.ridges import ridgeline
from icelens.plots.simplices import simplex, simplex_contours
from icelens.plots.style import BLUE, VERMILLION, save, style

__all__ = [
    "BLUE",
    "VERMILLION",
    "Caption",
    "accuracy_curves",
    "aum_histogram",
    "contours",
    "data_map",
    "gallery",
    "gallery_size",
    "graph",
    "level_bar",
    "points_by_class",
    "posteriors",
    "ridgeline",
    "save",
    "simplex",
    "simplex_contours",
    "style",
]
