"""BatchNorm over the batch of all ranks, as one process would have it."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm

from icelens import ranks


def share_statistics(model: nn.Module) -> None:
    """Let every BatchNorm inside the model take mean and variance over all ranks; weights stay the same."""
    for name, child in model.named_children():
        if isinstance(child, _BatchNorm):
            setattr(model, name, SharedBatchNorm.of(child))
        else:
            share_statistics(child)


class SharedBatchNorm(_BatchNorm):
    """BatchNorm of any dimension whose statistics in training are those of all ranks' rows together.

    `torch.nn.SyncBatchNorm` runs on GPUs alone, and in mixed precision it does not take a rank without rows.
    """

    @classmethod
    def of(cls, norm: _BatchNorm) -> SharedBatchNorm:
        """The same layer, with its weights and its running statistics."""
        shared = cls(norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats)
        shared.weight, shared.bias = norm.weight, norm.bias
        shared.running_mean, shared.running_var = norm.running_mean, norm.running_var
        shared.num_batches_tracked = norm.num_batches_tracked
        return shared.train(norm.training)

    def _check_input_dim(self, input: Tensor) -> None:
        pass

    def forward(self, input: Tensor) -> Tensor:
        """The normalised rows of this rank."""
        if not self.training:
            return super().forward(input)
        y, mean, var = _Normalise.apply(input, self.weight, self.bias, self.eps)  # type: ignore[no-untyped-call]
        self._remember(mean, var)
        normalised: Tensor = y
        return normalised

    def _remember(self, mean: Tensor, var: Tensor) -> None:
        if self.num_batches_tracked is None or self.running_mean is None or self.running_var is None:
            return
        self.num_batches_tracked.add_(1)
        share = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean), share)
        self.running_var.lerp_(var.to(self.running_var), share)


class _Normalise(torch.autograd.Function):
    """(x − mean) / sqrt(var + eps) · weight + bias, and the mean and unbiased variance over all ranks."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        rows, mean, spread = _statistics(x)
        invstd = torch.rsqrt(spread / rows + eps)
        ctx.save_for_backward(x, weight, mean, invstd, rows)
        scale = invstd if weight is None else invstd * weight
        y = (x - _along(mean, x)) * _along(scale, x)
        if bias is not None:
            y = y + _along(bias, x)
        var = spread / (rows - 1).clamp(min=1)  # of one value there is no variance, but also no NaN
        ctx.mark_non_differentiable(mean, var)
        return y.to(x.dtype), mean, var

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        x, weight, mean, invstd, rows = ctx.saved_tensors
        hat = (x - _along(mean, x)) * _along(invstd, x)
        own = torch.stack([_sum(grad.to(hat.dtype)), _sum(grad * hat)])
        total = own.clone()
        dist.all_reduce(total)
        total = (total / rows).to(hat.dtype)
        scale = invstd if weight is None else invstd * weight
        down = (grad - _along(total[0], x) - hat * _along(total[1], x)) * _along(scale, x)
        grads = (None, None) if weight is None else (own[1].to(weight.dtype), own[0].to(weight.dtype))
        return down.to(x.dtype), *grads, None


def _statistics(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, mean and sum of squared deviations over all ranks, from each rank's own (Chan et al., 1983)."""
    channels, dtype = x.shape[1], torch.promote_types(x.dtype, torch.float32)
    mine = torch.zeros(2 * channels + 1, dtype=torch.float64, device=x.device)
    if x.numel():
        rows = x.numel() // channels
        var, mean = torch.var_mean(x.to(dtype), _others(x), correction=0)
        mine.copy_(torch.cat([mean, var * rows, var.new_full((1,), rows)]))
    everyone = mine.new_empty(ranks.count(), len(mine))
    ranks.gather_into(everyone, mine[None])
    means, spreads, rows_of = everyone[:, :channels], everyone[:, channels:-1], everyone[:, -1:]
    total = rows_of.sum()
    mean = (means * rows_of).sum(0) / total
    spread = (spreads + rows_of * (means - mean) ** 2).sum(0)
    return total.to(dtype), mean.to(dtype), spread.to(dtype)


def _others(x: Tensor) -> list[int]:
    return [0, *range(2, x.ndim)]


def _sum(x: Tensor) -> Tensor:
    return x.sum(_others(x))


def _along(values: Tensor, x: Tensor) -> Tensor:
    """(channels,) in the shape that goes with x."""
    return values.reshape(1, -1, *[1] * (x.ndim - 2))
