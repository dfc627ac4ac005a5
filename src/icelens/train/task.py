"""What a recipe trains on: the data after noise and split, on its device."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass

import torch
from torch import Tensor

from icelens import noise
from icelens.data import Examples, OnDevice, Split, channel_stats, load
from icelens.data.examples import Texts
from icelens.errors import InputError
from icelens.train.recipe import Recipe


@dataclass(frozen=True, eq=False)
class Task:
    """The data of a run. Rows are rows of the whole training set, whatever is held out.

    `moved` says which given labels are not the clean ones; without `truth_is_known` that is none of them.
    """

    train: OnDevice
    test: OnDevice
    clean_labels: Tensor
    moved: Tensor
    truth_is_known: bool
    train_rows: Tensor
    valid_rows: Tensor
    classes: tuple[str, ...]
    source: Examples

    def fingerprints(self) -> dict[str, str]:
        """Hashes by which a run knows its data again: before noise, and of what it is measured by."""
        clean = [self.clean_labels] if self.truth_is_known else []
        return {
            "data_fingerprint": _hash(self.source.inputs, self.source.labels),
            "test_fingerprint": _hash(self.test.inputs, self.test.labels),
            "classes_fingerprint": _hash([str(name) for name in self.classes]),
            "clean_fingerprint": _hash(*clean),
        }

    @property
    def device(self) -> torch.device:
        """Where inputs and labels lie."""
        return self.train.labels.device


def prepare(recipe: Recipe, split: Split | None = None) -> Task:
    """Load the data of a recipe, or take the split that is handed in; flip labels, hold rows out."""
    if split is None:
        split = load(recipe.data, recipe.root)
    if not len(split.test):
        raise InputError(f"data set '{recipe.data}' has no test examples to measure accuracy on")
    inputs = split.train.inputs
    if not isinstance(inputs, Tensor):
        raise InputError(f"data set '{recipe.data}' is text; the models of a recipe take images or features")
    given, clean = split.train.labels, split.clean_labels
    noisy = noise.add_noise(
        recipe.noise, given, len(split.train.classes), recipe.noise_rate, seed=recipe.seed, features=inputs
    )
    order = torch.randperm(len(given), generator=torch.Generator().manual_seed(recipe.seed))
    held_out = round(recipe.validation * len(given))
    if held_out >= len(given):
        raise InputError(f"validation={recipe.validation} of {len(given)} examples leaves none to train on")
    train, test = _on_device(recipe, dataclasses.replace(split.train, labels=noisy.labels), split.test)
    return Task(
        train=train,
        test=test,
        clean_labels=given if clean is None else clean,
        moved=noisy.moved if clean is None else noisy.labels != clean,
        truth_is_known=clean is not None or recipe.noise_rate > 0,
        train_rows=order[held_out:].sort().values,
        valid_rows=order[:held_out].sort().values,
        classes=split.train.classes,
        source=split.train,
    )


def choose_device(name: str) -> torch.device:
    """The device of that name; "auto" is a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:  # torch's own error names some twenty
        raise InputError(f"unknown device '{name}'; take auto, cpu or cuda (cuda:1 for a second)") from None
    try:
        if device.type == "cuda" and not torch.cuda.is_available():
            raise RuntimeError("torch finds no GPU; take cpu, or auto")
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device '{name}' cannot be used here: {str(error).splitlines()[0]}") from None
    return device


def _hash(*parts: Tensor | Texts | list[str]) -> str:
    """A hash of values, and of the types and shapes of tensors."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, Tensor):
            digest.update(str((part.dtype, tuple(part.shape))).encode())
            # As bytes, since NumPy has no bfloat16.
            digest.update(part.detach().cpu().reshape(-1).view(torch.uint8).numpy().data)
        else:
            digest.update(json.dumps(part).encode())
    return digest.hexdigest()


def _on_device(recipe: Recipe, train: Examples, test: Examples) -> tuple[OnDevice, OnDevice]:
    device = choose_device(recipe.device)
    mean, std = channel_stats(train) if recipe.normalize else (None, None)
    generator = torch.Generator(device).manual_seed(recipe.seed)
    return (
        OnDevice(train, device, augment=recipe.augment, mean=mean, std=std, generator=generator),
        OnDevice(test, device, mean=mean, std=std),
    )
