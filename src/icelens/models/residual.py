"""ResNet-18 for small images in two forms: the textbook's, and the one the paper's authors ran."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import cast

from torch import Tensor, nn

from icelens.models.classifier import Classifier, image_shape

STAGES = (64, 128, 256, 512)


def resnet18(
    shape: tuple[int, ...], outputs: int, *, logit_norm: bool = False, feature_norm: bool = False
) -> Classifier:
    """Pre-activation ResNet-18 (He et al., 2016) for images of about 32 x 32 pixels.

    A 3x3 stem without max-pool, four stages of two blocks, BatchNorm and ReLU before every further
    convolution and before the global average pool.

    Args:
        shape: (channels, height, width) of one image.
        outputs: how many logits.
        logit_norm: see `Classifier`.
        feature_norm: likewise.
    """
    channels, _, _ = image_shape(shape, smallest=1)
    last = STAGES[-1]
    pool = [nn.BatchNorm2d(last), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    features = nn.Sequential(*_trunk(channels, PreActivationBlock), *pool)
    return Classifier(features, last, outputs, logit_norm=logit_norm, feature_norm=feature_norm)


def resnet18_paper(
    shape: tuple[int, ...], outputs: int, *, logit_norm: bool = False, feature_norm: bool = False
) -> Classifier:
    """ResNet-18 as the paper's authors ran it: see `RawInputBlock` for what differs.

    Its last average pool has a window of 4 and no BatchNorm before it, so 32 x 32 pixels leave one
    value per channel and larger images several, all of which enter the linear layer.

    Args:
        shape: (channels, height, width) of one image, at least 25 x 25 pixels.
        outputs: how many logits.
        logit_norm: see `Classifier`.
        feature_norm: likewise.
    """
    channels, height, width = image_shape(shape, smallest=25)
    # Three stages halve the image, rounding up; the pool of 4 rounds down.
    values = STAGES[-1] * (-(-height // 8) // 4) * (-(-width // 8) // 4)
    features = nn.Sequential(*_trunk(channels, RawInputBlock), nn.AvgPool2d(4), nn.Flatten())
    return Classifier(features, values, outputs, logit_norm=logit_norm, feature_norm=feature_norm)


class PreActivationBlock(nn.Module):
    """x + conv(relu(bn(conv(relu(bn(x)))))); a projection shortcut takes relu(bn(x)) too."""

    def __init__(self, inputs: int, filters: int, stride: int) -> None:
        super().__init__()
        self.activation = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU())
        self.branch = _branch(inputs, filters, stride)
        self.projection = _projection(inputs, filters, stride)

    def forward(self, x: Tensor) -> Tensor:
        """The sum of shortcut and branch."""
        active = self.activation(x)
        shortcut = x if self.projection is None else self.projection(active)
        return cast(Tensor, self.branch(active) + shortcut)


class RawInputBlock(nn.Module):
    """x + conv(relu(bn(conv(x)))): the branch starts from the block's raw input.

    Where the shape changes, the shortcut alone takes relu(bn(x)). It looks like a slip in a
    pre-activation block, but the paper's numbers were made with it.
    """

    def __init__(self, inputs: int, filters: int, stride: int) -> None:
        super().__init__()
        self.branch = _branch(inputs, filters, stride)
        self.projection = _projection(inputs, filters, stride)
        if self.projection is not None:
            self.activation = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        """The sum of shortcut and branch."""
        shortcut = x if self.projection is None else self.projection(self.activation(x))
        return cast(Tensor, self.branch(x) + shortcut)


def _trunk(channels: int, block: Callable[[int, int, int], nn.Module]) -> list[nn.Module]:
    layers: list[nn.Module] = [_conv(channels, STAGES[0])]
    for inputs, filters in pairwise([STAGES[0], *STAGES]):
        # Every stage but the first halves the image.
        stride = 1 if inputs == filters else 2
        layers += [block(inputs, filters, stride), block(filters, filters, 1)]
    return layers


def _branch(inputs: int, filters: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        _conv(inputs, filters, stride), nn.BatchNorm2d(filters), nn.ReLU(), _conv(filters, filters)
    )


def _projection(inputs: int, filters: int, stride: int) -> nn.Conv2d | None:
    if stride == 1 and inputs == filters:
        return None
    return nn.Conv2d(inputs, filters, 1, stride, bias=False)


def _conv(inputs: int, filters: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, filters, 3, stride, padding=1, bias=False)
