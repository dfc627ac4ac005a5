"""ICE with the linear transformation on CUDA, in three kernels where eager PyTorch launches forty.

A launch costs the host several microseconds, and against the few milliseconds of a small model's training
step forty of them show. What is computed is what `transforms.linear_at` and `Confidence` compute one
operation at a time; the tests hold the one to the other.
"""

from __future__ import annotations

import importlib.util
import math
import warnings
from functools import lru_cache
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from icelens.confidence import Confidence

LARGEST_BATCH = 65536  # one block settles the batch, which for more rows would take it too long
LARGEST_BLOCK = 4096


def usable(logits: Tensor, v: Tensor, step_size: float | Tensor) -> bool:
    """Whether the kernels can take the place of the plain operations.

    Not where a compiler fuses those by itself, where ranks must exchange their steps first, where float64
    asks for more digits than the kernels have, and where sums in any order are forbidden.
    """
    return (
        logits.is_cuda
        and logits.device == v.device
        and logits.device.index == torch.cuda.current_device()  # where Triton launches, whatever it is handed
        and logits.dtype != torch.float64
        and 0 < len(logits) <= LARGEST_BATCH
        and not isinstance(step_size, Tensor)
        and not torch.compiler.is_compiling()
        and not torch.are_deterministic_algorithms_enabled()
        and not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1)
        and _works()
    )


def linear_loss(
    logits: Tensor,
    labels: Tensor,
    index: Tensor,
    table: Confidence,
    *,
    step_size: float | None,
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
        step_size: how far a visit moves a confidence logit; None leaves the table as it is.
        ignore_index: the label that counts for nothing.
        mean: whether to take the mean over the rows that count.
    """
    index = index.to(logits.device, torch.int64, non_blocking=True).contiguous()
    logits = logits if logits.stride(1) == 1 else logits.contiguous()
    settings = (step_size, ignore_index, mean)
    loss: Tensor = _LinearLoss.apply(logits, labels.contiguous(), index, table, *settings)  # type: ignore[no-untyped-call]
    return loss


class _LinearLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, labels: Tensor, index: Tensor, table: Confidence, *settings: Any
    ) -> Tensor:
        step_size, ignore_index, ctx.mean = settings
        batch, classes = logits.shape
        kernels, log_k = _kernels(), math.log(classes)
        losses, found, mean, share = (
            torch.empty(shape, dtype=torch.float32, device=logits.device)
            for shape in ((batch,), (4, batch), (), ())
        )
        kernels.believe[(batch,)](
            logits, labels, index, table.v, losses, found,
            batch, classes, logits.stride(0), table.examples, log_k, ignore_index, BLOCK=_block(classes),
        )  # fmt: skip
        kernels.settle[(1,)](
            labels, index, table.v, table.lowest_index, table.highest_index, losses, found, mean, share,
            batch, table.examples, float(step_size or 0), ignore_index,
            UPDATE=step_size is not None, BLOCK=1024,
        )  # fmt: skip
        ctx.save_for_backward(logits, labels, found, share)
        ctx.ignore_index = ignore_index
        return mean if ctx.mean else losses

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        logits, labels, found, share = ctx.saved_tensors
        (grad,) = upstream
        if torch.is_grad_enabled():
            return _differentiable(logits, labels, found[2], grad, ctx), *[None] * 6
        batch, classes = logits.shape
        out, block = logits.new_empty(batch, classes), _block(classes)
        _kernels().gradient[(batch, -(-classes // block))](
            logits, labels, found, share, grad.contiguous(), out,
            batch, classes, logits.stride(0), MEAN=ctx.mean, BLOCK=block,
        )  # fmt: skip
        return out, *[None] * 6


def _differentiable(logits: Tensor, labels: Tensor, v: Tensor, grad: Tensor, ctx: Any) -> Tensor:
    """The gradient by plain operations, for those who want to differentiate it again."""
    nll = F.cross_entropy(logits.float(), labels, ignore_index=ctx.ignore_index, reduction="none")
    kept = labels != ctx.ignore_index
    a = v - nll + math.log(logits.shape[1])
    losses = (F.softplus(v) - F.softplus(a)) * kept
    loss = losses.sum() / kept.sum() if ctx.mean else losses
    (first,) = torch.autograd.grad(loss, logits, grad, create_graph=True)
    return first


def _block(classes: int) -> int:
    """Classes in one block: a power of two, as the kernels need."""
    return min(LARGEST_BLOCK, max(16, 1 << (classes - 1).bit_length()))


@lru_cache(maxsize=1)
def _works() -> bool:
    """Whether Triton is there and can build: at the first launch it needs a C compiler."""
    if importlib.util.find_spec("triton") is None:
        return False
    try:
        # The first call may be one of a validation, without gradients.
        with torch.inference_mode(False), torch.enable_grad():
            logits, row = (
                torch.zeros(1, 2, device="cuda", requires_grad=True),
                torch.zeros(1, dtype=torch.int64),
            )
            settings = {"step_size": 1.0, "ignore_index": -100, "mean": True}
            loss = linear_loss(logits, row.cuda(), row, Confidence(1, device="cuda"), **settings)  # type: ignore[arg-type]
            loss.backward()  # type: ignore[no-untyped-call]
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        warnings.warn(f"icelens runs without its CUDA kernels, a little slower: {reason}", stacklevel=2)
        return False
    return True


@lru_cache(maxsize=1)
def _kernels() -> ModuleType:
    from icelens import fused_kernel

    return fused_kernel
