"""ICE on CUDA in two kernels, one forward and one backward, where eager PyTorch launches forty.

A launch costs the host several microseconds, and against the few milliseconds of a small model's training
step forty of them show. What is computed is what `transforms` and `Confidence` compute one operation at a
time; the tests hold the one to the other.
"""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from icelens import ranks
from icelens.confidence import Confidence
from icelens.transforms import TRANSFORMS

LARGEST_BATCH = 65536  # one block settles the batch, which for more rows would take it too long
LARGEST_BLOCK = 4096


def usable(logits: Tensor, labels: Tensor, v: Tensor, step_size: float | Tensor) -> bool:
    """Whether the kernels can take the place of the plain operations.

    Not where a compiler fuses those by itself, where ranks must exchange their steps first, where float64
    asks for more digits than the kernels have, and where sums in any order are forbidden.
    """
    return (
        logits.is_cuda
        and logits.device == v.device == labels.device
        and logits.device.index == torch.cuda.current_device()  # where Triton launches, whatever it is handed
        and logits.dtype != torch.float64
        and 0 < len(logits) <= LARGEST_BATCH
        and (not isinstance(step_size, Tensor) or _is_one_float(step_size, logits.device))
        and not torch.compiler.is_compiling()
        and not torch.are_deterministic_algorithms_enabled()
        and ranks.count() == 1
        and _works()
    )


def loss(
    logits: Tensor,
    labels: Tensor,
    index: Tensor,
    table: Confidence,
    *,
    transform: str,
    step_size: float | Tensor | None,
    ignore_index: int,
    mean: bool,
) -> Tensor:
    """−log q_y of each row, (batch,), or their mean; differentiable in the logits.

    Args:
        logits: (batch, classes), of at most 32 bits.
        labels: (batch,), int64. Rows with `ignore_index` count for nothing; a label that is no class
            gives NaN.
        index: (batch,), rows of the table; one that is none is led to a row that is, which does not move,
            and is remembered in the table's extremes.
        table: the confidences, on the device of the logits.
        transform: "linear" or "power".
        step_size: how far a visit moves a confidence logit; None leaves the table as it is.
        ignore_index: the label that counts for nothing.
        mean: whether to take the mean over the rows that count.
    """
    index = index.to(logits.device, torch.int64, non_blocking=True).contiguous()
    logits = logits if logits.stride(1) == 1 else logits.contiguous()
    settings = (transform, step_size, ignore_index, mean)
    value: Tensor = _Loss.apply(logits, labels.contiguous(), index, table, *settings)  # type: ignore[no-untyped-call]
    return value


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, labels: Tensor, index: Tensor, table: Confidence, *settings: Any
    ) -> Tensor:
        ctx.transform, step_size, ctx.ignore_index, ctx.mean = settings
        batch, classes = logits.shape
        found = torch.empty(6 * batch + 1, dtype=torch.float32, device=logits.device)
        mean = torch.empty((), dtype=torch.float32, device=logits.device)
        step = 0.0 if step_size is None else step_size if isinstance(step_size, Tensor) else float(step_size)
        _launch(
            "forward", (batch, 1, 1),
            (logits, labels, index, table.v, table.lowest_index, table.highest_index, table.arrived,
             found, mean, step),
            (batch, classes, logits.stride(0), table.examples, math.log(classes), ctx.ignore_index),
            (ctx.transform == "power", step_size is not None, isinstance(step, Tensor), _block(classes)),
        )  # fmt: skip
        ctx.save_for_backward(logits, labels, found)
        # A copy, since users scale a loss in place, and the buffer is kept for backward().
        return mean if ctx.mean else found[:batch].clone()

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        logits, labels, found = ctx.saved_tensors
        (grad,) = upstream
        batch, classes = logits.shape
        if torch.is_grad_enabled():
            return _differentiable(logits, labels, found[4 * batch : 5 * batch], grad, ctx), *[None] * 7
        out, block = logits.new_empty(batch, classes), _block(classes)
        _launch(
            "gradient", (batch, -(-classes // block), 1),
            (logits, labels, found, grad.contiguous(), out),
            (batch, classes, logits.stride(0)),
            (ctx.transform == "power", ctx.mean, block),
        )  # fmt: skip
        return out, *[None] * 7


def _differentiable(logits: Tensor, labels: Tensor, v: Tensor, grad: Tensor, ctx: Any) -> Tensor:
    """The gradient by plain operations, for those who want to differentiate it again."""
    kept = labels != ctx.ignore_index
    log_q_y, _ = TRANSFORMS[ctx.transform].at(logits, labels * kept, v)
    losses = -log_q_y * kept
    value = losses.sum() / kept.sum() if ctx.mean else losses
    (first,) = torch.autograd.grad(value, logits, grad, create_graph=True)
    return first


class _Launcher:
    """Launches a kernel; a second launch of the same kind skips Triton's own look at each argument.

    That look takes longer than the launch. It asks what the code may depend on: types, whether a number is
    1 or a multiple of 16, whether a pointer is. All of that is in the key.
    """

    def __init__(self) -> None:
        self.direct = True
        self.ready: dict[tuple[Any, ...], Callable[..., Any]] = {}

    def __call__(
        self,
        name: str,
        grid: tuple[int, int, int],
        tensors: tuple[Any, ...],
        numbers: tuple[Any, ...],
        flags: tuple[Any, ...],
    ) -> None:
        first, second, third, fourth = tensors[:4]  # the others are made here, and aligned
        aligned = (first.data_ptr() | second.data_ptr() | third.data_ptr() | fourth.data_ptr()) % 16
        key = (name, grid, numbers, flags, first.dtype, first.device.index, aligned)
        launch = self.ready.get(key)
        if launch is not None:
            launch(*tensors, *numbers, *flags)
            return
        compiled = getattr(_kernels(), name)[grid](*tensors, *numbers, *flags)
        # Only code that assumes nothing of a pointer suits all that are not aligned.
        if self.direct and compiled is not None and not aligned:
            self.ready[key] = compiled[grid]


_launch = _Launcher()


def _block(classes: int) -> int:
    """Classes in one block: a power of two, as the kernels need."""
    return min(LARGEST_BLOCK, max(16, 1 << (classes - 1).bit_length()))


def _is_one_float(step_size: Tensor, device: torch.device) -> bool:
    return step_size.numel() == 1 and step_size.dtype == torch.float32 and step_size.device == device


def _works() -> bool:
    """Whether the kernels can be used; while a user records a graph, only if that is known already."""
    if not _build.cache_info().currsize and torch.cuda.is_current_stream_capturing():
        return False
    return _build()


@lru_cache(maxsize=1)
def _build() -> bool:
    """Whether Triton is there and can build: at the first launch it needs a C compiler."""
    if importlib.util.find_spec("triton") is None:
        return False
    try:
        _try_once()
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        warnings.warn(f"icelens runs without its CUDA kernels, a little slower: {reason}", stacklevel=2)
        return False
    return True


def _try_once() -> None:
    """Run the kernels, then once more to see that the direct launch of this Triton does the same."""
    slow = _probe()
    try:
        _launch.direct = torch.equal(_probe(), slow)
    except Exception:
        _launch.direct = False
    if not _launch.direct:
        _launch.ready.clear()


def _probe() -> Tensor:
    """A loss, its gradient and a confidence after it."""
    # The first call may be one of a validation, without gradients.
    with torch.inference_mode(False), torch.enable_grad():
        logits = torch.tensor([[2.0, 0.0]], device="cuda", requires_grad=True)
        row, table = torch.zeros(1, dtype=torch.int64, device="cuda"), Confidence(1, device="cuda")
        settings = {"transform": "linear", "step_size": 1.0, "ignore_index": -100, "mean": True}
        value = loss(logits, row, row, table, **settings)  # type: ignore[arg-type]
        (gradient,) = torch.autograd.grad(value, logits)
        return torch.cat([value.detach().reshape(1), gradient.reshape(-1), table.v])


@lru_cache(maxsize=1)
def _kernels() -> ModuleType:
    from icelens import fused_kernel

    return fused_kernel
