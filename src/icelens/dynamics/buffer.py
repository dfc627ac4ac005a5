"""The rows of the steps since the last part, kept where the network computes.

On CUDA nothing here waits for the device: each step writes behind the one before it, and the rows come to the
host together, when a part is written.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]

STAGED_BYTES = 1 << 22  # of logits that wait in a buffer


class Step(NamedTuple):
    """What the host knows of a step."""

    rows: int
    classes: int
    epoch: int | None  # None: to be told by the examples
    has_loss: bool
    has_confidence: bool


class Buffer:
    """Room for so many rows, 40 bytes each, and for some MiB of logits.

    What can be derived later is not computed in the step, where each operation is a launch: margin, guess,
    cross entropy and probability follow from two log-probabilities and the class of the second. These too
    wait: a step only copies its logits, and `settle` reduces those of many steps at once.

    Args:
        capacity: rows.
        device: of the logits.
        index_device: of the index, which people often leave on the CPU.
    """

    def __init__(self, capacity: int, device: torch.device, index_device: torch.device) -> None:
        def room(dtype: torch.dtype, *columns: int, on: torch.device = device) -> Tensor:
            return torch.empty((capacity, *columns), dtype=dtype, device=on)

        # Tensors made under inference_mode, say by a validation before training, could not be updated.
        with torch.inference_mode(False):
            self.log_p = room(torch.float32, 1)  # of the given label
            self.rival_log_p = room(torch.float32)  # the highest of the other classes
            self.rivals = room(torch.int64)  # which class that is
            self.labels = room(torch.int64)
            self.index = room(torch.int64, on=index_device)
            self.losses = room(torch.float32)
            self.confidence = room(torch.float32)
        self.staged: Tensor | None = None  # the logits of the rows from `settled` on
        self.capacity, self.first = capacity, 0
        self.clear(0)

    def clear(self, first: int) -> None:
        """Forget all rows; the next step has this number."""
        self.first, self.count, self.settled = first, 0, 0
        self.steps: list[Step] = []

    def takes(self, rows: int, device: torch.device, index_device: torch.device) -> bool:
        """Whether a batch of so many rows, which lies there, still fits."""
        same = self.labels.device == device and self.index.device == index_device
        return same and self.count + rows <= self.capacity

    @torch.no_grad()
    def add(
        self,
        logits: Tensor,
        labels: Tensor,
        index: Tensor,
        *,
        epoch: int | None,
        loss: Tensor | None,
        confidence: Tensor | None,
    ) -> None:
        """Add the rows of one step; all tensors are (batch,) but the logits."""
        rows, classes = logits.shape
        here = slice(self.count, self.count + rows)
        for column, values in (
            (self.labels, labels), (self.index, index), (self.losses, loss), (self.confidence, confidence)
        ):  # fmt: skip
            if values is not None:
                # To a CPU, a copy that does not block can be read before it has arrived.
                column[here].copy_(values, non_blocking=column.device.type != "cpu")
        self._stage(logits)
        self.count += rows
        self.steps.append(Step(rows, classes, epoch, loss is not None, confidence is not None))

    def _stage(self, logits: Tensor) -> None:
        """Copy the logits behind those that wait, or reduce them at once if two such batches have no room."""
        rows, staged = len(logits), self._room_for(logits)
        at_once = 2 * rows > len(staged)
        if at_once or self.count - self.settled + rows > len(staged):
            self.settle()
        if at_once:
            self._settle(logits)
        else:
            start = self.count - self.settled
            staged[start : start + rows].copy_(logits)

    def _room_for(self, logits: Tensor) -> Tensor:
        """Where logits of this width and type wait."""
        classes, staged = logits.shape[1], self.staged
        if staged is None or staged.shape[1] != classes or staged.dtype != logits.dtype:
            self.settle()
            rows = min(self.capacity, STAGED_BYTES // (classes * logits.element_size()))
            with torch.inference_mode(False):
                staged = torch.empty((rows, classes), dtype=logits.dtype, device=logits.device)
            self.staged = staged
        return staged

    def settle(self) -> None:
        """Reduce the logits that wait; on CUDA this, too, only launches."""
        if self.staged is not None and self.settled < self.count:
            self._settle(self.staged[: self.count - self.settled])

    def _settle(self, logits: Tensor) -> None:
        """Reduce the logits of the first rows that are not settled, whose labels are here."""
        here = slice(self.settled, self.settled + len(logits))
        wide = torch.float64 if logits.dtype == torch.float64 else torch.float32
        log_p = F.log_softmax(logits, -1, dtype=wide).to(torch.float32)
        # A label that is no class would end the process on CUDA; here it waits to be told when it is written.
        own = self.labels[here].clamp(0, logits.shape[1] - 1)[:, None]
        torch.gather(log_p, 1, own, out=self.log_p[here])
        torch.max(log_p.scatter_(1, own, -math.inf), 1, out=(self.rival_log_p[here], self.rivals[here]))
        self.settled += len(logits)

    def on_host(self) -> dict[str, Array]:
        """All rows as arrays; waits for a copy from the device, and on a CPU copies nothing."""
        columns = {
            "log_p": self.log_p[:, 0], "rival_log_p": self.rival_log_p, "rival": self.rivals,
            "label": self.labels, "index": self.index, "loss": self.losses, "confidence": self.confidence,
        }  # fmt: skip
        return {name: column[: self.count].cpu().numpy() for name, column in columns.items()}


def derived(buffer: Buffer, host: dict[str, Array]) -> dict[str, Array]:
    """The columns of a part that follow from what the steps kept; `epoch` is left to others."""
    counts = [step.rows for step in buffer.steps]

    def of_steps(values: list[Any]) -> Array:
        return np.repeat(np.array(values), counts)

    log_p, label, rival = host["log_p"], host["label"], host["rival"]
    margin = log_p - host["rival_log_p"]
    # As argmax: of classes that are equally high, the first.
    guess = np.where((margin > 0) | ((log_p == host["rival_log_p"]) & (label < rival)), label, rival)
    has_loss = of_steps([step.has_loss for step in buffer.steps])
    has_confidence = of_steps([step.has_confidence for step in buffer.steps])
    return {
        "step": of_steps(list(range(buffer.first, buffer.first + len(counts)))),
        "index": host["index"],
        "label": label,
        "guess": guess,
        "correct": guess == label,
        "loss": np.where(has_loss, host["loss"], -log_p),
        "margin": margin,
        "p_label": np.exp(log_p),
        "confidence": np.where(has_confidence, host["confidence"], np.float32(np.nan)),
    }
