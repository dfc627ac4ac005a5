"""The linear transformation on CUDA in one kernel, where eager PyTorch would launch two dozen small ones.

Against the training step of a small model, which is some milliseconds, thirty launches show. The kernel does
for a row what `transforms.linear_at` and `Confidence.rows` do, and the tests hold it to them.
"""

from __future__ import annotations

import importlib.util
import math
from functools import lru_cache
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from icelens.confidence import Confidence

BLOCK = 256


class Rows(NamedTuple):
    """What a loss finds for a batch, each (batch,): −log q_y, the rows of the table, their steps, and which
    of them may move, or None where the steps of the others are 0 already.
    """

    losses: Tensor
    rows: Tensor
    step: Tensor
    movable: Tensor | None = None


def usable(logits: Tensor, v: Tensor) -> bool:
    """Whether the kernel can take the place of the plain operations; a compiler fuses those by itself."""
    return (
        logits.is_cuda
        and logits.device == v.device
        and logits.dtype != torch.float64
        and not torch.compiler.is_compiling()
        and _has_triton()
    )


def linear_rows(
    negative_log_p: Tensor,
    labels: Tensor,
    index: Tensor,
    table: Confidence,
    *,
    classes: int,
    ignore_index: int,
) -> Rows:
    """−log q_y of each row, differentiable in −log p_y, and d log q_y / dv, the step of its confidence.

    Args:
        negative_log_p: (batch,), float32, −log p_y.
        labels: (batch,), int64; a row with `ignore_index` has loss and step 0.
        index: (batch,), int64, rows of the table; one that is none is led to a row that is, with step 0,
            and remembered in the table's extremes.
        table: the confidences; not updated here.
        classes: K.
        ignore_index: the label that counts for nothing.
    """
    losses, r, v, step = (torch.empty_like(negative_log_p) for _ in range(4))
    rows = torch.empty_like(index)
    batch, log_k = len(labels), math.log(classes)
    if batch:
        _kernel()[(-(-batch // BLOCK),)](
            negative_log_p.detach(), labels.contiguous(), index.contiguous(),
            table.v, table.lowest_index, table.highest_index,
            losses, r, v, step, rows,
            batch, table.examples, log_k, ignore_index, BLOCK=BLOCK,
        )  # fmt: skip
    losses = _Believed.apply(negative_log_p, losses, r, v, log_k)  # type: ignore[no-untyped-call]
    return Rows(losses, rows, step)


class _Believed(torch.autograd.Function):
    """−log q_y as a function of −log p_y, whose derivative r the kernel has found already."""

    @staticmethod
    def forward(ctx: Any, negative_log_p: Tensor, losses: Tensor, *found: Any) -> Tensor:
        r, v, ctx.log_k = found
        ctx.save_for_backward(negative_log_p, r, v)
        return losses.view_as(losses)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        negative_log_p, r, v = ctx.saved_tensors
        if torch.is_grad_enabled():
            # A second derivative is wanted, so r must depend on the prediction; where ignored it stays 0.
            r = torch.sigmoid(v - negative_log_p + ctx.log_k) * (r != 0)
        return grads[0] * r, None, None, None, None


@lru_cache(maxsize=1)
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


@lru_cache(maxsize=1)
def _kernel() -> Any:
    from icelens.fused_kernel import linear_kernel

    return cast(Any, linear_kernel)
