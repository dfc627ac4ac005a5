"""Training steps as CUDA graphs: recorded once, then started by one call; the GPU never waits for Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

EAGER = 3  # batches of a size that run before the step is recorded


class CapturedStep:
    """A step on the rows of a batch as a CUDA graph, one for each size of batch.

    The first batches of a size run as they are, which lets libraries choose their algorithms and take their
    memory; then the step is recorded. Recording runs nothing, so that every batch still counts once.

    Args:
        step: what to do with the rows of a batch. It must read and write the same tensors each time and
            may not wait for the device.
        generator: what the step draws from, besides torch's own; on the device.
        pool: the memory of the graphs, to share it with others that run one after the other.
    """

    def __init__(
        self,
        step: Callable[[Tensor], None],
        generator: torch.Generator | None = None,
        *,
        pool: Any = None,
    ) -> None:
        self.step, self.generator = step, generator
        self.seen: Counter[int] = Counter()
        self.recorded: dict[int, tuple[torch.cuda.CUDAGraph, Tensor]] = {}
        self.pool = pool or torch.cuda.graph_pool_handle()

    def __call__(self, rows: Tensor) -> None:
        """Run the step on these rows, which lie on the device."""
        size = len(rows)
        if size not in self.recorded:
            self.seen[size] += 1
            if self.seen[size] <= EAGER:
                # A copy, aligned as the recording's buffer: no kernel may have to be built for that one.
                self.step(rows.clone())
                return
            self.recorded[size] = self._record(rows)
        graph, buffer = self.recorded[size]
        buffer.copy_(rows)
        graph.replay()

    def _record(self, rows: Tensor) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        graph, buffer = torch.cuda.CUDAGraph(), rows.clone()
        if self.generator is not None:
            graph.register_generator_state(self.generator)
        with torch.cuda.graph(graph, pool=self.pool, stream=torch.cuda.current_stream()):
            self.step(buffer)
        return graph, buffer


def in_place(device: torch.device, old: float | Tensor, value: float) -> Tensor:
    """The value in the tensor that a recorded step reads it from, which is made where there is none."""
    if isinstance(old, Tensor) and old.device == device:
        return old.fill_(value)
    return torch.tensor(value, dtype=torch.float32, device=device)


@contextmanager
def side_stream(device: torch.device) -> Iterator[None]:
    """A stream of its own for all that happens inside: a graph cannot be recorded on the default one."""
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream(device))
    try:
        with torch.cuda.device(device), torch.cuda.stream(stream):
            yield
    finally:
        # Also where an error ends the run: memory that is free again may still be written to by queued steps.
        torch.cuda.current_stream(device).wait_stream(stream)
