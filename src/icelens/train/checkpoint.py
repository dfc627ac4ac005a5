"""Checkpoints: all that a run needs to go on to the same numbers, in one file that cannot run code.

Tensors are in `checkpoint.safetensors`, the rest in its header as JSON.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from icelens.data import OnDevice
from icelens.errors import FileError
from icelens.files import replacing
from icelens.ranks import ALONE, Ranks

NAME = "checkpoint.safetensors"


def save_checkpoint(folder: Path, parts: dict[str, Any], progress: dict[str, Any]) -> None:
    """Write the state of the parts (modules, optimizer, data) and what `progress` says of the run."""
    tensors: dict[str, Tensor] = {}
    structure = {name: _split(_state(part), name, tensors) for name, part in parts.items()}
    structure["random"] = _split(_random_state(parts["data"]), "random", tensors)
    write_safetensors(
        folder / NAME, tensors, {"structure": json.dumps(structure), "progress": json.dumps(progress)}
    )


def load_checkpoint(folder: Path, parts: dict[str, Any], ranks: Ranks = ALONE) -> dict[str, Any] | None:
    """Put the parts back as they were and return what `progress` said; None where there is no checkpoint.

    The first rank reads the file and hands it to the others.
    """
    tensors, header = _read(folder / NAME) if ranks.is_first else ({}, {})
    header = ranks.told(header, 0)
    if not header:
        return None
    tensors = ranks.tensors(tensors)
    structure = json.loads(header["structure"])
    for name, part in parts.items():
        _restore(part, _join(structure[name], tensors))
    _restore_random(parts["data"], _join(structure["random"], tensors))
    progress: dict[str, Any] = json.loads(header["progress"])
    return progress


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """What the checkpoint holds; nothing where there is none."""
    if not path.exists():
        return {}, {}
    tensors, header = read_safetensors(path)
    if "structure" not in header:
        raise FileError(f"{path}: not a checkpoint of a run")
    return tensors, header


def write_safetensors(path: Path, tensors: dict[str, Tensor], header: dict[str, str]) -> None:
    """Write tensors and a header of strings."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with replacing(path) as part:
        try:
            save_file(plain, part, header)
        except SafetensorError as error:
            raise _written_wrong(path, error) from None


def _written_wrong(path: Path, error: Exception) -> Exception:
    """The error of the operating system that safetensors met, such as a full disk."""
    found = re.search(r"\(os error (\d+)\)", str(error))
    if found is None:
        return FileError(f"{path}: could not be written: {error}")
    return OSError(int(found[1]), os.strerror(int(found[1])))


def read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the header of a file, or an error that names it."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise FileError(f"{path}: not a readable safetensors file: {error}") from None


def _state(part: Any) -> Any:
    if isinstance(part, OnDevice):
        return None if part.generator is None else part.generator.get_state()
    return dict(part.state_dict())


def _restore(part: Any, state: Any) -> None:
    if isinstance(part, OnDevice):
        if part.generator is not None:
            part.generator.set_state(state)
    elif isinstance(part, nn.Module):
        part.load_state_dict(state)
    else:
        # JSON has only string keys; the optimizer numbers its parameters.
        state["state"] = {int(number): values for number, values in state["state"].items()}
        # How the optimizer runs is this run's affair, not that of the one that was saved.
        for group, saved in zip(part.param_groups, state["param_groups"], strict=True):
            saved.update({name: group[name] for name in ("fused", "capturable") if name in group})
        part.load_state_dict(state)
        _lay_out(part)


def _lay_out(optimizer: torch.optim.Optimizer) -> None:
    """Give the state the layout of its parameters, which files do not keep and fused optimizers insist on."""
    for parameter, values in optimizer.state.items():
        for name, value in values.items():
            if isinstance(value, Tensor) and value.shape == parameter.shape:
                values[name] = torch.empty_like(parameter).copy_(value)


def _random_state(data: OnDevice) -> dict[str, Tensor]:
    """What dropout and the like draw from, on the CPU and on the device of the data."""
    states, device = {"cpu": torch.get_rng_state()}, data.labels.device
    return {**states, "cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else states


def _restore_random(data: OnDevice, states: dict[str, Tensor]) -> None:
    torch.set_rng_state(states["cpu"])
    if "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], data.labels.device)


def _split(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    """The same structure with each tensor replaced by its name in the file."""
    if isinstance(value, Tensor):
        # A copy: two names for one storage are refused by the format.
        tensors[path] = value.detach().clone()
        return {"tensor": path}
    if isinstance(value, dict):
        return {"dict": {str(key): _split(inner, f"{path}/{key}", tensors) for key, inner in value.items()}}
    if isinstance(value, list | tuple):
        return {"list": [_split(inner, f"{path}/{number}", tensors) for number, inner in enumerate(value)]}
    return {"plain": value}


def _join(value: Any, tensors: dict[str, Tensor]) -> Any:
    """The inverse of `_split`."""
    ((kind, content),) = value.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "dict":
        return {key: _join(inner, tensors) for key, inner in content.items()}
    if kind == "list":
        return [_join(inner, tensors) for inner in content]
    return content
