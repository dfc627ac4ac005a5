"""The table of one confidence logit per training example: read, update, keep equal across ranks."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from icelens import ranks
from icelens.errors import IndexRangeError, InputError, TrainingError, check_count


class Confidence(nn.Module):
    """One logit v per training example; the confidence is C = sigmoid(v). Four bytes an example, or two.

    The table is state in the way of BatchNorm's running statistics: no optimizer sees it. It is a plain
    tensor and not a buffer, since DDP would broadcast a buffer of this size in every forward pass; it
    moves with `.to()`, is saved in `state_dict()`, and keeps its dtype whatever the module is cast to. One
    table belongs to one CUDA stream at a time.

    Args:
        examples: rows of the table, the length of the data set.
        start: v of every row at the start; 0 is C = 1/2.
        device: where the table lives and stays. None: it follows the logits.
        capacity: with several ranks, the most rows that one rank hands in at a time. None: the
            largest batch of the first step.
        dtype: float32, or float16 for two bytes an example: steps below v/2000 are lost then.
    """

    v: Tensor

    def __init__(
        self,
        examples: int,
        *,
        start: float = 0.0,
        device: torch.device | str | None = None,
        capacity: int | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        if not hasattr(examples, "__index__"):
            kind = type(examples).__name__
            raise InputError(f"examples must be the number of training examples, len(train_set), got {kind}")
        if examples < 1:
            raise InputError(f"a confidence table needs at least one example, got {examples}")
        if dtype not in (torch.float32, torch.float16):
            raise InputError(f"a confidence table is of float32 or float16, not of {dtype}")
        if capacity is not None:
            capacity = check_count("capacity", capacity, least=1)
        self.examples = operator.index(examples)
        self.capacity = capacity
        self.fixed_device = device is not None
        self.v = torch.full((examples,), float(start), dtype=dtype, device=device)
        self.lowest_index = torch.zeros((), dtype=torch.int64, device=device)
        self.highest_index = torch.zeros((), dtype=torch.int64, device=device)
        self.arrived = torch.zeros((), dtype=torch.int32, device=device)  # rows a kernel is through with

    def forward(self) -> Tensor:
        """The confidences C of all examples, (examples,)."""
        self.raise_if_out_of_range()
        return torch.sigmoid(self.v)

    def confidence_of(self, rows: Tensor) -> Tensor:
        """C of these rows, (rows,)."""
        return torch.sigmoid(self.v.index_select(0, rows))

    def follow(self, device: torch.device) -> None:
        """Move to where the logits are, unless a device was asked for."""
        if self.v.device != device:
            self._apply(lambda tensor: tensor.to(device))

    def rows(self, index: Tensor, kept: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The rows to read for `index`, and which of them may move: the kept ones that the table has.

        On a CPU a wrong index raises at once. On CUDA, and while compiling, that would cost a
        synchronisation: the wrong row is led to a row that exists, may not move, and the error is
        raised when the table is next read. Where `kept` is false the index may be anything; None keeps all.
        """
        device = self.v.device
        # To a CPU, a copy that does not block can be read before it has arrived.
        index = index.to(device, torch.int64, non_blocking=device.type != "cpu")
        if kept is not None:
            kept = kept.to(device)
            index = index * kept
        rows = index.clamp(0, self.examples - 1)
        if index.numel():
            low, high = index.aminmax()
            self.lowest_index.clamp_(max=low)
            self.highest_index.clamp_(min=high)
        if device.type == "cpu" and not torch.compiler.is_compiling():
            self.raise_if_out_of_range()
        there = rows == index
        return rows, there if kept is None else kept & there

    def read(self, rows: Tensor, *, once: bool = False) -> Tensor:
        """v of the rows; `once` where an update follows, see `as_read`."""
        return as_read(self.v.index_select(0, rows), once=once)

    def raise_if_out_of_range(self) -> None:
        """Raise for an index out of range, seen in this step or an earlier one; forget it once raised."""
        low, high = int(self.lowest_index), int(self.highest_index)
        if low >= 0 and high < self.examples:
            return
        self.lowest_index.zero_()
        self.highest_index.zero_()
        wrong = low if low < 0 else high
        raise IndexRangeError(
            f"index {wrong} is not a row of the confidence table, which has {self.examples} rows "
            f"(0–{self.examples - 1}); index must be the example's position in the training set"
        )

    def update(self, rows: Tensor, step: Tensor, movable: Tensor) -> None:
        """Add `step` to the rows that may move; repeated rows each count, a step that is not finite is none.

        Where torch.distributed runs, all ranks exchange their rows and steps first, so that each of
        them makes the same update.
        """
        if ranks.count() == 1:
            self.add(rows, step, movable)
            return
        origin, step = step.device, self._possible(step) * movable
        # Rows fit a float64 exactly up to 2^53. Padding is row 0 with a step of 0.
        rows, step = self.of_all_ranks(torch.stack([rows.double(), step.double()], 1), origin).unbind(1)
        rows, step = rows.to(torch.int64), step.to(self.v.dtype)
        if self.v.device.type != "cpu":
            # Sorts by row before it adds, where index_add_ adds in any order, another one on each rank.
            self.v.index_put_((rows,), step, accumulate=True)
        else:
            self.v.index_add_(0, rows, step)

    def add(self, rows: Tensor, step: Tensor, movable: Tensor) -> None:
        """The update of one rank alone, for those who have heard of the others by other means."""
        self.v.index_add_(0, rows, (self._possible(step) * movable).to(self.v.dtype))

    def _possible(self, step: Tensor) -> Tensor:
        """The step as the table can hold it, 0 where it is not finite then."""
        step = step.detach().to(self.v.device, self.v.dtype).float()
        return torch.nan_to_num(step, nan=0.0, posinf=0.0, neginf=0.0)

    def of_all_ranks(self, batch: Tensor, origin: torch.device) -> Tensor:
        """What the ranks have to say of their batches, one after the other, each filled up with zeros.

        Args:
            batch: (rows, columns), this rank's.
            origin: where the logits are, from which the ranks can send if the table's device cannot.
        """
        device = batch.device
        via = device if origin == device else ranks.carrier(device, origin)
        if self.capacity is None:
            largest = torch.tensor(len(batch), device=via)
            dist.all_reduce(largest, dist.ReduceOp.MAX)
            self.capacity = int(largest)
        if len(batch) > self.capacity:
            raise TrainingError(
                f"a batch of {len(batch)} rows is larger than the {self.capacity} that the ranks agreed on "
                f"at the first step; pass capacity={len(batch)} or the largest batch there is"
            )
        padded = batch.new_zeros(self.capacity, batch.shape[1])
        padded[: len(batch)] = batch
        padded = padded.to(via)
        everyone = padded.new_empty(ranks.count() * self.capacity, batch.shape[1])
        ranks.gather_into(everyone, padded)
        return everyone.to(device)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Confidence:
        """Follow a move to another device, but no change of dtype: bfloat16 would swallow small steps."""
        if self.fixed_device:
            return self
        for name in ("v", "lowest_index", "highest_index", "arrived"):
            tensor = getattr(self, name)
            # A tensor made under inference_mode, say by a validation before training, could not be updated.
            with torch.inference_mode(False):
                moved = fn(tensor)
                setattr(self, name, moved if moved.dtype == tensor.dtype else tensor.to(moved.device))
        return self

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        self.raise_if_out_of_range()
        destination[prefix + "v"] = self.v

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        _, strict, missing, unexpected, errors = args
        if strict:
            unexpected += [key for key in state_dict if key.startswith(prefix) and key != prefix + "v"]
        saved = state_dict.get(prefix + "v")
        if saved is None:
            missing += [prefix + "v"] if strict else []
        elif saved.shape != self.v.shape:
            errors.append(
                f"the saved confidence table has {saved.numel()} rows, but the data set has {self.examples}"
            )
        else:
            self.v.copy_(saved)
            for noted in (self.lowest_index, self.highest_index, self.arrived):
                noted.zero_()

    def extra_repr(self) -> str:
        """The number of rows, for `print`."""
        return f"examples={self.examples}"


def as_read(value: Tensor, *, once: bool) -> Tensor:
    """What was read of a state; `once` where the state is moved next, so that nothing reads it again.

    Activation checkpointing around the loss would run it again inside backward() and read a state that the
    first run has already moved, so it is refused. A compiled backward() would read again by itself, where
    that takes less memory than to keep what was read; an operator that it cannot look into stops it.
    """
    if not once:
        return value
    if torch.compiler.is_compiling():
        read: Tensor = torch.ops.icelens.read_once(value)
        return read
    refuse_recomputation()
    return value


def refuse_recomputation() -> None:
    """Raise inside backward(), where only activation checkpointing would run a loss again."""
    if torch._C._current_graph_task_id() != -1:
        raise TrainingError(
            "the loss ran again inside backward(): activation checkpointing must not include the loss; "
            "checkpoint the model alone"
        )


def _read_once(value: Tensor) -> Tensor:
    refuse_recomputation()
    return value.clone()


# As an operator, a compiled graph asks when it runs; a plain `if` would be answered once, while tracing.
torch.library.define("icelens::read_once", "(Tensor value) -> Tensor")
torch.library.impl("icelens::read_once", "CompositeExplicitAutograd", _read_once)
torch.library.register_fake("icelens::read_once", torch.empty_like)
