"""FlightRecorder: per-example dynamics of any training loop, to Parquet, in bounded memory."""

from __future__ import annotations

import operator
import os
import warnings
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from icelens.confidence import Confidence
from icelens.dynamics.buffer import Buffer
from icelens.dynamics.folder import open_folder
from icelens.dynamics.writer import Writer
from icelens.errors import IndexRangeError, InputError, TrainingError, check_count
from icelens.losses.reduction import check_batch

ROWS = 1 << 20


class FlightRecorder:
    """Records what a network says of each training example at each visit: loss, margin, guess, confidence.

    One call of `log` in any training loop, with any loss. Rows are kept where the logits are and written as
    Parquet by a thread whenever a buffer is full, so a step on CUDA waits for nothing, and memory does not
    grow with the length of the run. `icelens.read_dynamics(folder)` and `icelens dynamics FOLDER` make data
    maps, AUM and a ridgeline of it.

    Several ranks record into one folder, each its own rows and files. `flush` writes all there is and returns
    the step to go on from; kept with a checkpoint and handed back as `resume_at`, it makes a run that was
    killed record each step once.

    Epochs are numbered from 0 by the examples: a step that brings back an example begins the next. Say it by
    `epoch` where a sampler draws with replacement, or where ranks share out the examples anew.

    Args:
        folder: where the files go; new or empty, unless `resume_at` is given.
        examples: the number of training examples, len(train_set).
        resume_at: the step to go on from in a folder that holds a recording. Its rows from that step on
            are removed; 0 starts anew.
        buffer: rows that are kept before they are written, 40 bytes each, twice.
        ignore_index: rows with this label are not recorded; their `index` may be anything.

    >>> import tempfile
    >>> from icelens import read_dynamics
    >>> logits, labels = torch.tensor([[4.0, 0.0], [4.0, 1.0]]), torch.tensor([0, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with FlightRecorder(folder, examples=2) as recorder:
    ...         for _ in range(3):
    ...             recorder.log(logits, labels, index=torch.tensor([0, 1]))
    ...     read_dynamics(folder).suspects(1)[["index", "label", "guess", "visits", "aum"]]
       index  label  guess  visits  aum
    1      1      1      0       3 -3.0
    """

    def __init__(
        self,
        folder: str | Path,
        examples: int,
        *,
        resume_at: int | None = None,
        buffer: int = ROWS,
        ignore_index: int = -100,
    ) -> None:
        self.folder, self.ignore_index = Path(folder), operator.index(ignore_index)
        self.examples = _count("examples", examples, 1)
        self.rows = _count("buffer", buffer, 1)
        self.step = 0 if resume_at is None else _count("resume_at", resume_at, 0)
        rank, ranks = _place()
        epochs = open_folder(self.folder, self.examples, resume_at=resume_at, rank=rank, ranks=ranks)
        self._writer = Writer(self.folder, rank, ranks, epochs, ignore_index=self.ignore_index)
        self._epoch: int | None = None
        self._buffer: Buffer | None = None
        self._spare: Buffer | None = None
        self._closed = False

    def log(
        self,
        logits: Tensor,
        labels: Tensor,
        index: Tensor,
        *,
        loss: Tensor | None = None,
        confidence: Tensor | nn.Module | None = None,
    ) -> None:
        """Record one batch. Call it once per batch, after the forward pass, outside of what is compiled.

        Args:
            logits: (batch, classes), before softmax; at least two classes.
            labels: (batch,), the given labels.
            index: (batch,), the rows of the data set.
            loss: (batch,), any loss with reduction="none". None: cross entropy.
            confidence: (batch,), values in [0, 1]; or the `ICELoss` of the loop, whose C of these rows is
                read as its call has left it. None: not recorded.
        """
        if self._closed:
            raise TrainingError("the recorder is closed; log() belongs inside its with block")
        labels = check_batch(logits, labels, index=index, ignore_index=self.ignore_index)
        index = self._checked(logits, labels, index, loss)
        confidence = self._confidence(confidence, logits, index)
        rows, devices = len(labels), (logits.device, index.device)
        if self._buffer is None or not self._buffer.takes(rows, *devices):
            self._next_buffer(rows, devices)
        assert self._buffer is not None
        self._buffer.add(logits, labels, index, epoch=self._epoch, loss=loss, confidence=confidence)
        self.step += 1

    def epoch(self, number: int | None = None) -> None:
        """Begin an epoch: the one of this number, or the next. From then on only calls of this begin one."""
        if number is not None:
            self._epoch = _count("epoch", number, 0)
            return
        if self._epoch is None:
            self.flush()  # the epochs so far are counted where they are written
            self._epoch = self._writer.epochs.current
        self._epoch += 1

    def flush(self) -> int:
        """Write all that was recorded, and return the step to go on from: `resume_at` of a later recorder."""
        if not self._closed:
            self._hand_over()
            self._writer.wait()
        return self.step

    def close(self) -> None:
        """Write what is left. A `with` block does it, also where training failed."""
        if self._closed:
            return
        self._closed = True
        try:
            self._hand_over()
        finally:
            self._writer.close()
            self._buffer = self._spare = None

    def __enter__(self) -> FlightRecorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        try:
            self.close()
        except Exception as failed:
            if error is None:
                raise
            # What stopped the training is what the user has to see.
            error.add_note(f"The recorder in {self.folder} could not write its last rows: {failed}")

    def __del__(self) -> None:
        buffer = getattr(self, "_buffer", None)  # there is none where __init__ failed
        if buffer is not None and buffer.count:
            warnings.warn(
                f"the recorder in {self.folder} was not closed: {buffer.count:,} rows are lost", stacklevel=2
            )

    def _next_buffer(self, rows: int, devices: tuple[torch.device, torch.device]) -> None:
        """Hand the buffer to the writer and take the other one, which is written by then."""
        if _place()[0] != self._writer.rank:
            raise TrainingError("the recorder was made before init_process_group; make it after")
        self._hand_over()
        if self._buffer is None or not self._buffer.takes(rows, *devices):
            self._buffer = Buffer(max(self.rows, rows), *devices)
        self._buffer.clear(self.step)

    def _hand_over(self) -> None:
        if self._buffer is not None and self._buffer.steps:
            self._writer.write(self._buffer)
            self._buffer, self._spare = self._spare, self._buffer
            if self._buffer is not None:
                self._buffer.clear(self.step)

    def _checked(self, logits: Tensor, labels: Tensor, index: Tensor, loss: Tensor | None) -> Tensor:
        """The index as int64, if the batch can be recorded."""
        if index is None:
            raise InputError("log() needs the index of each example, its row of the training set")
        index = index.to(torch.int64)  # a narrower type may not hold the number of examples
        if logits.shape[1] < 2:
            raise InputError(
                "logits have one column; where z is the logit of a sigmoid, hand in "
                "torch.stack([torch.zeros_like(z), z], 1)"
            )
        if loss is not None:
            _check_column("loss", loss, len(labels), 'use reduction="none", or leave it out')
        if index.device.type == "cpu" and len(index):
            self._check_index(index, labels)
        if logits.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            raise TrainingError("log() inside of a CUDA graph would write to the same rows again")
        return index

    def _check_index(self, index: Tensor, labels: Tensor) -> None:
        """Raise at once for a wrong index. On CUDA that would cost a wait: there the writer does it."""
        low, high = index.aminmax()
        if int(low) >= 0 and int(high) < self.examples:
            return
        kept = labels.to(index.device) != self.ignore_index
        wrong = index[kept & ((index < 0) | (index >= self.examples))]
        if len(wrong):
            raise IndexRangeError(
                f"index {int(wrong[0])} is not a row of the data set, which has {self.examples:,} rows "
                f"(0–{self.examples - 1}); index must be the example's position in the training set"
            )

    def _confidence(self, given: Any, logits: Tensor, index: Tensor) -> Tensor | None:
        if given is None:
            return None
        table = getattr(given, "table", given)
        if not isinstance(table, Confidence):
            _check_column("confidence", given, len(logits), "or hand in the ICELoss itself")
            return given  # type: ignore[no-any-return]
        if table.examples != self.examples:
            raise InputError(f"the recorder has {self.examples:,} examples, but the loss {table.examples:,}")
        rows = index.to(table.v.device, non_blocking=table.v.device.type != "cpu")
        # Rows that are ignored may have any index; a wrong one of others is told elsewhere.
        rows = rows.clamp(0, self.examples - 1)
        # A loss may make its confidences of more than the table.
        confidences = given if hasattr(given, "confidence_of") else table
        return confidences.confidence_of(rows)


def _place() -> tuple[int, int]:
    """The rank of this process and how many there are, as torch.distributed or torchrun says."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def _count(name: str, value: Any, least: int) -> int:
    count = check_count(name, value, least)
    if count >= 2**31:
        raise InputError(f"{name} must be below 2^31, got {value!r}")
    return count


def _check_column(name: str, values: Any, rows: int, remedy: str) -> None:
    if not isinstance(values, Tensor):
        raise InputError(f"{name} must be a tensor, got {type(values).__name__}")
    if values.shape != (rows,) or not values.dtype.is_floating_point:
        kind = f"{values.dtype} of shape {tuple(values.shape)}"
        raise InputError(f"{name} must hold a float for each of {rows} examples, got {kind}; {remedy}")
