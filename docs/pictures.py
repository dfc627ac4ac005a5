"""Draw the pictures of method.md and beyond.md: python docs/pictures.py."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from torch import Tensor, nn

import icelens
from icelens.losses import Problem, make_loss
from icelens.plots import BLUE, VERMILLION, save, style
from icelens.plots.style import FAINT, GREY

IMAGES = Path(__file__).parent / "images"
CLASSES, PREDICTION, GIVEN = ("cat", "dog", "bird"), np.array([0.90, 0.07, 0.03]), 1
EPOCHS = 15
LONG = 90  # epochs, in which a network can learn digits by heart


def draw_belief() -> Figure:
    """One prediction, believed wholly, by half and not at all, and what the label "dog" then costs."""
    figure = Figure(figsize=(7.5, 2.3))
    steps = ((1.0, "C = 1: believed"), (0.5, "C = 0.5: by half"), (0.0, "C = 0: as good as a guess"))
    for ax, (confidence, title) in zip(figure.subplots(1, 3, sharey=True), steps, strict=True):
        believed = confidence * PREDICTION + (1 - confidence) / len(CLASSES)
        colours = [VERMILLION if place == GIVEN else BLUE for place in range(len(CLASSES))]
        for bar, share in zip(ax.bar(CLASSES, believed, color=colours, width=0.6), believed, strict=True):
            ax.annotate(
                f"{share:.0%}", (bar.get_x() + 0.3, share), (0, 3), textcoords="offset points", ha="center"
            )
        ax.set(title=title, ylim=(0, 1.08), yticks=[])
        ax.spines["left"].set_visible(False)
        ax.set_xlabel(f'the label "dog" costs {-np.log(believed[GIVEN]):.1f}', color=VERMILLION)
    return figure


def draw_course() -> Figure:
    """C of digits during training, each line an example: labels that are right, and labels we made wrong."""
    confidence, moved = _train()
    figure = Figure(figsize=(7.5, 2.9))
    ax = figure.subplots()
    for rows, colour in ((np.flatnonzero(~moved)[:300], BLUE), (np.flatnonzero(moved), VERMILLION)):
        ax.plot(confidence[:, rows], color=colour, linewidth=0.5, alpha=0.35)
    ax.axhline(0.5, color=FAINT, linewidth=0.6, zorder=0)
    ax.text(EPOCHS + 0.2, 0.97, "right labels", color=BLUE, va="top", weight="bold")
    ax.text(EPOCHS + 0.2, 0.03, "wrong labels", color=VERMILLION, weight="bold")
    ax.text(EPOCHS + 0.2, 0.5, "where all start", color=GREY, va="center")
    ax.set(xlabel="epoch", ylabel="confidence C", xlim=(0, EPOCHS), ylim=(0, 1))
    return figure


def _train() -> tuple[np.ndarray, np.ndarray]:
    """Confidences at the start and after each epoch, and which labels were made wrong."""
    data, loss_fn = _digits(rate=0.1), icelens.ICELoss(1797)
    seen = [loss_fn.confidence().numpy()]
    seen += [loss_fn.confidence().numpy() for _ in _epochs(data, loss_fn, hidden=128, count=EPOCHS)]
    return np.stack(seen), data.moved.numpy()


def draw_held() -> Figure:
    """What networks say of digits whose labels were made wrong: with cross entropy, and held to beliefs."""
    figure = Figure(figsize=(7.5, 2.6))
    titles = {
        "cross_entropy": "cross entropy: learned by heart",
        "ice_held": "ICE-HELD: held to what it believed",
    }
    for ax, (loss, title) in zip(figure.subplots(1, 2, sharey=True), titles.items(), strict=True):
        right, wrong = _guesses(loss)
        ax.plot(right, color=BLUE, label="the right class")
        ax.plot(wrong, color=VERMILLION, label="the wrong label")
        ax.set(title=title, xlabel="epoch", xlim=(0, LONG), ylim=(0, 1), yticks=(0, 0.5, 1))
    ax.legend(loc="center right")
    figure.axes[0].set_ylabel("share of the wrong labels\nfor which the network says")
    return figure


def _guesses(name: str) -> tuple[np.ndarray, np.ndarray]:
    """For how many of the labels made wrong the guess is the right class, and the label, by epoch."""
    data, seen = _digits(rate=0.4), []
    loss_fn, wrong = make_loss(name, Problem(len(data.x), 10)), data.moved
    for model in _epochs(data, loss_fn, hidden=512, count=LONG):
        with torch.no_grad():
            guess = model(data.x[wrong]).argmax(1)
        seen.append([(guess == told[wrong]).float().mean().item() for told in (data.right, data.labels)])
    of_right, of_label = np.array(seen).T
    return of_right, of_label


class Digits(NamedTuple):
    """Images as rows, their classes, the labels given, and which of those were made wrong."""

    x: Tensor
    right: Tensor
    labels: Tensor
    moved: Tensor


def _digits(rate: float) -> Digits:
    torch.manual_seed(0)
    pixels, digits = load_digits(return_X_y=True)
    x, right = torch.tensor(pixels / 16, dtype=torch.float32), torch.tensor(digits)
    return Digits(x, right, *icelens.add_noise("symmetric", right, classes=10, rate=rate, seed=0))


def _epochs(data: Digits, loss_fn: nn.Module, *, hidden: int, count: int) -> Iterator[nn.Module]:
    """Train a network, and show it after each epoch."""
    model = nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for _ in range(count):
        for index in torch.randperm(len(data.x)).split(64):
            optimizer.zero_grad()
            loss_fn(model(data.x[index]), data.labels[index], index).backward()
            optimizer.step()
        yield model


if __name__ == "__main__":
    with style():
        save(draw_belief(), IMAGES / "method_belief.png", dpi=120)
        save(draw_course(), IMAGES / "method_course.png", dpi=120)
        save(draw_held(), IMAGES / "beyond_held.png", dpi=120)
