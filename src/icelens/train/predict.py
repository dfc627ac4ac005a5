"""Predictions of a whole data set, a large batch at a time, without its augmentation."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from icelens.data import OnDevice
from icelens.losses import Method


@torch.no_grad()
def log_probabilities(
    model: nn.Module, data: OnDevice, method: Method, classes: int, *, rows: Tensor | None = None
) -> Tensor:
    """log p for the rows, or for all of them: (rows, classes), float32, on the device."""
    was_training = model.training
    model.eval()
    rows = torch.arange(len(data)) if rows is None else rows
    parts = [
        method.predict(model(data.plain(part)), classes).float().log_softmax(-1)
        for part in torch.split(rows, 2000)
    ]
    model.train(was_training)
    return torch.cat(parts) if parts else torch.empty(0, classes, device=data.labels.device)


def accuracy(log_p: Tensor, labels: Tensor) -> float:
    """The share of the rows whose most probable class is the label."""
    return float((log_p.argmax(-1) == labels.to(log_p.device)).double().mean())
