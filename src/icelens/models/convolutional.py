"""The paper's network for MNIST, Fashion-MNIST and Kuzushiji-MNIST."""

from __future__ import annotations

from itertools import pairwise

from torch import nn

from icelens.models.classifier import Classifier, dropout_rate, image_shape


def cnn(
    shape: tuple[int, ...], outputs: int, *, dropout: float = 0.5, logit_norm: bool = False
) -> Classifier:
    """Four 3x3 convolutions of 32, 32, 64 and 64 channels, a max-pool and two linear layers.

    The convolutions have no padding, so 28 x 28 pixels become 10 x 10 before the first linear layer.

    Args:
        shape: (channels, height, width) of one image, at least 10 x 10 pixels.
        outputs: how many logits.
        dropout: rate between the linear layers.
        logit_norm: see `Classifier`.
    """
    channels, height, width = image_shape(shape, smallest=10)
    layers: list[nn.Module] = []
    for inputs, filters in pairwise([channels, 32, 32, 64, 64]):
        layers += [nn.Conv2d(inputs, filters, 3), nn.ReLU()]
    # Each of the four convolutions takes 2 pixels off, and the pool halves what is left.
    pixels = ((height - 8) // 2) * ((width - 8) // 2)
    layers += [nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * pixels, 128)]
    layers += [nn.Dropout(dropout_rate(dropout)), nn.ReLU()]
    return Classifier(nn.Sequential(*layers), 128, outputs, logit_norm=logit_norm)
