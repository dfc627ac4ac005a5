"""Examples and Split: a data set in memory, as every reader returns it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from icelens.errors import FileError, IndexRangeError, InputError

if TYPE_CHECKING:
    from torch import Tensor

Texts: TypeAlias = list[tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class Examples:
    """Inputs with their labels and the names of the classes; row i here is row i of the file.

    Other labels go in by `dataclasses.replace(examples, labels=noisy)`, which checks them again.

    Args:
        inputs: (N, ...), uint8 images as N × channels × height × width or float features;
            for text a list of N tuples of one or two strings.
        labels: (N,), int64, the given classes.
        classes: the name of class 0, 1, ...

    >>> import torch
    >>> pets = Examples(torch.zeros(2, 3), torch.tensor([1, 0]), ("cat", "dog"))
    >>> len(pets), pets[0]
    (2, (tensor([0., 0., 0.]), 1))
    """

    inputs: Tensor | Texts
    labels: Tensor
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        import torch

        from icelens.matrices import check_classes

        if self.labels.dtype != torch.int64 or self.labels.dim() != 1:
            raise InputError(
                f"labels must be int64 of shape (N,), got {self.labels.dtype} {tuple(self.labels.shape)}"
            )
        if len(self.inputs) != len(self.labels):
            raise InputError(f"{len(self.inputs)} inputs but {len(self.labels)} labels")
        check_classes(self.labels, len(self.classes))
        if len(set(self.classes)) < len(self.classes):
            twice = next(name for code, name in enumerate(self.classes) if name in self.classes[:code])
            raise InputError(f"classes hold the name '{twice}' twice; give each class a name of its own")

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor | tuple[str, ...], int]:
        if not 0 <= index < len(self):
            raise IndexRangeError(f"index {index} is not a row of {len(self)} examples")
        return self.inputs[index], int(self.labels[index])


@dataclass(frozen=True, eq=False)
class Split:
    """What to train on, what to test on and, where there are more, other test sets by name.

    `clean_labels` are the true labels of the training rows, where those given are known to be wrong in part.
    """

    train: Examples
    test: Examples
    extra: Mapping[str, Examples] = field(default_factory=dict)
    clean_labels: Tensor | None = None

    def __post_init__(self) -> None:
        for name, part in {"test": self.test, **self.extra}.items():
            _check_same_classes(name, part.classes, self.train.classes)
        clean = self.clean_labels
        if clean is not None and clean.shape != self.train.labels.shape:
            raise InputError(
                f"clean_labels must be of shape ({len(self.train)},), one for each training row, "
                f"got {tuple(clean.shape)}"
            )


def _check_same_classes(name: str, found: tuple[str, ...], wanted: tuple[str, ...]) -> None:
    """Raise unless a label, which is a number, means the same class in a test set as in training."""
    quoted = ([f"'{one}'" for one in classes] for classes in (found, wanted))
    for code, (here, there) in enumerate(zip_longest(*quoted, fillvalue="missing")):
        if here != there:
            raise InputError(
                f"class {code} is {here} in the {name} set but {there} in the training set; "
                "both need the same classes in the same order"
            )


def from_file(path: Path, inputs: Tensor | Texts, labels: Tensor, classes: tuple[str, ...]) -> Examples:
    """Examples whose errors name the file that they were read from."""
    try:
        return Examples(inputs, labels, classes)
    except InputError as error:
        raise FileError(f"{path}: {error}") from None
