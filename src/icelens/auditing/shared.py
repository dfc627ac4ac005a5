"""The runs of an audit over several ranks: each makes some, and what is found is what one process finds."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from icelens.auditing.evidence import LEAST_GAIN, honest_evidence
from icelens.auditing.fingerprint import fingerprint
from icelens.auditing.fit import Fit
from icelens.auditing.inputs import Inputs
from icelens.auditing.stages import (
    ARRAYS,
    TRIES,
    Honest,
    honest_runs,
    kept_run,
    runs_of,
    stored_run,
    whole_run,
)
from icelens.data import Labelled
from icelens.ranks import Ranks, dealt_out
from icelens.train.distributed import check_device

LEFT_OUT = 8.0  # times that a run should name a class; that it happens not to is one in 3,000 then


def check_agreement(data: Labelled, settings: dict[str, object], ranks: Ranks) -> None:
    """Raise, on every rank, where one has read other data, or was told something else.

    Of images the files are not compared: their dates may differ from machine to machine.
    """
    check_device(str(settings["device"]), ranks)
    if ranks.count > 1:
        same = replace(data, inputs=[()] * len(data)) if data.kind == "image" else data
        ranks.agree("options and data", (settings, fingerprint(same)))


def runs_together(
    inputs: Inputs, labels: Tensor, classes: int, ranks: Ranks, *, seed: int, folder: Path | None
) -> tuple[Fit, Honest | None] | None:
    """The runs of an audit, on the first rank; None on the others.

    Each rank makes one at a time. The first one keeps them, so that an audit that was stopped goes on. Where
    these learned nothing, or one of them gave up a class that others know, more are made that trust the
    labels more; if all fail in that, those count that explain the labels best.
    """
    best, most = None, -math.inf
    for attempt in range(len(TRIES)):
        runs = _try(inputs, labels, classes, ranks, seed=seed, folder=folder, attempt=attempt)
        gain, agreed = ranks.of_first(partial(_told, runs, labels))
        if agreed and gain >= LEAST_GAIN and gain > most / 2:
            return runs
        if gain > most:
            best, most = runs, gain
    return best


def _told(runs: tuple[Fit, Honest | None] | None, labels: Tensor) -> tuple[float, bool]:
    """What the runs tell of the labels, in nats, and whether each knows the classes that the others know."""
    assert runs is not None, "the first rank has them"
    whole, honest = runs
    if honest is None:  # one run answers for itself
        return math.inf, True
    parts = np.split(honest.log_p, np.cumsum(honest.sizes)[:-1])
    named = [np.bincount(log_p.argmax(1), minlength=log_p.shape[1]) for log_p in (whole.log_p, *parts)]
    return honest_evidence(honest, labels.cpu().numpy()).gain, _agree(np.array(named))


def _agree(named: NDArray[np.int64]) -> bool:
    """Whether no run leaves out a class that it should name a few times, going by the others.

    Args:
        named: (runs, classes), how often each run named each class.
    """
    others, rows = named.sum(0) - named, named.sum(1, keepdims=True)
    expected = others * rows / np.maximum(others.sum(1, keepdims=True), 1)
    return not ((named == 0) & (expected >= LEFT_OUT)).any()


def _try(
    inputs: Inputs,
    labels: Tensor,
    classes: int,
    ranks: Ranks,
    *,
    seed: int,
    folder: Path | None,
    attempt: int,
) -> tuple[Fit, Honest | None] | None:
    settings: dict[str, Any] = {"seed": seed, "attempt": attempt}
    if ranks.count == 1:
        whole = whole_run(inputs, labels, classes, folder=folder, **settings)
        return whole, honest_runs(inputs, labels, classes, folder=folder, **settings)
    with TemporaryDirectory() as scratch:
        kept = Path(scratch) if folder is None else folder
        runs = runs_of(inputs, labels, classes, **settings)
        missing = ranks.of_first(lambda: [name for name in runs if stored_run(kept / f"{name}.npz") is None])
        for name, run in dealt_out(missing, lambda name: _packed(runs[name]()), ranks):
            if ranks.is_first:
                kept_run(kept, name, partial(_unpacked, run))
        if not ranks.is_first:
            return None
        whole = whole_run(inputs, labels, classes, folder=kept, **settings)
        return whole, honest_runs(inputs, labels, classes, folder=kept, **settings)


def _packed(run: Fit) -> dict[str, Tensor]:
    arrays = {name: value for name in ARRAYS if (value := getattr(run, name)) is not None}
    weights = {f"weights/{name}": value for name, value in (run.weights or {}).items()}
    return {name: torch.from_numpy(value) for name, value in arrays.items()} | weights


def _unpacked(tensors: dict[str, Tensor]) -> Fit:
    arrays: dict[str, NDArray[np.float32]] = {
        name: tensors[name].numpy() for name in ARRAYS if name in tensors
    }
    weights = {
        name.removeprefix("weights/"): value for name, value in tensors.items() if name.startswith("weights/")
    }
    return Fit(**arrays, weights=weights or None)  # type: ignore[arg-type]
