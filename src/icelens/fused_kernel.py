"""The kernels of `icelens.fused`, in Triton, which comes with PyTorch's CUDA builds and only with them.

Both transformations have the same shape: the prediction enters as a softmax of s·z, with s = 1 for the linear
one and s = C for the power, and the gradient is d loss / d z = f·(softmax(s·z) − y), with f = r or f = C.

`found` is a buffer of six rows of `batch` floats, and one more: the losses; f; the largest logit; the log of
Σ exp(s·(z − that)); v; the derivative in v; and 1 over the number of rows that count.
"""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def log1p_exp_minus(x):
    """log(1 + e^−|x|)."""
    return tl.log(1.0 + tl.exp(-tl.abs(x)))


@triton.jit
def log_sigmoid(x):
    """log(1 / (1 + e^−x)) without overflow."""
    return tl.minimum(x, 0.0) - log1p_exp_minus(x)


@triton.jit
def normalise(logits, scale, classes, BLOCK: tl.constexpr):
    """Over one row, a block of classes at a time: max z, log Σ exp(s·(z − max z)), and Σ q·(z − max z)."""
    top, total, weighted = float("-inf"), 0.0, 0.0
    for start in range(0, classes, BLOCK):
        at = start + tl.arange(0, BLOCK)
        z = tl.load(logits + at, mask=at < classes, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(z, 0))
        # Classes that are all ruled out so far have no largest logit to subtract: −inf − (−inf) is NaN.
        pivot = tl.where(higher == float("-inf"), 0.0, higher)
        ruled_out = z == float("-inf")
        below = tl.where(ruled_out, 0.0, z - pivot)
        mass = tl.where(ruled_out, 0.0, tl.exp(scale * below))
        fall = tl.where(top == float("-inf"), 0.0, top - pivot)
        shrink = tl.exp(scale * fall)
        weighted = (weighted + total * fall) * shrink + tl.sum(mass * below, 0)
        total = total * shrink + tl.sum(mass, 0)
        top = higher
    return top, tl.log(total), weighted / total


@triton.jit
def forward(  # noqa: PLR0913, PLR0917
    logits, labels, index, table, lowest, highest, arrived, found, mean, step_size,
    batch, classes, stride, examples, log_k, ignore_index,
    POWER: tl.constexpr, UPDATE: tl.constexpr, STEP_IS_TENSOR: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One row of the batch; the last row to arrive also settles what concerns them all."""
    i = tl.program_id(0).to(tl.int64)
    label = tl.load(labels + i)
    kept = label != ignore_index
    wanted = tl.load(index + i)
    row = tl.minimum(tl.maximum(wanted, 0), examples - 1)
    # A label that is no class has no logit to read, and a loss of NaN.
    is_class = (label >= 0) & (label < classes)
    z_y = tl.load(logits + i * stride + label, mask=is_class, other=float("nan")).to(tl.float32)
    v = tl.load(table + row)
    confidence = tl.sigmoid(v)

    if POWER:
        top, log_total, mean_z = normalise(logits + i * stride, confidence, classes, BLOCK)
        loss = log_total - confidence * (z_y - top)
        factor = confidence
        slope = confidence * tl.sigmoid(-v) * (z_y - top - mean_z)
    else:
        top, log_total, _ = normalise(logits + i * stride, 1.0, classes, BLOCK)
        believed = log_sigmoid(v) + (z_y - top) - log_total
        guessed = log_sigmoid(-v) - log_k
        loss = -tl.maximum(believed, guessed) - log1p_exp_minus(believed - guessed)
        factor = tl.sigmoid(believed - guessed)
        slope = factor - confidence
    # No comparison holds for NaN.
    moves = kept & (row == wanted) & (tl.abs(slope) < float("inf"))
    tl.store(found + i, tl.where(kept, loss, 0.0))
    tl.store(found + batch + i, tl.where(kept, factor, 0.0))
    tl.store(found + 2 * batch + i, top)
    tl.store(found + 3 * batch + i, log_total)
    tl.store(found + 4 * batch + i, v)
    tl.store(found + 5 * batch + i, tl.where(moves, slope, 0.0))

    tl.debug_barrier()
    if tl.atomic_add(arrived, 1, sem="acq_rel") == batch - 1:
        settle(
            labels, index, table, lowest, highest, found, mean, step_size, batch, examples, ignore_index,
            UPDATE, STEP_IS_TENSOR,
        )  # fmt: skip
        tl.store(arrived, 0)


@triton.jit
def settle(  # noqa: PLR0913, PLR0917
    labels, index, table, lowest, highest, found, mean, step_size, batch, examples, ignore_index,
    UPDATE: tl.constexpr, STEP_IS_TENSOR: tl.constexpr,
):  # fmt: skip
    """After all rows are read: add the steps to the table, note the extremes of index, take the mean."""
    BLOCK: tl.constexpr = 1024
    size = tl.load(step_size) if STEP_IS_TENSOR else step_size
    total, count, low, high = 0.0, 0, tl.zeros((), tl.int64), tl.zeros((), tl.int64)
    for start in range(0, batch, BLOCK):
        at = start + tl.arange(0, BLOCK)
        there = at < batch
        kept = there & (tl.load(labels + at, mask=there, other=0) != ignore_index)
        wanted = tl.where(kept, tl.load(index + at, mask=there, other=0), 0)
        low, high = tl.minimum(low, tl.min(wanted, 0)), tl.maximum(high, tl.max(wanted, 0))
        total += tl.sum(tl.load(found + at, mask=there, other=0.0), 0)
        count += tl.sum(kept.to(tl.int32), 0)
        if UPDATE:
            row = tl.minimum(tl.maximum(wanted, 0), examples - 1)
            step = size * tl.load(found + 5 * batch + at, mask=there, other=0.0)
            tl.atomic_add(table + row, step, mask=kept & (tl.abs(step) < float("inf")))
    tl.atomic_min(lowest, low)
    tl.atomic_max(highest, high)
    # Without a row that counts, the mean is 0/0, as torch's is.
    tl.store(mean, total / count)
    tl.store(found + 6 * batch, 1.0 / count)


@triton.jit
def gradient(  # noqa: PLR0913, PLR0917
    logits, labels, found, upstream, out, batch, classes, stride,
    POWER: tl.constexpr, MEAN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """d loss / d z = upstream · f · (softmax(s·z) − y), a block of classes of one row."""
    i = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < classes
    f = tl.load(found + batch + i)
    scale = f if POWER else 1.0
    factor = f * (tl.load(upstream) * tl.load(found + 6 * batch) if MEAN else tl.load(upstream + i))
    z = tl.load(logits + i * stride + at, mask=inside, other=0.0).to(tl.float32)
    top, log_total = tl.load(found + 2 * batch + i), tl.load(found + 3 * batch + i)
    # Of a class that is ruled out, s·(−inf) is −inf, save for s = 0, where it would be NaN.
    p = tl.where(z == float("-inf"), 0.0, tl.exp(scale * (z - top) - log_total))
    given = (at == tl.load(labels + i)).to(tl.float32)
    # An ignored row has no gradient, whatever its logits hold.
    value = tl.where(f == 0.0, 0.0, factor * (p - given))
    tl.store(out + i * classes + at, value.to(out.dtype.element_ty), mask=inside)
