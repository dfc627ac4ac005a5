"""The paper's network for MNIST, Fashion-MNIST and Kuzushiji-MNIST."""

from __future__ import annotations

from itertools import pairwise

from torch import nn

from icelens.errors import InputError
from icelens.models.classifier import Classifier, dropout_rate, image_shape


def cnn(
    shape: tuple[int, ...],
    outputs: int,
    *,
    width: int = 32,
    padding: int = 0,
    dropout: float = 0.5,
    logit_norm: bool = False,
) -> Classifier:
    """Four 3x3 convolutions of 32, 32, 64 and 64 channels, a max-pool and two linear layers.

    In the paper's form the convolutions have no padding, so 28 x 28 pixels become 10 x 10 before the
    first linear layer.

    Args:
        shape: (channels, height, width) of one image, at least 10 x 10 pixels, or 2 x 2 with padding.
        outputs: how many logits.
        width: channels of the first two convolutions; the next two have twice as many.
        padding: 0, or 1 to keep the size of small images.
        dropout: rate between the linear layers.
        logit_norm: see `Classifier`.
    """
    if padding not in (0, 1):
        raise InputError(f"padding must be 0 or 1, got {padding}")
    if width < 1:
        raise InputError(f"width must be at least 1, got {width}")
    # Without padding each of the four convolutions takes 2 pixels off.
    lost = 0 if padding else 8
    channels, high, wide = image_shape(shape, smallest=lost + 2)
    layers: list[nn.Module] = []
    for inputs, filters in pairwise([channels, width, width, 2 * width, 2 * width]):
        layers += [nn.Conv2d(inputs, filters, 3, padding=padding), nn.ReLU()]
    pixels = ((high - lost) // 2) * ((wide - lost) // 2)
    layers += [nn.MaxPool2d(2), nn.Flatten(), nn.Linear(2 * width * pixels, 128)]
    layers += [nn.Dropout(dropout_rate(dropout)), nn.ReLU()]
    return Classifier(nn.Sequential(*layers), 128, outputs, logit_norm=logit_norm)
