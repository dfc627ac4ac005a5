"""The pictures of a recording: data map, AUM, and C's ridgeline where confidences were recorded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from icelens.plots import aum_histogram, data_map, ridgeline, save, style

if TYPE_CHECKING:
    from icelens.dynamics.read import Dynamics


def draw(dynamics: Dynamics, folder: Path) -> list[Path]:
    """Write `data_map.png`, `aum.png` and, where there are confidences, `ridgeline.png`."""
    from matplotlib.figure import Figure

    examples = dynamics.examples
    with style():
        figures = {"data_map.png": Figure(figsize=(5.2, 3.6)), "aum.png": Figure(figsize=(5.2, 3.2))}
        data_map(
            figures["data_map.png"].subplots(),
            examples["variability"],
            examples["p_label"],
            examples["correctness"],
        )
        aum_histogram(figures["aum.png"].subplots(), examples["aum"])
        if dynamics.history.size:
            figures["ridgeline.png"] = Figure(figsize=(4.2, 5))
            ax = figures["ridgeline.png"].subplots()
            ridgeline(ax, dynamics.history, steps=dynamics.snapshots.tolist()).set_ylabel("epoch")
    return [save(figure, folder / name) for name, figure in figures.items()]
