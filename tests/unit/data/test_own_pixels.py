"""Images of every mode of Pillow's: transparency lies on paper, deeper greys have one scale."""

import struct

import numpy as np
import pytest
from PIL import Image

from icelens.data.own.pixels import eight_bits, flat

DRAWN = np.zeros((6, 8), dtype=np.uint8)
DRAWN[1:5, 2:4] = 255
ORIENTATION = 0x0112
PLAIN = Image.fromarray(np.arange(48, dtype=np.uint8).reshape(6, 8))


def drawing(colour, mode="RGBA"):
    """Ink of one colour, drawn with the transparency alone."""
    image = Image.new("RGB", (8, 6), colour).convert(mode[:-1])
    image.putalpha(Image.fromarray(DRAWN))
    assert image.mode == mode
    return image


@pytest.mark.parametrize(
    ("mode", "plain"),
    [("1", "L"), ("L", "L"), ("LA", "L"), ("La", "L"), ("P", "RGB"), ("PA", "RGB"), ("RGB", "RGB"),
     ("RGBA", "RGB"), ("RGBa", "RGB"), ("CMYK", "RGB"), ("YCbCr", "RGB"), ("HSV", "RGB"), ("I;16", "I"),
     ("I;16B", "I"), ("I", "I"), ("F", "F")],
)  # fmt: skip
def test_every_mode_is_grey_colour_or_numbers(mode, plain):
    image = Image.new(mode, (8, 6)) if mode in ("La", "PA", "RGBa", "HSV") else PLAIN.convert(mode)
    found = flat(image)
    assert (found.mode, found.size) == (plain, (8, 6))
    if mode in ("L", "LA", "I;16", "I;16B", "I", "F"):
        np.testing.assert_array_equal(found, PLAIN)


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp"])
def test_a_photograph_that_is_stored_on_its_side_stands_upright(tmp_path, suffix):
    upright = Image.new("L", (16, 8))
    upright.paste(255, (8, 0, 16, 8))  # light on the right
    exif = Image.Exif()
    exif[ORIENTATION] = 6  # to be turned clockwise by a quarter
    upright.transpose(Image.Transpose.ROTATE_90).save(tmp_path / f"a.{suffix}", exif=exif)
    with Image.open(tmp_path / f"a.{suffix}") as image:
        found = flat(image)
    assert found.size == upright.size
    np.testing.assert_allclose(np.asarray(found.convert("L"), int), upright, atol=8)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")  # told by Pillow when it opens a JPEG
@pytest.mark.parametrize("suffix", ["jpg", "png", "webp"])
def test_exif_that_is_not_as_it_should_be_is_no_fault_of_the_image(tmp_path, suffix):
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    good = exif.tobytes()
    for number, content in enumerate(
        [good[:-3], good.replace(b"MM", b"QQ"), b"Exif\x00\x00nonsense", good[:10] + b"\xff" * 20, b""]
    ):
        PLAIN.convert("L").save(tmp_path / f"{number}.{suffix}", exif=content)
        with Image.open(tmp_path / f"{number}.{suffix}") as image:
            assert sorted(flat(image).size) == [6, 8]
    # To be turned by a quarter, with a resolution in words, which Pillow reads and cannot write.
    tags = struct.pack(">HHIHH", ORIENTATION, 3, 1, 6, 0) + struct.pack(">HHI4s", 0x011A, 2, 4, b"two")
    odd = b"Exif\x00\x00MM\x00*" + struct.pack(">IH", 8, 2) + tags + bytes(4)
    PLAIN.convert("L").save(tmp_path / f"odd.{suffix}", exif=odd)
    with Image.open(tmp_path / f"odd.{suffix}") as image:
        assert image.size == (8, 6)
        assert flat(image).size == (6, 8)


@pytest.mark.parametrize("mode", ["LA", "RGBA"])
@pytest.mark.parametrize(("colour", "paper"), [("black", 255), ("gray", 255), ("#f0f0f0", 0), ("white", 0)])
def test_a_drawing_in_transparency_is_seen_whatever_its_ink(colour, paper, mode):
    image = drawing(colour, mode)
    ink = np.asarray(Image.new("RGB", (1, 1), colour).convert(mode[:-1]))
    found = np.asarray(flat(image))
    assert (found[DRAWN == 0] == paper).all()
    assert (found[DRAWN > 0] == ink[0, 0]).all()


def test_colours_are_seen_on_white_where_one_channel_differs():
    assert np.asarray(flat(drawing("yellow")))[0, 0].tolist() == [255, 255, 255]


def test_half_transparent_ink_is_half_paper():
    image = drawing("black", "LA")
    image.putalpha(Image.fromarray(DRAWN // 2))
    assert set(np.unique(flat(image))) == {128, 255}


def test_a_transparent_colour_of_a_palette_is_paper(tmp_path):
    ink = Image.fromarray(DRAWN // 255).convert("P")
    ink.putpalette([255, 0, 0, 0, 0, 255])
    for name in ("a.png", "a.gif"):
        ink.save(tmp_path / name, transparency=0)
        with Image.open(tmp_path / name) as image:
            found = np.asarray(flat(image))
        assert found[0, 0].tolist() == [255, 255, 255]
        assert found[2, 2].tolist() == [0, 0, 255]


@pytest.mark.parametrize("alpha", [0, 100, 255])
def test_transparency_that_is_the_same_everywhere_is_left_out(alpha):
    image = PLAIN.convert("LA")
    image.putalpha(alpha)
    np.testing.assert_array_equal(flat(image), PLAIN)


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
@pytest.mark.parametrize("scale", [1, 16, 257])
def test_deeper_greys_are_stretched_by_what_all_images_hold(dtype, scale):
    images = np.arange(256, dtype=np.uint8).reshape(2, 8, 16)
    found = eight_bits(images.astype(dtype) * scale)
    assert [image.dtype for image in found] == [np.uint8] * 2
    np.testing.assert_array_equal(found, images)
    assert found[0].max() < 128 <= found[1].min()  # the dark one stays dark


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-1000, 3000), (1e-3, 2e-3)])
def test_floats_of_any_range_are_stretched(low, high):
    dark, light = eight_bits([np.full((2, 2), value, np.float32) for value in (low, high)])
    assert (dark.max(), light.min()) == (0, 255)


def test_equal_numbers_are_black():
    assert not np.any(eight_bits([np.full((2, 2), 7, np.int32)] * 2))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -3.4e38])
def test_what_is_no_number_is_zero(value):
    numbers = np.full((2, 3), 5, np.float32)
    numbers[1, 2] = value
    assert np.asarray(flat(Image.fromarray(numbers))).tolist() == [[5, 5, 5], [5, 5, 0]]
