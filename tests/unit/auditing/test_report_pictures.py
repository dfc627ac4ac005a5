"""Pictures are decoded and encoded anew, small, and a broken one is told from a good one."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from icelens.auditing.report.pictures import RUNGS, is_coarse, picture

SIDE = RUNGS[0][0]


def decoded(uri):
    assert uri.startswith(("data:image/png;base64,", "data:image/webp;base64,"))
    return Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2])))


def scene(height=900, width=1400, channels=3):
    y, x = np.mgrid[0:height, 0:width]
    waves = [(np.sin(x / (40 + 9 * c)) + np.cos(y / 70)) * 60 + 128 for c in range(channels)]
    return np.stack(waves, -1).astype(np.uint8)


def saved(folder, name, image, **settings):
    image.save(folder / name, **settings)
    return folder / name


def test_small_arrays_keep_every_pixel():
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8), dtype=np.uint8)
    uri = picture(pixels, 20_000)
    assert is_coarse(uri)
    assert np.array_equal(np.asarray(decoded(uri).convert("L")), pixels)


@pytest.mark.parametrize("shape", [(30, 30), (30, 30, 1), (30, 30, 2), (30, 30, 3), (30, 30, 4), (30, 30, 7)])
def test_arrays_of_any_number_of_channels(shape):
    pixels = np.full(shape, 77, dtype=np.uint8)
    colour = np.asarray(decoded(picture(pixels, 20_000)))
    assert (colour == 77).all()


@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.gif", "a.bmp", "a.webp", "a.tif"])
def test_large_files_of_common_formats_become_small(tmp_path, name):
    uri = picture(str(saved(tmp_path, name, Image.fromarray(scene()))), 20_000)
    assert len(uri) <= 20_000
    assert decoded(uri).size == (SIDE, round(SIDE * 900 / 1400))
    assert not is_coarse(uri)


def test_room_bounds_the_bytes_even_of_noise():
    noise = np.random.default_rng(0).integers(0, 256, (500, 500, 3), dtype=np.uint8)
    sizes = [len(picture(noise, room)) for room in (20_000, 8000, 3000)]
    assert sizes[0] <= 20_000
    assert sizes[1] <= 8000
    assert sizes[2] <= 3000


def test_sixteen_bits_are_stretched_and_not_clipped(tmp_path):
    deep = np.linspace(0, 4000, 40 * 40).reshape(40, 40).astype(np.uint16)
    path = saved(tmp_path, "deep.png", Image.fromarray(deep))
    pixels = np.asarray(decoded(picture(path, 20_000)))
    assert pixels.min() == 0
    assert pixels.max() == 255
    assert 100 < pixels.mean() < 155


def test_photographs_are_turned_upright_and_say_nothing_else(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter
    exif[0x010E] = "a secret"
    for size in [(200, 400), (20, 40)]:  # one that is shrunk, and one that keeps its pixels
        about = {"exif": exif, "icc_profile": b"a secret profile", "comment": b"a secret comment"}
        path = saved(tmp_path, "a.jpg", Image.fromarray(scene(*size)), **about)
        assert path.read_bytes().count(b"secret") == 3
        uri = picture(path, 20_000)
        upright = decoded(uri)
        assert upright.height > upright.width
        assert b"secret" not in base64.b64decode(uri.partition(",")[2])
        assert set(upright.info) <= {"loop", "background"}


def test_transparency_lies_on_paper_as_the_network_sees_it(tmp_path):
    """A black drawing would else be lost on a dark page."""
    pixels = np.zeros((40, 40, 4), np.uint8)
    pixels[10:20, 10:20, 3] = 255
    shown = np.asarray(decoded(picture(saved(tmp_path, "a.png", Image.fromarray(pixels)), 20_000)))
    assert shown.shape == (40, 40, 3)
    assert (shown[10:20, 10:20] == 0).all()
    assert (shown[:10] == 255).all()
    assert np.array_equal(shown, np.asarray(decoded(picture(pixels, 20_000))))


def test_long_and_thin_images_have_a_picture():
    for shape in [(5000, 3), (3, 5000, 3), (1, 1)]:
        assert decoded(picture(np.zeros(shape, np.uint8), 20_000)).size


def test_what_cannot_be_read_has_no_picture(tmp_path):
    good = saved(tmp_path, "good.jpg", Image.fromarray(scene())).read_bytes()
    files = {
        "empty.jpg": b"",
        "cut.jpg": good[:2000],
        "words.png": b"not a picture",
        "drawing.svg": b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>',
        "program.eps": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\nshowpage\n",
    }
    # A format that Pillow could decode, but that no browser and no reader of icelens takes for an image.
    files["old.pcx"] = saved(tmp_path, "old.pcx", Image.fromarray(scene(50, 50))).read_bytes()
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        assert picture(tmp_path / name, 20_000) is None, name
    assert picture(tmp_path / "gone.png", 20_000) is None
    assert picture(np.zeros((0, 4), np.uint8), 20_000) is None


def test_a_bomb_is_not_decoded(tmp_path, monkeypatch):
    path = saved(tmp_path, "a.png", Image.fromarray(scene(60, 60)))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 3000)
    assert picture(path, 20_000) is None
