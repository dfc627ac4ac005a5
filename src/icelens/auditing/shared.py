"""The runs of an audit over several ranks: each makes some, and what is found is what one process finds."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from icelens.auditing.fingerprint import fingerprint
from icelens.auditing.fit import Fit
from icelens.auditing.inputs import Inputs
from icelens.auditing.stages import (
    ARRAYS,
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

    Each rank makes one at a time. The first one keeps them, so that an audit that was stopped goes on.
    """
    if ranks.count == 1:
        whole = whole_run(inputs, labels, classes, seed=seed, folder=folder)
        return whole, honest_runs(inputs, labels, classes, seed=seed, folder=folder)
    with TemporaryDirectory() as scratch:
        kept = Path(scratch) if folder is None else folder
        runs = runs_of(inputs, labels, classes, seed)
        missing = ranks.of_first(lambda: [name for name in runs if stored_run(kept / f"{name}.npz") is None])
        for name, run in dealt_out(missing, lambda name: _packed(runs[name]()), ranks):
            if ranks.is_first:
                kept_run(kept, name, partial(_unpacked, run))
        if not ranks.is_first:
            return None
        whole = whole_run(inputs, labels, classes, seed=seed, folder=kept)
        return whole, honest_runs(inputs, labels, classes, seed=seed, folder=kept)


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
