"""Settings that do not leak, and files that are equal byte for byte."""

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from icelens.errors import InputError
from icelens.plots import ridgeline, save, style


def picture():
    with style():
        figure = Figure(figsize=(3, 2))
        ridgeline(figure.subplots(), np.linspace(0, 1, 40).reshape(2, 20), np.arange(20) % 2 == 0)
    return figure


def test_the_style_ends_with_its_block():
    before = dict(mpl.rcParams)
    with style():
        assert mpl.rcParams["axes.spines.top"] is False
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg", ".PNG"])
def test_the_same_figure_gives_the_same_bytes(tmp_path, suffix):
    first, second = (save(picture(), tmp_path / f"{name}{suffix}").read_bytes() for name in "ab")
    assert first == second
    assert b"Date" not in first
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"a{suffix}", f"b{suffix}"]


def test_dpi_sets_the_pixels(tmp_path):
    for path, settings, size in [("new/a.png", {}, (480, 320)), ("b.png", {"dpi": 100}, (300, 200))]:
        with Image.open(save(picture(), tmp_path / path, **settings)) as image:
            assert image.size == size


def test_a_failed_save_leaves_the_old_file_and_no_part(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(b"old")
    with pytest.raises(InputError, match=r"a\.jpg: figures are saved as \.png, \.pdf or \.svg"):
        save(picture(), tmp_path / "a.jpg")
    figure = picture()
    figure.axes[0].set_title("$\\frac$")
    with pytest.raises(ValueError, match="frac"):
        save(figure, path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_importing_the_plots_loads_neither_matplotlib_nor_torch():
    code = "import sys, icelens.plots; print({'matplotlib', 'torch', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
