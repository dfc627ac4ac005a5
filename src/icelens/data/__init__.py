"""What yields (x, label, index): readers of published data sets, the wrapper for any other, and your own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from icelens.data.catalog import DATASETS
from icelens.data.cifar10n import read_cifar10n
from icelens.data.datasets import find, get, load
from icelens.data.digits import digits
from icelens.data.download import fetch
from icelens.data.examples import Examples, Split
from icelens.data.idx import read_idx
from icelens.data.labelled import Columns, Labelled
from icelens.data.source import Layout, Remote, Source
from icelens.lazy import lazy

if TYPE_CHECKING:
    from icelens.data.device import OnDevice, channel_stats, crop_flip
    from icelens.data.indexed import Indexed
    from icelens.data.own.images import open_image
    from icelens.data.own.read import from_arrays, read_labelled

__all__ = [
    "DATASETS",
    "Columns",
    "Examples",
    "Indexed",
    "Labelled",
    "Layout",
    "OnDevice",
    "Remote",
    "Source",
    "Split",
    "channel_stats",
    "crop_flip",
    "digits",
    "fetch",
    "find",
    "from_arrays",
    "get",
    "load",
    "open_image",
    "read_cifar10n",
    "read_idx",
    "read_labelled",
]

_HOMES = {
    "device": ("OnDevice", "channel_stats", "crop_flip"),
    "indexed": ("Indexed",),
    "own.images": ("open_image",),
    "own.read": ("from_arrays", "read_labelled"),
}
__getattr__ = lazy(__name__, _HOMES)  # a list of data sets and their download need no torch


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
