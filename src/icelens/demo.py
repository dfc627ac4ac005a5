"""The demo: real handwritten digits, 30 % of their labels flipped, cross entropy beside ICE."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from icelens.errors import InputError
from icelens.train import Recipe, Run, run_recipe
from icelens.train.run import write_text

SHOWN = 40  # digits in the picture
LEGEND = 0.2  # inches above them for the line that explains it
FIRST_SEED = 1000  # no recipe was chosen by this seed or one above it

_COMMON = Recipe(
    data="digits",
    noise="symmetric",
    noise_rate=0.3,
    model="mlp",
    optimizer="adamw",
    learning_rate=0.01,
    schedule="linear",
    batch_size=128,
    evaluations=20,
    device="cpu",
)
# Chosen by the accuracy on a held-out fifth of the noisy labels, seeds 100 to 117: first cross entropy's
# recipe, the best of 60 drawn at random (network, width, dropout, weight decay, rate, batch size, length);
# then ICE's dropout, weight decay and length, the best of 24, with the rest as cross entropy has it.
# The second row of the demo differs from ICE in the loss alone.
_CROSS_ENTROPY = replace(
    _COMMON,
    loss="cross_entropy",
    model_settings={"hidden": [512, 512], "dropout": 0.5},
    weight_decay=0.3,
    epochs=15.0,
)
_ICE = replace(
    _COMMON,
    loss="ice_linear",
    model_settings={"hidden": [512, 512], "dropout": 0.25},
    weight_decay=0.01,
    epochs=120.0,
)
RECIPES = {
    "cross entropy, stopped in time": _CROSS_ENTROPY,
    "cross entropy, trained as ICE": replace(_ICE, loss="cross_entropy"),
    "ICE": replace(_ICE, snapshots=14),
}
BASELINE = "cross entropy, stopped in time"


@dataclass(frozen=True)
class Outcome:
    """What one seed gave: the accuracy by each recipe, and how many flipped labels ICE's ranking found."""

    seed: int
    accuracy: dict[str, float]
    flipped: int
    found: int


def run_demo(out: str | Path, seeds: Sequence[int] = (FIRST_SEED,)) -> list[Outcome]:
    """Train by all recipes for each seed under `out`, and draw the pictures of the first seed.

    What is finished there is not trained again.
    """
    if not seeds:
        raise InputError("the demo needs at least one seed")
    out = Path(out)
    with _one_thread():
        outcomes = [_one_seed(out, seed) for seed in seeds]
    ice = Run(run_folder(out, seeds[0], "ICE"))
    draw_least_trusted(ice, out / "least_trusted.png")
    draw_ridgeline(ice, out / "confidence.png")
    write_text(out / "demo.json", json.dumps([asdict(o) for o in outcomes], indent=2) + "\n")
    return outcomes


def paired_difference(outcomes: Sequence[Outcome]) -> tuple[float, float]:
    """ICE's accuracy less the baseline's: mean over the seeds and its standard error (NaN for one seed)."""
    differences = [o.accuracy["ICE"] - o.accuracy[BASELINE] for o in outcomes]
    mean = statistics.fmean(differences)
    if len(differences) < 2:
        return mean, math.nan
    return mean, statistics.stdev(differences) / math.sqrt(len(differences))


def draw_least_trusted(run: Run, path: Path) -> None:
    """The digits with the lowest confidence; a frame where the label was really flipped."""
    import torch
    from matplotlib.figure import Figure

    from icelens.data import digits
    from icelens.plots import Caption, gallery, gallery_size, save, style

    lowest = run.examples().nsmallest(SHOWN, "confidence")
    columns = zip(lowest["index"], lowest["label"], lowest["guess"], strict=True)
    captions = [Caption(int(index), str(label), str(guess)) for index, label, guess in columns]
    images = torch.as_tensor(digits().train.inputs)[lowest["index"].tolist()]
    with style():
        width, height = gallery_size(SHOWN, columns=10)
        figure = Figure(figsize=(width, height + LEGEND))
        head, body = figure.subfigures(2, 1, squeeze=False, height_ratios=(LEGEND, height)).flat
        legend = "Least trusted first: index, given label → the model's guess. Framed: the label was flipped."
        head.text(0.5, 0.5, legend, ha="center", va="center")
        gallery(body, images, captions, columns=10, flipped=lowest["moved"].to_numpy())
        save(figure, path)


def draw_ridgeline(run: Run, path: Path) -> None:
    """Confidences during training, of flipped and of original labels."""
    from matplotlib.figure import Figure

    from icelens.plots import ridgeline, save, style

    iterations, confidence = run.history()
    with style():
        figure = Figure(figsize=(4.5, 5))
        moved = run.examples()["moved"].to_numpy()
        axes = ridgeline(figure.subplots(), confidence, moved, steps=iterations.tolist())
        axes.set_ylabel("iteration")
        save(figure, path)


def _one_seed(out: Path, seed: int) -> Outcome:
    accuracy = {}
    for name, recipe in RECIPES.items():
        run = run_recipe(replace(recipe, seed=seed), run_folder(out, seed, name))
        accuracy[name] = run.metrics()[-1]["test_accuracy"]
    examples = run.examples()
    flipped = int(examples["moved"].sum())
    found = int(examples.nsmallest(flipped, "confidence")["moved"].sum())
    return Outcome(seed, accuracy, flipped, found)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Batches this small gain little from a second core, and lose much where another program wants it."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def run_folder(out: Path, seed: int, name: str) -> Path:
    """Where the run of a recipe and seed lies."""
    return out / f"seed-{seed}" / name.lower().replace(",", "").replace(" ", "-")
