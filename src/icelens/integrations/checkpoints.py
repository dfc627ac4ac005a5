"""Confidences in the checkpoint folders of outside trainers: a safetensors file of their own."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

from icelens.errors import FileError, MissingFileError
from icelens.losses import ICELoss
from icelens.train.checkpoint import read_safetensors, write_safetensors

NAME = "confidence.safetensors"


def save_confidences(folder: Path, loss_fn: ICELoss) -> None:
    """Write the table of confidence logits into the folder, whole or not at all."""
    write_safetensors(folder / NAME, {"v": loss_fn.state_dict()["table.v"]}, {"format": "pt"})


def load_confidences(folder: Path, loss_fn: ICELoss) -> None:
    """Put the table back as it was when the checkpoint was written."""
    path = folder / NAME
    if not path.exists():
        raise MissingFileError(
            f"{folder} has no {NAME}, so it is not a checkpoint with confidences. To start from its model "
            "alone, load that with from_pretrained and train without resume_from_checkpoint"
        )
    tensors, _ = read_safetensors(path)
    if "v" not in tensors:
        raise FileError(f"{path}: holds no table of confidences")
    if len(tensors["v"]) != loss_fn.table.examples:
        raise FileError(
            f"{path}: holds {len(tensors['v'])} confidences, but the training set has "
            f"{loss_fn.table.examples} examples"
        )
    loss_fn.load_state_dict({"table.v": tensors["v"]})


def last_whole_checkpoint(folder: Path) -> str | None:
    """The newest checkpoint of a transformers Trainer that was written to its end; None where there is none.

    The Trainer writes its state last, so a run that was killed while it saved left none or a part of one.
    """
    found = {int(path.name.split("-")[-1]): path for path in folder.glob("checkpoint-*") if _numbered(path)}
    for number in sorted(found, reverse=True):
        if _is_whole(found[number]):
            return str(found[number])
        warnings.warn(f"{found[number]} was not written to its end and is passed over", stacklevel=3)
    return None


def _numbered(path: Path) -> bool:
    return path.is_dir() and path.name.removeprefix("checkpoint-").isdigit()


def _is_whole(checkpoint: Path) -> bool:
    try:
        json.loads((checkpoint / "trainer_state.json").read_text())
    except (OSError, ValueError):
        return False
    return True
