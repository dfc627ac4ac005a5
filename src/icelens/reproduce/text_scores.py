"""The measures that GLUE asks for, per task."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor


def matthews(labels: Tensor, guess: Tensor) -> float:
    """Matthews' correlation coefficient; 0 where one class is all that is guessed."""
    from sklearn.metrics import matthews_corrcoef

    return float(matthews_corrcoef(labels.numpy(), guess.numpy()))


def f1(labels: Tensor, guess: Tensor) -> float:
    """F1 of class 1; 0 where it is never guessed."""
    from sklearn.metrics import f1_score

    return float(f1_score(labels.numpy(), guess.numpy(), zero_division=0))


def accuracy(labels: Tensor, guess: Tensor) -> float:
    """The share of the rows where the guess is the label."""
    return float((labels == guess).double().mean())


_MEASURES: dict[str, tuple[Callable[[Tensor, Tensor], float], ...]] = {
    "cola": (matthews,),
    "mrpc": (f1, accuracy),
    "qqp": (f1, accuracy),
}


def scores(data: str, labels: Tensor, guess: Tensor) -> dict[str, float]:
    """The measures of a task by name, as shares of 1: Matthews on CoLA, F1 and accuracy on MRPC and QQP.

    >>> import torch
    >>> scores("sst2", torch.tensor([0, 1, 1, 1]), torch.tensor([0, 1, 1, 0]))
    {'accuracy': 0.75}
    """
    return {measure.__name__: measure(labels, guess) for measure in _MEASURES.get(data, (accuracy,))}
