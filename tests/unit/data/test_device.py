import numpy as np
import pytest
import torch
from data_files import images
from torch.nn import functional as F

from icelens.data import Examples, OnDevice, channel_stats, crop_flip
from icelens.data.device import draw
from icelens.errors import IndexRangeError, InputError


def pictures(rows: int = 12, channels: int = 3) -> Examples:
    inputs = torch.from_numpy(images(rows, channels, 8, 6))
    return Examples(inputs, torch.arange(rows) % 2, ("a", "b"))


def crop_flip_loop(batch, down, right, flip, padding=4):
    out = []
    for image, top, left, mirrored in zip(batch, down, right, flip, strict=True):
        height, width = image.shape[1:]
        crop = F.pad(image, (padding,) * 4)[:, top : top + height, left : left + width]
        out.append(crop.flip(2) if mirrored else crop)
    return torch.stack(out)


@pytest.mark.parametrize("padding", [0, 1, 4])
def test_augmentation_equals_a_loop_over_the_images(padding):
    batch = pictures(60).inputs
    offsets = draw(60, batch.device, torch.Generator().manual_seed(3), padding=padding)
    found = crop_flip(batch, *offsets, padding=padding)
    assert torch.equal(found, crop_flip_loop(batch, *offsets, padding=padding))
    assert found.dtype == torch.uint8


def test_every_offset_and_both_sides_are_drawn():
    down, right, flip = draw(5000, torch.device("cpu"), torch.Generator().manual_seed(0))
    assert set(down.tolist()) == set(right.tolist()) == set(range(9))
    assert not torch.equal(down, right)
    # Five standard deviations of a fair coin thrown 5,000 times.
    assert abs(flip.float().mean() - 0.5) < 5 * 0.5 / 5000**0.5


def test_without_augmentation_a_batch_is_the_plain_data():
    data, index = pictures(), torch.tensor([7, 0, 7])
    x, y, back = OnDevice(data).batch(index)
    assert torch.equal(x, data.inputs[index].float() / 255)
    assert torch.equal(y, data.labels[index])
    assert torch.equal(back, index)
    assert OnDevice(data).inputs.dtype == torch.uint8


def test_a_seed_repeats_the_augmentation_and_goes_on_drawing():
    def two(seed):
        rows = OnDevice(pictures(), augment="crop_flip", generator=torch.Generator().manual_seed(seed))
        return [rows.batch(torch.arange(12))[0] for _ in range(2)]

    assert torch.equal(torch.stack(two(1)), torch.stack(two(1)))
    assert not torch.equal(*two(1))
    assert not torch.equal(two(1)[0], two(2)[0])


def test_augmentation_comes_before_normalisation():
    data = pictures()
    mean, std = channel_stats(data)
    rows = OnDevice(data, augment="crop_flip", mean=mean, std=std, generator=torch.Generator().manual_seed(5))
    x, _, _ = rows.batch(torch.arange(12))
    offsets = draw(12, torch.device("cpu"), torch.Generator().manual_seed(5))
    pixels = crop_flip_loop(data.inputs, *offsets).float() / 255
    assert torch.allclose(x, (pixels - mean[:, None, None]) / std[:, None, None])


@pytest.mark.parametrize("rows", [1, 2501])
def test_channel_statistics_equal_numpys(rows):
    data = pictures(rows)
    mean, std = channel_stats(data)
    pixels = data.inputs.numpy() / 255
    np.testing.assert_allclose(mean.numpy(), pixels.mean((0, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(std.numpy(), pixels.std((0, 2, 3)), rtol=1e-6)


def test_normalised_pixels_have_mean_zero_and_deviation_one():
    data = pictures(50)
    mean, std = channel_stats(data)
    x, _, _ = OnDevice(data, mean=mean, std=std).batch(torch.arange(50))
    assert torch.allclose(x.mean((0, 2, 3)), torch.zeros(3), atol=1e-5)
    assert torch.allclose(x.std((0, 2, 3), correction=0), torch.ones(3), atol=1e-5)


def test_float_features_are_left_as_they_are():
    features = Examples(torch.randn(5, 7), torch.zeros(5, dtype=torch.int64), ("a", "b"))
    x, _, _ = OnDevice(features).batch(torch.tensor([4, 1]))
    assert torch.equal(x, features.inputs[[4, 1]])


@pytest.mark.parametrize("index", [[0, -1], [12]])
def test_an_index_outside_the_rows_is_refused(index):
    with pytest.raises(IndexRangeError, match="rows are 0 to 11"):
        OnDevice(pictures()).batch(torch.tensor(index))


def test_an_empty_batch_is_a_batch():
    empty = torch.tensor([], dtype=torch.int64)
    assert OnDevice(pictures(), augment="crop_flip").batch(empty)[0].shape == (0, 3, 8, 6)


@pytest.mark.parametrize(
    ("inputs", "options", "message"),
    [
        ([("a",)], {}, "these examples are texts"),
        (torch.zeros(1, 3), {"augment": "crop_flip"}, "float features are left as they are"),
        (torch.zeros(1, 3, dtype=torch.uint8), {}, "inputs must be uint8 of 4 dimensions or float"),
        (torch.zeros(1, 3), {"augment": "crop"}, "unknown augmentation 'crop'; did you mean 'crop_flip'"),
        (torch.zeros(1, 1, 2, 2, dtype=torch.uint8), {"mean": torch.zeros(1)}, "mean and std go together"),
    ],
)
def test_what_cannot_be_done_is_refused(inputs, options, message):
    with pytest.raises(InputError, match=message):
        OnDevice(Examples(inputs, torch.tensor([0]), ("a", "b")), **options)


def test_statistics_of_features_are_refused():
    with pytest.raises(InputError, match="channel_stats needs uint8 images"):
        channel_stats(Examples(torch.zeros(1, 3), torch.tensor([0]), ("a", "b")))


@pytest.mark.gpu
def test_a_batch_on_the_device_equals_one_on_the_cpu():
    def batch(device):
        rows = OnDevice(pictures(), device, augment="crop_flip", generator=torch.Generator().manual_seed(1))
        return [part.cpu() for part in rows.batch(torch.tensor([3, 1, 4]))]

    (x, *rest), (x_cuda, *rest_cuda) = batch("cpu"), batch("cuda")
    # CUDA divides by 255 as it multiplies by 1/255, which may differ in the last bit.
    assert torch.allclose(x, x_cuda, rtol=0, atol=1e-7)
    assert all(torch.equal(a, b) for a, b in zip(rest, rest_cuda, strict=True))


@pytest.mark.gpu
def test_a_generator_on_the_device_repeats_itself():
    def batch():
        generator = torch.Generator("cuda").manual_seed(1)
        return OnDevice(pictures(), "cuda", augment="crop_flip", generator=generator).batch(torch.arange(12))[
            0
        ]

    assert torch.equal(batch(), batch())
