"""Draw the two pictures of method.md: python docs/pictures.py."""

from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import icelens
from icelens.plots import BLUE, VERMILLION, save, style
from icelens.plots.style import FAINT, GREY

IMAGES = Path(__file__).parent / "images"
CLASSES, PREDICTION, GIVEN = ("cat", "dog", "bird"), np.array([0.90, 0.07, 0.03]), 1
EPOCHS = 15


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
    torch.manual_seed(0)
    pixels, digits = load_digits(return_X_y=True)
    x, right = torch.tensor(pixels / 16, dtype=torch.float32), torch.tensor(digits)
    labels, moved = icelens.add_noise("symmetric", right, classes=10, rate=0.1, seed=0)
    loss_fn = icelens.ICELoss(len(x))
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    seen = [loss_fn.confidence().numpy()]
    for _ in range(EPOCHS):
        for index in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            loss_fn(model(x[index]), labels[index], index).backward()
            optimizer.step()
        seen.append(loss_fn.confidence().numpy())
    return np.stack(seen), moved.numpy()


if __name__ == "__main__":
    with style():
        save(draw_belief(), IMAGES / "method_belief.png", dpi=120)
        save(draw_course(), IMAGES / "method_course.png", dpi=120)
