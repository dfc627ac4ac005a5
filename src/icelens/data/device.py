"""OnDevice: a small data set that lies on the device as a whole, gathered and augmented a batch at a time."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from icelens.data.distort import distorted, uniform
from icelens.data.examples import Examples
from icelens.errors import IndexRangeError, InputError, unknown

AUGMENTS = ("none", "crop_flip")


class OnDevice:
    """Batches `(x, y, index)` of examples that lie on the device, without a DataLoader.

    Images stay uint8 in memory; a batch becomes float32 in [0, 1], or, given `mean` and `std`, is
    normalised per channel. Float features are left as they are.

    Args:
        examples: images (N, channels, height, width) as uint8, or features as float.
        device: where to put them.
        augment: "none", or "crop_flip": a random crop after padding with 4 black pixels on each
            side, and a horizontal flip with probability 1/2, drawn anew for each batch.
        mean: (channels,), of the pixels in [0, 1]; see `channel_stats`.
        std: (channels,), as `mean`.
        generator: what the augmentation draws from, on the CPU or on the device; None is torch's own.

    >>> images = Examples(torch.full((2, 1, 2, 2), 255, dtype=torch.uint8), torch.tensor([0, 1]), ("a", "b"))
    >>> OnDevice(images).batch(torch.tensor([1]))
    (tensor([[[[1., 1.],
              [1., 1.]]]]), tensor([1]), tensor([1]))
    """

    def __init__(
        self,
        examples: Examples,
        device: torch.device | str = "cpu",
        *,
        augment: str = "none",
        mean: Tensor | None = None,
        std: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        inputs = _images_or_features(examples, augment, mean, std)
        self.inputs, self.labels = inputs.to(device), examples.labels.to(device)
        self.augment, self.generator = augment, generator
        self.mean, self.std = (None if s is None else s.to(device)[:, None, None] for s in (mean, std))

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, index: Tensor, part: slice | Tensor = slice(None)) -> tuple[Tensor, Tensor, Tensor]:
        """The rows of an index: inputs as float, labels and the index itself, all on the device.

        Of the index `part` alone is gathered, as ranks share a batch. Augmentation is drawn for all of it,
        so that each row gets what it would get in one process.
        """
        inputs, index = self._gathered(index, part)
        return self._scale(inputs), self.labels[index], index

    def distorted(self, index: Tensor, share: float) -> Tensor:
        """The inputs of an index as `batch` makes them, and about this share of them strongly augmented."""
        inputs = self._gathered(index, slice(None))[0].float() / 255
        chosen = uniform(len(inputs), inputs.device, self.generator)[:, None, None, None] < share
        return self._normalised(torch.where(chosen, distorted(inputs, self.generator), inputs))

    def _gathered(self, index: Tensor, part: slice | Tensor) -> tuple[Tensor, Tensor]:
        """The inputs of a part of an index as they are stored, augmented; and that part."""
        self._check(index)
        index = index.to(self.labels.device)
        drawn = None
        if self.augment == "crop_flip":
            drawn = draw(len(index), index.device, self.generator)
        index = index[part]
        inputs = self.inputs[index]
        if drawn is not None:
            down, right, flip = drawn
            inputs = crop_flip(inputs, down[part], right[part], flip[part])
        return inputs, index

    def plain(self, index: Tensor) -> Tensor:
        """The inputs of an index as float and without augmentation, for evaluation."""
        self._check(index)
        return self._scale(self.inputs[index.to(self.labels.device)])

    def _scale(self, inputs: Tensor) -> Tensor:
        return self._normalised(inputs.float() / 255) if inputs.dtype == torch.uint8 else inputs

    def _normalised(self, images: Tensor) -> Tensor:
        return images if self.mean is None or self.std is None else (images - self.mean) / self.std

    def _check(self, index: Tensor) -> None:
        # On CUDA a look at the values would make the host wait for the device.
        if index.device.type != "cpu" or not len(index):
            return
        low, high = int(index.min()), int(index.max())
        if low < 0 or high >= len(self):
            raise IndexRangeError(f"index holds {low} to {high}, rows are 0 to {len(self) - 1}")


def crop_flip(images: Tensor, down: Tensor, right: Tensor, flip: Tensor, *, padding: int = 4) -> Tensor:
    """Shift each image by its own offset and mirror some of them, the whole batch in one gather.

    Args:
        images: (batch, channels, height, width).
        down: (batch,), the row of the padded image at which the crop starts, 0 to 2 · padding.
        right: (batch,), the column, likewise.
        flip: (batch,), bool, the crops to mirror left to right.
        padding: black pixels added on each side; `padding` itself as offset gives the image back.
    """
    batch, channels, height, width = images.shape
    across = torch.arange(width, device=images.device)
    rows = down[:, None] + torch.arange(height, device=images.device)
    columns = right[:, None] + torch.where(flip[:, None], across.flip(0), across)
    padded = F.pad(images, (padding,) * 4)
    every = torch.arange(batch, device=images.device)[:, None, None, None]
    channel = torch.arange(channels, device=images.device)[None, :, None, None]
    return padded[every, channel, rows[:, None, :, None], columns[:, None, None, :]]


def draw(
    count: int, device: torch.device, generator: torch.Generator | None = None, *, padding: int = 4
) -> tuple[Tensor, Tensor, Tensor]:
    """Random `down`, `right` and `flip` for `crop_flip`, drawn where the generator lives."""
    where = generator.device if generator else device
    offsets = torch.randint(2 * padding + 1, (2, count), generator=generator, device=where)
    flip = torch.randint(2, (count,), generator=generator, device=where).bool()
    return offsets[0].to(device), offsets[1].to(device), flip.to(device)


def channel_stats(examples: Examples) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each channel over all pixels, in [0, 1], each (channels,).

    Exact, from how often each of the 256 values occurs.
    """
    images = examples.inputs
    if not isinstance(images, Tensor) or images.dtype != torch.uint8 or images.dim() != 4 or not len(images):
        raise InputError("channel_stats needs uint8 images of shape (N, channels, height, width), N > 0")
    return image_stats(images)


def image_stats(images: Tensor) -> tuple[Tensor, Tensor]:
    """The same of uint8 images (N, channels, height, width) without labels."""
    values = torch.arange(256, dtype=torch.float64) / 255
    means, stds = [], []
    for channel in images.unbind(1):
        share = torch.bincount(channel.flatten(), minlength=256).double() / channel.numel()
        means.append(share @ values)
        stds.append((share @ (values - means[-1]).square()).sqrt())
    return torch.stack(means).float(), torch.stack(stds).float()


def _images_or_features(examples: Examples, augment: str, mean: Tensor | None, std: Tensor | None) -> Tensor:
    inputs = examples.inputs
    if not isinstance(inputs, Tensor):
        raise InputError("OnDevice needs images or features, these examples are texts")
    if augment not in AUGMENTS:
        raise unknown("augmentation", augment, AUGMENTS)
    is_image = inputs.dtype == torch.uint8 and inputs.dim() == 4
    if not is_image and not inputs.is_floating_point():
        raise InputError(
            f"inputs must be uint8 of 4 dimensions or float, got {inputs.dtype} of {inputs.dim()}"
        )
    if (mean is None) != (std is None):
        raise InputError("mean and std go together: give both or neither")
    if not is_image and (mean is not None or augment != "none"):
        raise InputError("float features are left as they are: no mean, std or augment")
    return inputs
