"""Strong augmentation of a batch on its device: each image turned, sheared, recoloured and partly covered."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

TURN, SHEAR, SHIFT, ZOOM = math.pi / 6, 0.3, 0.2, 0.2  # at most, either way; shift in halves of the image
LIGHT, CONTRAST, COLOUR = 0.5, 0.5, 0.8  # likewise, of a factor around 1
OFTEN, MOSTLY, SELDOM = 0.5, 0.7, 0.1  # how often a change of shape, of colour, and a negative are drawn
COVER = (1 / 8, 1 / 4)  # half the side of the grey square, of the image's


def distorted(images: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Each image in a way of its own, so that the class can still be told.

    Nothing waits for the device, and the number of operations does not depend on what is drawn.

    Args:
        images: (batch, channels, height, width) in [0, 1].
        generator: what is drawn from, where the images are; None is torch's own.
    """
    draw = _Draw(len(images), images.device, generator)
    images = _moved(images, draw)
    images = images * draw.factor(LIGHT)
    middle = images.mean((1, 2, 3), keepdim=True)
    images = torch.lerp(middle, images, draw.factor(CONTRAST))
    grey = images.mean(1, keepdim=True)
    images = torch.lerp(grey, images, draw.factor(COLOUR)).clamp(0, 1)
    negative = draw.happens(SELDOM)[:, None, None, None] & (images > 0.5)
    return _covered(torch.where(negative, 1 - images, images), draw)


def uniform(count: int, device: torch.device, generator: torch.Generator | None) -> Tensor:
    """(count,), in [0, 1), drawn where the generator lives."""
    where = generator.device if generator else device
    return torch.rand(count, generator=generator, device=where).to(device)


class _Draw:
    """Random numbers for each image of a batch."""

    def __init__(self, count: int, device: torch.device, generator: torch.Generator | None) -> None:
        self.count, self.device, self.generator = count, device, generator

    def uniform(self) -> Tensor:
        """(batch,), in [0, 1)."""
        return uniform(self.count, self.device, self.generator)

    def happens(self, share: float) -> Tensor:
        """(batch,), true for about this share."""
        return self.uniform() < share

    def either_way(self, most: float, share: float) -> Tensor:
        """(batch,), from −most to most for about this share, else 0."""
        return most * (2 * self.uniform() - 1) * self.happens(share)

    def factor(self, most: float) -> Tensor:
        """(batch, 1, 1, 1), around 1."""
        return (1 + self.either_way(most, MOSTLY))[:, None, None, None]


def _moved(images: Tensor, draw: _Draw) -> Tensor:
    """Turned, sheared, zoomed and shifted; black comes in from outside."""
    turn = draw.either_way(TURN, OFTEN)
    across, down = draw.either_way(SHEAR, OFTEN), draw.either_way(SHEAR, OFTEN)
    zoom = 1 + draw.either_way(ZOOM, OFTEN)
    first = torch.stack([zoom * turn.cos(), zoom * (across - turn.sin()), draw.either_way(SHIFT, OFTEN)], 1)
    second = torch.stack([zoom * (turn.sin() + down), zoom * turn.cos(), draw.either_way(SHIFT, OFTEN)], 1)
    grid = F.affine_grid(torch.stack([first, second], 1), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)


def _covered(images: Tensor, draw: _Draw) -> Tensor:
    """With a grey square somewhere."""
    half = COVER[0] + (COVER[1] - COVER[0]) * draw.uniform()
    inside = []
    for size in images.shape[2:]:
        place = (torch.arange(size, device=images.device) + 0.5) / size
        inside.append((place - draw.uniform()[:, None]).abs() < half[:, None])
    square = inside[0][:, None, :, None] & inside[1][:, None, None, :]
    return images.masked_fill(square, 0.5)
