"""The processes that run together under torch.distributed, and what they hand each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from icelens.errors import InputError

__all__ = ["alone"]  # for users; the rest is for icelens itself

T = TypeVar("T")

_state = {"alone": False}


def count() -> int:
    """How many ranks there are; 1 where torch.distributed does not run, and inside `alone()`."""
    if _state["alone"] or not (dist.is_available() and dist.is_initialized()):
        return 1
    return dist.get_world_size()


@contextmanager
def alone() -> Iterator[None]:
    """Inside, this process works by itself: no table of confidences is exchanged with other ranks."""
    before, _state["alone"] = _state["alone"], True
    try:
        yield
    finally:
        _state["alone"] = before


def carrier(device: torch.device, other: torch.device) -> torch.device:
    """The device, if the group can send from it, else the other one: NCCL alone sends nothing from a CPU."""
    return device if f"{device.type}:" in dist.get_backend_config() else other


@dataclass(frozen=True)
class Ranks:
    """This process among those that run together: the one of number `rank` of `count`.

    All methods but `part` are collective: every rank calls them, in the same order. With one process they
    do nothing.
    """

    rank: int = 0
    count: int = 1

    @classmethod
    def here(cls) -> Ranks:
        """As torch.distributed knows them."""
        return cls(dist.get_rank(), count()) if count() > 1 else cls()

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that writes files."""
        return self.rank == 0

    def part(self, size: int) -> slice:
        """This rank's part of so many rows; parts differ by at most one row, and may be empty.

        >>> [Ranks(rank, 3).part(4) for rank in range(3)]
        [slice(0, 1, None), slice(1, 2, None), slice(2, 4, None)]
        """
        return slice(size * self.rank // self.count, size * (self.rank + 1) // self.count)

    def of_first(self, make: Callable[[], T]) -> T:
        """What the first rank makes, on every rank; the others do not call `make`."""
        return self.told(make() if self.is_first else None, 0)  # type: ignore[return-value]

    def told(self, value: T, source: int) -> T:
        """The value that the rank `source` has; it may be anything small."""
        if self.count == 1:
            return value
        box = [value if self.rank == source else None]
        dist.broadcast_object_list(box, source)
        return box[0]  # type: ignore[return-value]

    def tensors(self, tensors: dict[str, Tensor], source: int = 0) -> dict[str, Tensor]:
        """The tensors of the rank `source`, on the CPU; those of the others are not looked at."""
        if self.count == 1:
            return tensors
        shapes = self.told({name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()}, source)
        found = {}
        for name, (shape, dtype) in shapes.items():
            mine = self.rank == source
            tensor = tensors[name].detach().cpu().contiguous() if mine else torch.empty(shape, dtype=dtype)
            found[name] = _broadcast(tensor, source)
        return found

    def joined(self, part: Tensor, size: int) -> Tensor:
        """The parts of all ranks one after the other, `size` rows in all; the inverse of `part`."""
        if self.count == 1 or not size:
            return part
        longest = -(-size // self.count)
        padded = part.new_zeros(longest, *part.shape[1:])
        padded[: len(part)] = part
        everyone = part.new_empty(self.count * longest, *part.shape[1:])
        gather_into(everyone, padded)
        parts = [Ranks(rank, self.count).part(size) for rank in range(self.count)]
        rows = everyone.view(self.count, longest, *part.shape[1:])
        return torch.cat([rows[rank, : one.stop - one.start] for rank, one in enumerate(parts)])

    def mean(self, value: Tensor) -> Tensor:
        """The mean over ranks."""
        if self.count == 1:
            return value
        total = value.clone()
        dist.all_reduce(total)
        return total / self.count

    def agree(self, what: str, value: Any) -> None:
        """Raise, on every rank, where the value is not the same on all of them."""
        if self.count == 1:
            return
        said: list[Any] = [None] * self.count
        dist.all_gather_object(said, value)
        for rank, other in enumerate(said):
            if other != said[0]:
                raise InputError(
                    f"{what} of process {rank} are not those of process 0; start all with the same"
                )

    def wait(self) -> None:
        """Until all ranks are here."""
        if self.count > 1:
            dist.all_gather_object([None] * self.count, None)


ALONE = Ranks()


def dealt_out(
    jobs: list[T], make: Callable[[T], dict[str, Tensor]], ranks: Ranks
) -> Iterator[tuple[T, dict[str, Tensor]]]:
    """Do the jobs, one a rank at a time; yields, on all ranks, each job and what came of it."""
    for start in range(0, len(jobs), ranks.count):
        together = jobs[start : start + ranks.count]
        with alone():
            made = make(together[ranks.rank]) if ranks.rank < len(together) else {}
        for owner, job in enumerate(together):
            yield job, ranks.tensors(made if owner == ranks.rank else {}, owner)


def gather_into(everyone: Tensor, mine: Tensor) -> None:
    """All ranks' tensors, one after the other, into one."""
    # The name since torch 2.13, where the older one warns.
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    gather(everyone, mine)


def _broadcast(tensor: Tensor, source: int) -> Tensor:
    """The tensor of that rank, byte by byte: not every backend knows every dtype."""
    if tensor.numel():
        sent = tensor.reshape(-1).view(torch.uint8)
        place = carrier(sent.device, torch.device("cuda"))
        sent = sent.to(place)
        dist.broadcast(sent, source)
        tensor.reshape(-1).view(torch.uint8).copy_(sent)
    return tensor
