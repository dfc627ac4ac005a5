"""Buffers become parts in a thread of its own, so that training goes on meanwhile."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from icelens.dynamics.buffer import Buffer, derived
from icelens.dynamics.epochs import Epochs
from icelens.dynamics.parts import COLUMNS, write_part
from icelens.errors import IndexRangeError, InputError

Array = NDArray[Any]


class Writer:
    """Writes one buffer at a time; what goes wrong is raised by the next call.

    Args:
        folder: where the parts go.
        rank: of this process.
        ranks: how many there are.
        epochs: which number the steps of which nobody said the epoch, and know how many examples there are.
        ignore_index: rows with this label are left out.
    """

    def __init__(self, folder: Path, rank: int, ranks: int, epochs: Epochs, *, ignore_index: int) -> None:
        self.folder, self.rank, self.ranks = folder, rank, ranks
        self.epochs, self.ignore_index = epochs, ignore_index
        self._thread = ThreadPoolExecutor(1, "icelens-recorder")
        self._pending: Future[None] | None = None

    def write(self, buffer: Buffer) -> None:
        """Begin to write a buffer, which must not be changed until the next call has returned."""
        self.wait()
        buffer.settle()
        device = buffer.labels.device
        arrived = torch.cuda.current_stream(device).record_event() if device.type == "cuda" else None
        self._pending = self._thread.submit(self._write, buffer, arrived)

    def wait(self) -> None:
        """Wait until all is written; raise what went wrong."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def close(self) -> None:
        """Wait, and end the thread."""
        try:
            self.wait()
        finally:
            self._thread.shutdown()

    def _write(self, buffer: Buffer, arrived: Any) -> None:
        rows = derived(buffer, _host(buffer, arrived))
        kept = rows["label"] != self.ignore_index
        if not kept.all():
            rows = {name: column[kept] for name, column in rows.items()}
        classes = np.repeat([step.classes for step in buffer.steps], [step.rows for step in buffer.steps])
        _check(rows, classes[kept], self.epochs.examples)
        steps = range(buffer.first, buffer.first + len(buffer.steps))
        rows["epoch"] = self._epoch(buffer, rows, steps)
        columns = {name: rows[name].astype(kind, copy=False) for name, kind in COLUMNS.items()}
        write_part(self.folder, self.rank, self.epochs.examples, steps, columns, ranks=self.ranks)

    def _epoch(self, buffer: Buffer, rows: dict[str, Array], steps: range) -> Array:
        """The epoch of each row."""
        bounds = np.searchsorted(rows["step"], np.arange(steps.start, steps.stop + 1))
        epochs = [
            self.epochs.of(rows["index"][start:stop], step.epoch)
            for step, start, stop in zip(buffer.steps, bounds[:-1], bounds[1:], strict=True)
        ]
        return np.repeat(np.array(epochs, dtype=np.int32), np.diff(bounds))


def _host(buffer: Buffer, arrived: Any) -> dict[str, Array]:
    if arrived is None:
        return buffer.on_host()
    # A stream of its own: the copy waits for the rows, and no later step of the network for the copy.
    stream = torch.cuda.Stream(buffer.labels.device)  # type: ignore[no-untyped-call]
    stream.wait_event(arrived)
    with torch.cuda.stream(stream):
        return buffer.on_host()


def _check(rows: dict[str, Array], classes: Array, examples: int) -> None:
    """Raise for what a step could not look at without waiting for the device."""
    index, label, confidence = rows["index"], rows["label"], rows["confidence"]
    wrong = np.flatnonzero((index < 0) | (index >= examples))
    if len(wrong):
        said = f"index {index[wrong[0]]} is not a row of the data set, which has {examples:,} rows"
        raise IndexRangeError(f"{said} (recorded in step {rows['step'][wrong[0]]})")
    wrong = np.flatnonzero((label < 0) | (label >= classes))
    if len(wrong):
        said = f"label {label[wrong[0]]} is not a class of logits with {classes[wrong[0]]} columns"
        raise InputError(f"{said} (index {index[wrong[0]]}, recorded in step {rows['step'][wrong[0]]})")
    wrong = np.flatnonzero((confidence < 0) | (confidence > 1))
    if len(wrong):
        said = f"confidence must lie in [0, 1], got {confidence[wrong[0]]}"
        raise InputError(f"{said} (index {index[wrong[0]]}, recorded in step {rows['step'][wrong[0]]})")
