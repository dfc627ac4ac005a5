"""The panel of benchmarks/detect.py: data sets whose wrong labels are known, by name."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from icelens.data import Labelled, load
from icelens.noise import add_noise

FASHION_ROWS, FASHION_WIDTH = 20_000, 64
HAUSA = "hausa_newsclass"


@dataclass(frozen=True, eq=False)
class Known:
    """Examples with the labels given, and which of these are wrong, (N,)."""

    data: Labelled
    wrong: NDArray[np.bool_]


@dataclass(frozen=True)
class Case:
    """A data set and the noise that is put on it.

    Args:
        read: from the root folder to the examples and their true labels; those given where the noise is real.
        noise: a key of `NOISES`, or "" where labels are taken as they are.
        rate: the expected share of labels that it moves.
        gpu: made for a GPU, and run on none but that.
    """

    read: Callable[[Path], tuple[Labelled, NDArray[np.int64]]]
    noise: str = ""
    rate: float = 0.0
    gpu: bool = False

    def draw(self, labelled: Labelled, clean: NDArray[np.int64], seed: int) -> Known:
        """The labels of one trial. Real noise is the same in all of them; networks and folds differ."""
        if not self.noise:
            return Known(labelled, labelled.labels != clean)
        features = torch.from_numpy(labelled.inputs) if self.noise == "instance" else None
        given = add_noise(
            self.noise,
            torch.from_numpy(clean),
            len(labelled.classes),
            self.rate,
            seed=seed,
            features=features,
        )
        return Known(replace(labelled, labels=given.labels.numpy()), given.moved.numpy())


def bundled(name: str, root: Path) -> tuple[Labelled, NDArray[np.int64]]:
    """A table that comes with scikit-learn; the root is not used."""
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    labels = bunch.target.astype(np.int64)
    classes = tuple(str(value) for value in bunch.target_names)
    return labelled("table", bunch.data.astype(np.float32), labels, classes, name), labels


def fashion(root: Path) -> tuple[Labelled, NDArray[np.int64]]:
    """Fashion-MNIST as a table: principal components of some of the images, the same ones in every trial."""
    from sklearn.decomposition import PCA

    train = load("fashion-mnist", root).train
    rows = np.random.default_rng(0).permutation(len(train))[:FASHION_ROWS]
    pixels = train.inputs[rows].flatten(1).numpy().astype(np.float32) / 255
    features = PCA(FASHION_WIDTH, random_state=0).fit_transform(pixels)
    labels = train.labels[rows].numpy()
    return labelled("table", features.astype(np.float32), labels, train.classes, "fashion-mnist"), labels


def glue(name: str, root: Path) -> tuple[Labelled, NDArray[np.int64]]:
    """All training texts of a task."""
    train = load(name, root).train
    labels = train.labels.numpy()
    return labelled("text", train.inputs, labels, train.classes, name), labels


def hausa(root: Path) -> tuple[Labelled, NDArray[np.int64]]:
    """News titles in Hausa with labels made by rules, and the true ones beside them, row by row."""
    true = _titles(root / HAUSA / "train_clean.tsv")
    given = _titles(root / HAUSA / "train_clean_noisy_labels.tsv")
    if [title for title, _ in true] != [title for title, _ in given]:
        raise SystemExit(f"{root / HAUSA}: the two files of training titles do not hold the same rows")
    classes = tuple(sorted({label for _, label in true}))
    codes = {label: code for code, label in enumerate(classes)}
    clean, labels = (np.array([codes[label] for _, label in rows], np.int64) for rows in (true, given))
    return labelled("text", [(title,) for title, _ in true], labels, classes, HAUSA), clean


def cifar10n(which: str, root: Path) -> tuple[Labelled, NDArray[np.int64]]:
    """CIFAR-10's training images as people labelled them."""
    split = load(f"cifar10n-{which}", root)
    assert split.clean_labels is not None
    images = split.train.inputs.permute(0, 2, 3, 1).contiguous().numpy()
    given = labelled("image", images, split.train.labels.numpy(), split.train.classes, f"cifar10n-{which}")
    return given, split.clean_labels.numpy()


def labelled(
    kind: str, inputs: Any, labels: NDArray[np.int64], classes: tuple[str, ...], name: str
) -> Labelled:
    """Examples named by their row."""
    rows = np.arange(len(labels))
    return Labelled(kind, inputs, labels, classes, rows.astype(object), rows, name)


def _titles(path: Path) -> list[tuple[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [(row["news_title"], row["label"]) for row in reader]


DIGITS = partial(bundled, "digits")

CASES: dict[str, Case] = {
    "digits-symmetric-10": Case(DIGITS, "symmetric", 0.1),
    "digits-symmetric-30": Case(DIGITS, "symmetric", 0.3),
    "digits-pair-20": Case(DIGITS, "pair", 0.2),
    "breast-cancer-symmetric-10": Case(partial(bundled, "breast_cancer"), "symmetric", 0.1),
    "wine-symmetric-10": Case(partial(bundled, "wine"), "symmetric", 0.1),
    "digits-untouched": Case(DIGITS),
    "cola-symmetric-10": Case(partial(glue, "cola"), "symmetric", 0.1),
    "hausa": Case(hausa),
    "fashion-symmetric-20": Case(fashion, "symmetric", 0.2),
    "fashion-pair-20": Case(fashion, "pair", 0.2),
    "fashion-instance-30": Case(fashion, "instance", 0.3),
    "sst2-symmetric-10": Case(partial(glue, "sst2"), "symmetric", 0.1),
    # On a GPU alone: ResNet-18 on 50,000 images, seven runs a trial.
    "cifar10n-aggregate": Case(partial(cifar10n, "aggregate"), gpu=True),
    "cifar10n-worst": Case(partial(cifar10n, "worst"), gpu=True),
}
UNTOUCHED = "digits-untouched"
