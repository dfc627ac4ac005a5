"""The runs of an audit, each kept as soon as it is through, so that an audit that was stopped goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from icelens.auditing.fit import KEPT, Fit, fit
from icelens.auditing.inputs import Inputs
from icelens.errors import FileError
from icelens.files import replacing
from icelens.train.checkpoint import read_safetensors, write_safetensors

SMALL = 10_000  # examples; below, honest predictions are made for all, in folds
FOLDS = 4
ARRAYS = ("log_p", "confidence", "iteration", "history", "visited")  # of a run that is kept
WEIGHTS = ".safetensors"
WHOLE = "whole"
# Share of the labels that each try takes to be right at first. Where a class is rare, all its labels may be
# explained as flips before the network can tell it; the more trust, the rarer it can be.
TRIES = (KEPT, 0.97, 0.9995)
SHORTER = 0.8  # above, one fold is left out, and the rest trained on this much shorter


@dataclass(frozen=True, eq=False)
class Honest:
    """Predictions by networks that had not seen the label.

    Args:
        rows: which examples, (rows,).
        log_p: of each, (rows, classes).
        sizes: how many of the rows are of each run, one run after the other.
    """

    rows: NDArray[np.int64]
    log_p: NDArray[np.float32]
    sizes: tuple[int, ...] = ()


def whole_run(
    inputs: Inputs, labels: Tensor, classes: int, *, seed: int, folder: Path | None, attempt: int = 0
) -> Fit:
    """One ordinary run on all examples; the ranking is read from it."""
    name, run = next(iter(runs_of(inputs, labels, classes, seed, attempt=attempt).items()))
    return kept_run(folder, name, run)


def honest_runs(
    inputs: Inputs, labels: Tensor, classes: int, *, seed: int, folder: Path | None, attempt: int = 0
) -> Honest | None:
    """Honest predictions: of all examples where they are few, else of a quarter of them.

    None where the run on all examples answers for itself: a network that was held to its beliefs has not
    learned from the labels that it doubts.
    """
    _, *runs = runs_of(inputs, labels, classes, seed, attempt=attempt).items()
    found = [kept_run(folder, name, run) for name, run in runs]
    if not found:
        return None
    parts = _left_out(labels, seed)
    sizes = tuple(len(part) for part in parts)
    return Honest(torch.cat(parts).numpy(), np.concatenate([run.log_p for run in found]), sizes)


def runs_of(
    inputs: Inputs, labels: Tensor, classes: int, seed: int, *, attempt: int = 0
) -> dict[str, Callable[[], Fit]]:
    """The runs of an audit by the names that they are kept under, the one on all examples first.

    Args:
        inputs: what to learn from.
        labels: (N,), as given, where the inputs are.
        classes: K.
        seed: of networks, order and folds.
        attempt: which of the tries, the first being 0.
    """
    mark, before = (f"try{attempt + 1}-", f"try {attempt + 1}: ") if attempt else ("", "")
    train, plan = partial(fit, inputs, labels, classes, seed=seed, kept=TRIES[attempt]), inputs.plan()
    runs: dict[str, Callable[[], Fit]] = {
        f"{mark}{WHOLE}": partial(train, keep=True, title=f"{before}training on all")
    }
    if inputs.memorises:
        return runs
    parts = _left_out(labels, seed)
    if len(labels) >= SMALL:
        plan = replace(plan, epochs=max(1, round(SHORTER * plan.epochs)))
    for number, part in enumerate(parts):
        title = f"part {number + 1} of {len(parts)} left out" if len(parts) > 1 else "a quarter left out"
        title = f"{before}{title}"
        others = _others(part, len(labels))
        runs[f"{mark}part{number}"] = partial(train, rows=others, read=part, plan=plan, title=title)
    return runs


def _left_out(labels: Tensor, seed: int) -> list[Tensor]:
    """The rows that each honest run does not see: all, in folds, where they are few, else one fold."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    parts = folds(labels.cpu(), order, FOLDS)
    return parts[:1] if len(labels) >= SMALL else parts


def _others(part: Tensor, examples: int) -> Tensor:
    mask = torch.ones(examples, dtype=torch.bool)
    mask[part] = False
    return mask.nonzero().squeeze(1)


def folds(labels: Tensor, order: Tensor, count: int) -> list[Tensor]:
    """The rows dealt out in `count` parts, class by class, so that each has its share of every class."""
    dealt = order[labels[order].argsort(stable=True)]
    return [dealt[number::count].sort().values for number in range(count)]


def kept_run(folder: Path | None, name: str, make: Callable[[], Fit]) -> Fit:
    """The run of that name from the folder, or made and put there."""
    if folder is None:
        return make()
    path = folder / f"{name}.npz"
    stored = stored_run(path)
    if stored is None:
        stored = make()
        arrays = {name: value for name in ARRAYS if (value := getattr(stored, name)) is not None}
        if stored.weights is not None:
            write_safetensors(path.with_suffix(WEIGHTS), stored.weights, {})
        with replacing(path) as part, part.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
    return stored


def stored_run(path: Path) -> Fit | None:
    """The run that was kept there; None where there is none, or one that a crash of the machine damaged."""
    try:
        with path.open("rb") as file, np.load(file) as arrays:
            found = {name: arrays[name] for name in ARRAYS if name != "visited" or name in arrays}
        weights = path.with_suffix(WEIGHTS)
        return Fit(**found, weights=read_safetensors(weights)[0] if weights.exists() else None)
    except (FileNotFoundError, BadZipFile, ValueError, KeyError, EOFError, FileError):
        return None
