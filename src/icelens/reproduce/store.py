"""Finished trials: one JSON file each, so that a reproduction can stop anywhere and go on."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any

from icelens.errors import FileError
from icelens.files import replacing
from icelens.reproduce.experiment import Experiment


def trial_path(results: Path, table: str, data: str, method: str, seed: int) -> Path:
    """Where the record of a trial lies; what is no letter or digit of a method's name is a dash there.

    >>> trial_path(Path("results"), "combine", "mnist", "ice_linear+mixup", 3).as_posix()
    'results/combine/mnist-ice_linear-mixup-3.json'
    """
    return results / table / f"{data}-{re.sub(r'[^0-9A-Za-z_.-]+', '-', method)}-{seed}.json"


def write_trial(path: Path, record: dict[str, Any]) -> None:
    """Write the record of a finished trial, whole or not at all."""
    with replacing(path) as part:
        part.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def read_trials(results: Path, table: str) -> list[dict[str, Any]]:
    """The records of a table's finished trials, in the order of their names."""
    return [read_trial(path) for path in sorted((results / table).glob("*.json"))]


def finished(experiment: Experiment, results: Path) -> int:
    """How many of an experiment's own trials have a record."""
    return sum(
        trial_path(results, experiment.table, experiment.data, method, seed).exists()
        for method in experiment.methods
        for seed in range(experiment.trials)
    )


def circumstances(device: str) -> dict[str, Any]:
    """What a number may depend on besides its settings: versions, hardware, commit.

    Args:
        device: what it was computed on, such as "cpu" or "cuda:1".
    """
    import torch

    from icelens.train.run import versions

    on_gpu = torch.device(device).type == "cuda"
    hardware = (
        torch.cuda.get_device_name(device) if on_gpu else f"{_cpu()}, {torch.get_num_threads()} threads"
    )
    names = ("icelens", "torch", "python")
    return {
        "versions": {name: version for name, version in versions().items() if name in names},
        "hardware": hardware,
        "commit": commit(),
    }


@lru_cache(maxsize=1)
def commit() -> str | None:
    """The commit of the source tree that this module is part of; None where it is no git checkout.

    ICELENS_COMMIT says it where the sources were copied without their history.
    """
    if os.environ.get("ICELENS_COMMIT"):
        return os.environ["ICELENS_COMMIT"]
    # An installed package may lie inside a checkout of something else.
    if _git("ls-files", "--error-unmatch", __file__) is None:
        return None
    return _git("describe", "--always", "--dirty", "--abbrev=12")


def _git(*words: str) -> str | None:
    """What git answers in the folder of this file; None where it fails."""
    command = ["git", "-C", str(Path(__file__).parent), *words]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine()
    )


def read_trial(path: Path) -> dict[str, Any]:
    """The record of a finished trial."""
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileError(f"{path}: not the record of a trial: {error}") from None
    return record
