"""A run is a folder: complete, readable by others, each file written whole or not at all."""

from __future__ import annotations

import dataclasses
import json
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from icelens import __version__
from icelens.errors import FileError, InputError, MissingFileError
from icelens.files import is_leftover, replacing
from icelens.models import network
from icelens.train.checkpoint import read_safetensors, write_safetensors
from icelens.train.recipe import Recipe, make_recipe

if TYPE_CHECKING:
    import pandas as pd

# What a run with another hash of this name is a run of.
FINGERPRINTS = {
    "data_fingerprint": "on other data",
    "test_fingerprint": "with another test set",
    "classes_fingerprint": "with other class names",
    "clean_fingerprint": "with other clean labels",
}


class Run:
    """The folder of a run and what lies in it.

    `recipe.json` settings, versions and fingerprints of the data; `metrics.jsonl` a line per
    evaluation; `examples.parquet` a row per training example; `model.safetensors` the weights;
    `history.safetensors` snapshots of the confidences, where asked for; `checkpoint.safetensors` while
    the run goes on.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def start(self, recipe: Recipe, fingerprints: dict[str, str]) -> None:
        """Make the folder for a recipe, or check that it already is that recipe's on the same data."""
        settings = dataclasses.asdict(recipe)
        # Through JSON, which knows lists and no tuples.
        settings = json.loads(json.dumps(settings))
        path = self.folder / "recipe.json"
        if not path.exists():
            if self.folder.is_dir() and not all(is_leftover(file) for file in self.folder.iterdir()):
                raise InputError(f"{self.folder} is not empty and holds no run; give another folder")
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"{self.folder}: cannot be a folder for a run: {error.strerror}") from None
            content = {"settings": settings, **fingerprints, "versions": versions()}
            write_text(path, json.dumps(content, indent=2) + "\n")
            return
        there = self._recipe()
        # A setting that a run did not have yet was what the default is.
        old = {**dataclasses.asdict(Recipe()), **there["settings"]}
        for name, value in settings.items():
            if name == "device" and self.finished:
                continue  # nothing is left to be trained, here or there
            if old[name] != value:
                raise InputError(
                    f"{self.folder} holds a run with {name}={old[name]!r}, not {value!r}; give another folder"
                )
        for name, value in fingerprints.items():
            # A hash that a run did not have yet says nothing against it.
            if there.get(name, value) != value:
                raise InputError(f"{self.folder} holds a run {FINGERPRINTS[name]}; give another folder")

    @property
    def finished(self) -> bool:
        """Whether the run came to its end, at which its table of examples is written."""
        return (self.folder / "examples.parquet").exists()

    def recipe(self) -> Recipe:
        """The settings that the run was made with."""
        return make_recipe(self._recipe()["settings"], where=f"{self.folder / 'recipe.json'}: ")

    def metrics(self) -> list[dict[str, Any]]:
        """One row per evaluation, oldest first."""
        path = self.folder / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def write_metrics(self, rows: list[dict[str, Any]]) -> None:
        """Replace the metrics by these rows."""
        write_text(self.folder / "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))

    def examples(self) -> pd.DataFrame:
        """The table of training examples, in the order of the data set."""
        import pandas as pd

        path = self.folder / "examples.parquet"
        if not path.exists():
            raise MissingFileError(f"{path}: no such file; the run has not finished")
        return pd.read_parquet(path)

    def write_examples(self, table: pd.DataFrame) -> None:
        """Write the table of training examples, which ends the run."""
        path = self.folder / "examples.parquet"
        with replacing(path) as part:
            table.to_parquet(part, index=False)

    def model(self) -> nn.Module:
        """The trained network, on the CPU, ready to predict; the first K of its outputs are the classes."""
        path = self.folder / "model.safetensors"
        if not path.exists():
            raise MissingFileError(f"{path}: no such file; the run has not finished")
        tensors, header = read_safetensors(path)
        recipe = self.recipe()
        model = network(
            recipe.model, json.loads(header["shape"]), int(header["outputs"]), **recipe.model_settings
        )
        model.load_state_dict(tensors)
        return model.eval()

    def write_model(self, model: nn.Module, shape: tuple[int, ...], outputs: int) -> None:
        """Write the weights of the network, and the sizes that it takes to make it again."""
        header = {"shape": json.dumps(shape), "outputs": str(outputs)}
        write_safetensors(self.folder / "model.safetensors", dict(model.state_dict()), header)

    def history(self) -> tuple[Tensor, Tensor]:
        """Iterations (snapshots,) and confidences (snapshots, examples) recorded during training."""
        path = self.folder / "history.safetensors"
        if not path.exists():
            raise MissingFileError(f"{path}: no such file; train with snapshots=20 to record confidences")
        tensors, _ = read_safetensors(path)
        return tensors["iteration"], tensors["confidence"].float()

    def write_history(self, iteration: Tensor, confidence: Tensor) -> None:
        """Write the snapshots, in half precision: they are for pictures."""
        tensors = {"iteration": iteration, "confidence": confidence.half()}
        write_safetensors(self.folder / "history.safetensors", tensors, {})

    def _recipe(self) -> dict[str, Any]:
        path = self.folder / "recipe.json"
        try:
            content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise MissingFileError(f"{path}: no such file; {self.folder} is not a run") from None
        except (OSError, ValueError) as error:
            raise FileError(f"{path}: not readable: {error}") from None
        if not isinstance(content, dict) or not {"settings", "data_fingerprint"} <= set(content):
            raise FileError(f"{path}: not the recipe of a run")
        return content


def versions() -> dict[str, str]:
    """What the numbers of a run may depend on besides its recipe."""
    found = {"icelens": __version__, "torch": torch.__version__, "python": platform.python_version()}
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
    return {**found, "machine": platform.machine(), "threads": str(torch.get_num_threads())}


def write_text(path: Path, text: str) -> None:
    """Write a text file."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")
