"""The network of an audit: how its file names it, and how it is built again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from icelens.auditing.inputs import Bags, Features, Inputs, Pictures
from icelens.errors import FileError, InputError, MissingFileError

if TYPE_CHECKING:
    from icelens.data import Labelled


def described(inputs: Inputs, classes: int) -> dict[str, Any]:
    """What tells one network from another, as JSON holds it."""
    if isinstance(inputs, Features):
        sizes = {"inputs": int(inputs.values.shape[1]), "hidden": inputs.hidden}
        return {"kind": "mlp", **sizes, "classes": classes}
    if isinstance(inputs, Bags):
        return {"kind": "sparse_linear", "inputs": inputs.width, "classes": classes}
    assert isinstance(inputs, Pictures)
    kind = "resnet18" if inputs.large else "small_convolutional"
    return {"kind": kind, "inputs": list(inputs.pixels.shape[1:]), "classes": classes}


def load_network(folder: str | Path, data: Labelled, device: str = "cpu") -> tuple[Inputs, nn.Module]:
    """The inputs and the trained network of the audit in this folder; `data` is what was audited.

    What the inputs are scaled and weighted by is not stored: it is read from the data again.
    """
    from icelens.auditing.folder import read_json
    from icelens.train.checkpoint import read_safetensors
    from icelens.train.task import choose_device

    folder, place = Path(folder), choose_device(device)
    path = folder / "model.safetensors"
    if not path.exists():
        raise MissingFileError(f"{path}: no such file; audit the data again to have it")
    about, backbone = read_json(folder / "audit.json")["about"], _backbone(folder)
    inputs = _inputs(data, about["network"]["kind"], backbone, folder.parent / "embeddings", place)
    if described(inputs, len(data.classes)) != about["network"]:
        raise InputError(f"{folder}: its network was made for other data than {data.name}")
    network = inputs.network(len(data.classes)).to(place)
    try:
        network.load_state_dict(read_safetensors(path)[0])
    except RuntimeError:
        raise FileError(f"{path}: not the weights of {about['model']}") from None
    return inputs, network.eval()


def _backbone(folder: Path) -> str | None:
    from icelens.auditing.folder import read_json

    backbone: str | None = read_json(folder / "recipe.json")["settings"]["backbone"]
    return backbone


def _inputs(data: Labelled, kind: str, backbone: str | None, cache: Path, place: torch.device) -> Inputs:
    from icelens.auditing.features import inputs_of

    if backbone is not None:
        from icelens.auditing.backbone import embed

        return embed(data, backbone, place, cache)
    inputs = inputs_of(data, place)
    return replace(inputs, large=kind == "resnet18") if isinstance(inputs, Pictures) else inputs
