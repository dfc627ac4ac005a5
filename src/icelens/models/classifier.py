"""What all image and vector models share: features, one linear layer, and the checks of their settings."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from icelens.errors import InputError


class Classifier(nn.Module):
    """Features, then the linear layer `head`; if asked for, a BatchNorm on what enters or leaves that layer.

    The authors' code adds that BatchNorm after its optimizer was built, so its scale and shift never
    move from 1 and 0. `affine=False` is the same without two parameters that look as if they trained.

    Args:
        features: maps `(batch, *shape)` to `(batch, width)`.
        width: how many features there are.
        outputs: how many logits.
        logit_norm: normalise each logit over the batch, which holds the logits' size down. Training
            then needs at least two examples in every batch.
        feature_norm: normalise each feature instead, for a loss whose outputs must keep their start or
            their share: it too holds the size of what comes from below down.
    """

    def __init__(
        self,
        features: nn.Module,
        width: int,
        outputs: int,
        *,
        logit_norm: bool = False,
        feature_norm: bool = False,
    ) -> None:
        super().__init__()
        if outputs < 1:
            raise InputError(f"a model needs at least 1 output, got {outputs}")
        if feature_norm:
            features = nn.Sequential(features, nn.BatchNorm1d(width, affine=False))
        self.features = features
        self.head = nn.Linear(width, outputs)
        self.norm = nn.BatchNorm1d(outputs, affine=False) if logit_norm else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Logits, (batch, outputs)."""
        return cast(Tensor, self.norm(self.head(self.features(x))))


def image_shape(shape: tuple[int, ...], *, smallest: int) -> tuple[int, int, int]:
    """Channels, height and width, or an error that says why this is no image the model can take."""
    if len(shape) != 3:
        raise InputError(f"images must have shape (channels, height, width), got {shape}")
    channels, height, width = shape
    if channels < 1 or min(height, width) < smallest:
        raise InputError(
            f"images must have a channel and at least {smallest} x {smallest} pixels for this model, "
            f"got {channels} x {height} x {width} (channels x height x width)"
        )
    return channels, height, width


def dropout_rate(dropout: float) -> float:
    """The rate itself if it is one."""
    if not 0 <= dropout < 1:
        raise InputError(f"dropout must lie in [0, 1), got {dropout}")
    return dropout
