"""The kernel of `icelens.fused`, in Triton, which comes with PyTorch's CUDA builds and only with them."""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def softplus(x):
    """log(1 + e^x) without overflow."""
    return tl.maximum(x, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(x)))


@triton.jit
def linear_kernel(  # noqa: PLR0913, PLR0917
    negative_log_p, labels, index,
    table, lowest, highest,
    losses, r, v, step, rows,
    batch, examples, log_k, ignore_index, BLOCK: tl.constexpr,
):  # fmt: skip
    """A block of rows: read v, find −log q_y, its derivative and the step, note the extremes of index."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = at < batch
    kept = there & (tl.load(labels + at, mask=there, other=0) != ignore_index)
    wanted = tl.where(kept, tl.load(index + at, mask=there, other=0), 0)
    row = tl.minimum(tl.maximum(wanted, 0), examples - 1)
    tl.atomic_min(lowest, tl.min(wanted, 0))
    tl.atomic_max(highest, tl.max(wanted, 0))

    logit = tl.load(table + row, mask=there, other=0.0)
    believed = logit - tl.load(negative_log_p + at, mask=there, other=0.0) + log_k
    posterior = tl.sigmoid(believed)
    slope = posterior - tl.sigmoid(logit)
    # A slope lies in [−1, 1] unless it is NaN, which no comparison holds for.
    moves = kept & (row == wanted) & (tl.abs(slope) <= 1.0)

    tl.store(losses + at, tl.where(kept, softplus(logit) + log_k - softplus(believed), 0.0), mask=there)
    tl.store(r + at, tl.where(kept, posterior, 0.0), mask=there)
    tl.store(v + at, logit, mask=there)
    tl.store(step + at, tl.where(moves, slope, 0.0), mask=there)
    tl.store(rows + at, row, mask=there)
