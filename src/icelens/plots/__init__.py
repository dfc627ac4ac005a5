"""Figures: each function draws into the Axes or Figure it is given and returns it."""

from icelens.plots.curves import accuracy_curves
from icelens.plots.images import Caption, gallery, gallery_size
from icelens.plots.ridges import ridgeline
from icelens.plots.style import BLUE, VERMILLION, save, style

__all__ = [
    "BLUE",
    "VERMILLION",
    "Caption",
    "accuracy_curves",
    "gallery",
    "gallery_size",
    "ridgeline",
    "save",
    "style",
]
