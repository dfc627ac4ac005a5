"""The tools of benchmarks/detect.py: each trains the same network on the same inputs by the same plan."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import icelens.auditing.fit as fit_module
from icelens.auditing.audit import judge
from icelens.auditing.fit import Fit, fit
from icelens.auditing.inputs import Inputs
from icelens.auditing.shared import runs_together
from icelens.data import Labelled
from icelens.files import replacing
from icelens.ranks import ALONE
from icelens.train.loop import epoch_order

FOLDS = 5
Arrays = dict[str, NDArray[Any]]
ICELENS = "icelens"
SELF_CONFIDENCE, NORMALIZED_MARGIN = "cleanlab self-confidence", "cleanlab normalized margin"
AUM, TRAINING_LOSS = "AUM", "training loss"
ARGMAX, ARGMAX_FOLDS = "argmax in-sample", "argmax five-fold"
TOOLS = (ICELENS, SELF_CONFIDENCE, NORMALIZED_MARGIN, AUM, TRAINING_LOSS, ARGMAX, ARGMAX_FOLDS)


@dataclass(frozen=True, eq=False)
class Verdict:
    """What a tool says of the labels; what it does not say is None.

    Args:
        score: (N,), low = suspicious.
        issues: (N,), the list that it gives by default.
        estimate: how many labels are wrong.
        interval: for that number, at 90 %.
    """

    score: NDArray[Any] | None = None
    issues: NDArray[np.bool_] | None = None
    estimate: float | None = None
    interval: tuple[float, float] | None = None


class Drawn:
    """Counts the rows that epochs draw for training: what a tool costs, whatever it says of itself."""

    def __init__(self) -> None:
        self.rows = 0

    def __call__(self, rows: Tensor, seed: int, epoch: int) -> Tensor:
        self.rows += len(rows)
        return epoch_order(rows, seed, epoch)


drawn = fit_module.epoch_order = Drawn()


class Trial:
    """One data set with its labels, and the runs that tools make on it.

    Args:
        data: the examples with the labels given.
        inputs: what `inputs_of` makes of them, on the device to train on.
        seed: of networks, order and folds.
        folder: keeps each run as it ends, so that a trial that was stopped goes on; None keeps nothing.
        say: told what runs.
    """

    def __init__(
        self, data: Labelled, inputs: Inputs, seed: int, folder: Path | None, say: Callable[[str], None]
    ) -> None:
        self.data, self.inputs, self.seed = data, inputs, seed
        self.folder, self.say = folder, say
        self.classes = len(data.classes)
        self.labels = torch.from_numpy(data.labels).to(_device(inputs))

    def run(self, name: str, make: Callable[[], Arrays]) -> Arrays:
        """What `make` gives, with its `seconds` and `model_epochs`; from the folder where it is there."""
        path = self.folder / f"{name}.npz" if self.folder else None
        if path is not None and path.exists():
            with np.load(path) as stored:
                return dict(stored)
        self.say(name)
        before, started = drawn.rows, time.perf_counter()
        found = make()
        found["seconds"] = np.array(time.perf_counter() - started)
        found["model_epochs"] = np.array((drawn.rows - before) / len(self.data))
        if path is not None:
            with replacing(path) as part, part.open("wb") as file:
                np.savez(file, allow_pickle=False, **found)
        return found

    def icelens(self) -> Arrays:
        """An audit: the steps of `audit_labelled`."""
        runs = runs_together(self.inputs, self.labels, self.classes, ALONE, seed=self.seed, folder=None)
        found = judge(self.data, *runs, seed=self.seed)
        return {
            "trust": found.examples["trust"].to_numpy(),
            "issues": found.examples["is_issue"].to_numpy(),
            **{name: np.array(value) for name, value in asdict(found.estimate).items()},
        }

    def fold(self, rows: NDArray[np.int64], held_out: NDArray[np.int64]) -> Arrays:
        """Cross entropy on some rows, and what it then says of those held out."""
        some = {"rows": torch.from_numpy(rows), "read": torch.from_numpy(held_out)}
        return {"log_p": self.cross_entropy(**some).log_p}

    def cross_entropy(self, **settings: Any) -> Fit:
        """A run as an audit makes it, but with the loss of the other tools."""
        return fit(self.inputs, self.labels, self.classes, loss="cross_entropy", seed=self.seed, **settings)

    def watched(self) -> Arrays:
        """Cross entropy on all rows: its last argmax, and means over epochs of the margin and of log p_y."""
        seen = Seen(self.data.labels)
        log_p = self.cross_entropy(watch=seen.epoch).log_p
        return {
            "guess": log_p.argmax(1),
            "margin": seen.margin / seen.epochs,
            "log_p_label": seen.log_p_label / seen.epochs,
        }


class Seen:
    """Sums over epochs of what a network says of the labels."""

    def __init__(self, labels: NDArray[np.int64]) -> None:
        self.labels, self.epochs = labels, 0
        self.margin, self.log_p_label = np.zeros(len(labels)), np.zeros(len(labels))

    def epoch(self, number: int, log_p: NDArray[np.float32]) -> None:
        rows = np.arange(len(self.labels))
        own = log_p[rows, self.labels].astype(np.float64)
        others = log_p.copy()
        others[rows, self.labels] = -np.inf
        # A difference of log-probabilities is one of logits: their normaliser falls out.
        self.margin += own - others.max(1)
        self.log_p_label += own
        self.epochs += 1


@dataclass(frozen=True, eq=False)
class Judged:
    """A verdict, with what it took: rows trained on over rows, and seconds of training and judging."""

    verdict: Verdict
    model_epochs: float
    seconds: float


def judge_icelens(trial: Trial) -> Judged:
    """The verdict of an audit."""
    audit = trial.run("icelens", trial.icelens)
    interval = (float(audit["low"]), float(audit["high"]))
    verdict = Verdict(audit["trust"], audit["issues"], float(audit["errors"]), interval)
    return Judged(verdict, float(audit["model_epochs"]), float(audit["seconds"]))


def judge_all(trial: Trial) -> dict[str, Judged]:
    """The verdict of every tool."""
    audit = judge_icelens(trial)
    watched = trial.run("watched", trial.watched)
    folds = cross_validated(trial)
    cleanlab = trial.run("cleanlab", lambda: confident_learning(trial.data.labels, folds["p"]))
    for name in ("seconds", "model_epochs"):
        cleanlab[name] = cleanlab[name] + folds[name]
    labels = trial.data.labels
    cut = {"issues": cleanlab["issues"], "estimate": float(cleanlab["errors"])}
    verdicts = {
        SELF_CONFIDENCE: (Verdict(cleanlab["self_confidence"], **cut), cleanlab),
        NORMALIZED_MARGIN: (Verdict(cleanlab["normalized_margin"], **cut), cleanlab),
        AUM: (Verdict(watched["margin"]), watched),
        TRAINING_LOSS: (Verdict(watched["log_p_label"]), watched),
        ARGMAX: (Verdict(issues=watched["guess"] != labels), watched),
        ARGMAX_FOLDS: (Verdict(issues=folds["p"].argmax(1) != labels), folds),
    }
    others = {
        name: Judged(verdict, float(took["model_epochs"]), float(took["seconds"]))
        for name, (verdict, took) in verdicts.items()
    }
    return {ICELENS: audit, **others}


def cross_validated(trial: Trial) -> Arrays:
    """Probabilities of every row by a network that had not seen it, with what all folds took together."""
    from sklearn.model_selection import StratifiedKFold

    labels = trial.data.labels
    p = np.zeros((len(labels), trial.classes))
    took = {"seconds": np.zeros(()), "model_epochs": np.zeros(())}
    splits = StratifiedKFold(FOLDS, shuffle=True, random_state=trial.seed).split(labels, labels)
    for number, (rows, held_out) in enumerate(splits):
        fold = trial.run(f"fold{number}", lambda rows=rows, held_out=held_out: trial.fold(rows, held_out))
        p[held_out] = np.exp(fold["log_p"].astype(np.float64))
        took = {name: took[name] + fold[name] for name in took}
    return {"p": p / p.sum(1, keepdims=True), **took}


def confident_learning(labels: NDArray[np.int64], p: NDArray[np.float64]) -> Arrays:
    """cleanlab by its defaults: two scores, the issues and their number."""
    from cleanlab.count import num_label_issues
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    scores = {
        method: get_label_quality_scores(labels, p, method=method)
        for method in ("self_confidence", "normalized_margin")
    }
    # One process: how many there are changes the time alone.
    issues = find_label_issues(labels, p, n_jobs=1)
    return {**scores, "issues": issues, "errors": np.array(num_label_issues(labels, p))}


def _device(inputs: Inputs) -> torch.device:
    """Where the inputs are."""
    return next(value for value in vars(inputs).values() if isinstance(value, Tensor)).device
