"""Training dynamics for Dataset Cartography and AUM: what the network said after each epoch.

An audit keeps no history of all examples, so the network is trained once more, on the given labels and with
cross entropy, as those tools do. They ask for logits; log-probabilities are logits too, shifted so that they
sum to one after exp, which changes neither a softmax nor a margin.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icelens.counts import counted
from icelens.export.reviewed import Reviewed
from icelens.files import write_csv

LogP = NDArray[np.float32]
DECIMALS = 5


def write_cartography(reviewed: Reviewed, part: Path, device: str = "auto") -> str:
    """A folder with `training_dynamics/dynamics_epoch_N.jsonl`: guid, logits and gold of every example."""
    folder = part / "training_dynamics"
    folder.mkdir(parents=True)
    ids, gold = reviewed.examples["id"].tolist(), reviewed.codes("label").tolist()

    def record(epoch: int, log_p: LogP) -> None:
        path = folder / f"dynamics_epoch_{epoch}.jsonl"
        with path.open("w", encoding="utf-8") as file:
            for guid, logits, code in zip(ids, np.round(log_p, DECIMALS).astype(float), gold, strict=True):
                line = {
                    "guid": guid,
                    f"logits_epoch_{epoch}": np.round(logits, DECIMALS).tolist(),
                    "gold": code,
                }
                file.write(json.dumps(line) + "\n")

    epochs = _train(reviewed, device, record)
    return f"{counted(len(ids), 'example')} over {counted(epochs, 'epoch')}"


def write_aum(reviewed: Reviewed, part: Path, device: str = "auto") -> str:
    """`sample_id` and `aum`, the mean margin of the given label over the epochs; the highest first."""
    import pandas as pd

    labels = reviewed.codes("label")
    total = np.zeros(len(labels))

    def record(_: int, log_p: LogP) -> None:
        np.add(total, margins(log_p, labels), out=total)

    epochs = _train(reviewed, device, record)
    table = pd.DataFrame({"sample_id": reviewed.examples["id"], "aum": total / epochs})
    write_csv(table.sort_values("aum", ascending=False, kind="stable"), part)
    return f"{counted(len(table), 'example')} over {counted(epochs, 'epoch')}"


def margins(log_p: LogP, labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """z_y − max over the other classes of z, (rows,).

    >>> margins(np.log(np.array([[0.6, 0.3, 0.1], [0.6, 0.3, 0.1]], np.float32)), np.array([0, 1])).round(3)
    array([ 0.693, -0.693])
    """
    rows = np.arange(len(labels))
    others = log_p.astype(np.float64)
    own = others[rows, labels]
    others[rows, labels] = -np.inf
    found: NDArray[np.float64] = own - others.max(1)
    return found


def _train(reviewed: Reviewed, device: str, record: Callable[[int, Any], None]) -> int:
    """Train the audit's network once more and record each epoch; returns how many there were."""
    import torch

    from icelens.auditing.fit import fit
    from icelens.auditing.network import load_network

    data = reviewed.data
    inputs, network = load_network(reviewed.folder, data, device)
    place = next(network.parameters()).device
    seed = int(reviewed.recipe["settings"]["seed"])
    labels = torch.from_numpy(data.labels).to(place)
    epochs = inputs.plan().epochs
    fit(
        inputs, labels, len(data.classes), loss="cross_entropy", seed=seed, title="training once more",
        read=torch.arange(0), watch=record,
    )  # fmt: skip
    return epochs
