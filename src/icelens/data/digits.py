"""The handwritten digits that scikit-learn ships: 1,797 images of 8 x 8 pixels, always at hand."""

from __future__ import annotations

from icelens.data import names
from icelens.data.examples import Examples, Split


def digits() -> Split:
    """The digits as uint8 images; every fourth of them is for the test.

    >>> split = digits()
    >>> len(split.train), len(split.test), tuple(split.train.inputs.shape)
    (1348, 449, (1348, 1, 8, 8))
    """
    import torch
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    # Sixteen shades of grey become 0 to 255.
    images = torch.tensor(pixels * (255 / 16)).round().to(torch.uint8).view(-1, 1, 8, 8)
    classes = torch.tensor(labels, dtype=torch.int64)
    test = torch.arange(len(images)) % 4 == 3
    return Split(
        Examples(images[~test], classes[~test], names.DIGITS),
        Examples(images[test], classes[test], names.DIGITS),
    )
