"""What yields (x, label, index): readers of published data sets, and the wrapper for any other."""

from icelens.data.catalog import DATASETS
from icelens.data.cifar10n import read_cifar10n
from icelens.data.datasets import find, get, load
from icelens.data.device import OnDevice, channel_stats, crop_flip
from icelens.data.digits import digits
from icelens.data.download import fetch
from icelens.data.examples import Examples, Split
from icelens.data.idx import read_idx
from icelens.data.indexed import Indexed
from icelens.data.source import Layout, Remote, Source

__all__ = [
    "DATASETS",
    "Examples",
    "Indexed",
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
    "get",
    "load",
    "read_cifar10n",
    "read_idx",
]
