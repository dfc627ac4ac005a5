"""ICE with the linear transformation on CUDA, in three kernels where eager PyTorch launches forty.

A launch costs the host several microseconds, and against the few milliseconds of a small model's training
step forty of them show. What is computed is what `transforms.linear_at` and `Confidence` compute one
operation at a time; the tests hold the one to the other.
"""

from __future__ import annotations

import importlib.util
import math
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

    Not where a compiler fuses those by itself, where ranks must exchange their steps first, and where
    float64 asks for more digits than the kernels have.
    """
    return (
        logits.is_cuda
        and logits.device == v.device
        and logits.dtype != torch.float64
        and 0 < len(logits) <= LARGEST_BATCH
        and not isinstance(step_size, Tensor)
        and not torch.compiler.is_compiling()
        and not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1)
        and _has_triton()
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
        labels: (batch,), int64. Rows with `ignore_index` count for nothing; a label that is no class gives NaN.
        index: (batch,), rows of the table; one that is none is led to a row that is, which does not move,
            and is remembered in the table's extremes.
        table: the confidences, on the device of the logits.
        step_size: how far a visit moves a confidence logit; None leaves the table as it is.
        ignore_index: the label that counts for nothing.
        mean: whether to take the mean over the rows that count.
    """
    index = index.to(logits.device, torch.int64, non_blocking=True).contiguous()
    settings = (step_size, ignore_index, mean)
    loss: Tensor = _LinearLoss.apply(logits, labels.contiguous(), index, table, *settings)  # type: ignore[no-untyped-call]
    return loss


class _LinearLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, labels: Tensor, index: Tensor, table: Confidence, *settings: Any
    ) -> Tensor:
        step_size, ignore_index, ctx.mean = settings
        logits = logits if logits.stride(1) == 1 else logits.contiguous()
        batch, classes = logits.shape
        kernels, log_k = _kernels(), math.log(classes)
        found, mean = (
            logits.new_empty(5, batch, dtype=torch.float32),
            logits.new_empty(2, dtype=torch.float32),
        )
        kernels.believe[(batch,)](
            logits, labels, index, table.v, found,
            batch, classes, logits.stride(0), table.examples, log_k, ignore_index, BLOCK=_block(classes),
        )  # fmt: skip
        kernels.settle[(1,)](
            labels, index, table.v, table.lowest_index, table.highest_index, found, mean,
            batch, table.examples, float(step_size or 0), ignore_index,
            UPDATE=step_size is not None, BLOCK=1024,
        )  # fmt: skip
        ctx.save_for_backward(logits, labels, found, mean)
        ctx.ignore_index = ignore_index
        return mean[0] if ctx.mean else found[0]

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        logits, labels, found, mean = ctx.saved_tensors
        (grad,) = upstream
        if torch.is_grad_enabled():
            return _differentiable(logits, labels, found[3], grad, ctx), *[None] * 6
        batch, classes = logits.shape
        out, block = logits.new_empty(batch, classes), _block(classes)
        _kernels().gradient[(batch, -(-classes // block))](
            logits, labels, found, mean, grad.contiguous(), out,
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
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


@lru_cache(maxsize=1)
def _kernels() -> ModuleType:
    from icelens import fused_kernel

    return fused_kernel
