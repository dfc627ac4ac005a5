"""The kernels of `icelens.fused`, in Triton, which comes with PyTorch's CUDA builds and only with them.

`found` is a buffer of four rows of `batch` floats: the derivative r, log Σ exp z, v, and the step.
"""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def softplus(x):
    """log(1 + e^x) without overflow."""
    return tl.maximum(x, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(x)))


@triton.jit
def log_sum_exp(logits, classes, BLOCK: tl.constexpr):
    """Over one row of logits, a block of classes at a time."""
    top, total = float("-inf"), 0.0
    for start in range(0, classes, BLOCK):
        at = start + tl.arange(0, BLOCK)
        z = tl.load(logits + at, mask=at < classes, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(z, 0))
        # Classes that are all ruled out so far have no largest logit to subtract: −inf − (−inf) is NaN.
        pivot = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp(top - pivot) + tl.sum(tl.exp(z - pivot), 0)
        top = higher
    return top + tl.log(total)


@triton.jit
def believe(  # noqa: PLR0913, PLR0917
    logits, labels, index, table, losses, found,
    batch, classes, stride, examples, log_k, ignore_index, BLOCK: tl.constexpr,
):  # fmt: skip
    """One row of the batch: −log q_y and what its gradient and the step of its confidence need."""
    i = tl.program_id(0).to(tl.int64)
    label = tl.load(labels + i)
    kept = label != ignore_index
    wanted = tl.load(index + i)
    row = tl.minimum(tl.maximum(wanted, 0), examples - 1)
    # A label that is no class has no logit to read, and a loss of NaN.
    is_class = (label >= 0) & (label < classes)
    z_y = tl.load(logits + i * stride + label, mask=is_class, other=float("nan")).to(tl.float32)

    total = log_sum_exp(logits + i * stride, classes, BLOCK)
    v = tl.load(table + row)
    a = v + z_y - total + log_k
    r = tl.sigmoid(a)
    slope = r - tl.sigmoid(v)
    # A slope lies in [−1, 1] unless it is NaN, which no comparison holds for.
    moves = kept & (row == wanted) & (tl.abs(slope) <= 1.0)
    tl.store(losses + i, tl.where(kept, softplus(v) + log_k - softplus(a), 0.0))
    tl.store(found + i, tl.where(kept, r, 0.0))
    tl.store(found + batch + i, total)
    tl.store(found + 2 * batch + i, v)
    tl.store(found + 3 * batch + i, tl.where(moves, slope, 0.0))


@triton.jit
def settle(  # noqa: PLR0913, PLR0917
    labels, index, table, lowest, highest, losses, found, mean, share,
    batch, examples, step_size, ignore_index, UPDATE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """After all rows are read: add the steps to the table, note the extremes of index, take the mean."""
    total, count, low, high = 0.0, 0, tl.zeros((), tl.int64), tl.zeros((), tl.int64)
    for start in range(0, batch, BLOCK):
        at = start + tl.arange(0, BLOCK)
        there = at < batch
        kept = there & (tl.load(labels + at, mask=there, other=0) != ignore_index)
        wanted = tl.where(kept, tl.load(index + at, mask=there, other=0), 0)
        low, high = tl.minimum(low, tl.min(wanted, 0)), tl.maximum(high, tl.max(wanted, 0))
        total += tl.sum(tl.load(losses + at, mask=there, other=0.0), 0)
        count += tl.sum(kept.to(tl.int32), 0)
        if UPDATE:
            row = tl.minimum(tl.maximum(wanted, 0), examples - 1)
            step = step_size * tl.load(found + 3 * batch + at, mask=there, other=0.0)
            tl.atomic_add(table + row, step, mask=kept)
    tl.atomic_min(lowest, low)
    tl.atomic_max(highest, high)
    # Without a row that counts, the mean is 0/0, as torch's is.
    tl.store(mean, total / count)
    tl.store(share, 1.0 / count)


@triton.jit
def gradient(  # noqa: PLR0913, PLR0917
    logits, labels, found, share, upstream, out,
    batch, classes, stride, MEAN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """d loss / d z = upstream · r · (p − y), a block of classes of one row."""
    i = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < classes
    r = tl.load(found + i)
    factor = tl.load(upstream) * tl.load(share) * r if MEAN else tl.load(upstream + i) * r
    z = tl.load(logits + i * stride + at, mask=inside, other=0.0).to(tl.float32)
    p = tl.exp(z - tl.load(found + batch + i))
    given = (at == tl.load(labels + i)).to(tl.float32)
    # An ignored row has no gradient, whatever its logits hold.
    value = tl.where(r == 0.0, 0.0, factor * (p - given))
    tl.store(out + i * classes + at, value.to(out.dtype.element_ty), mask=inside)
