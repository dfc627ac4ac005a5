"""From a user's data to inputs: numbers, categories, texts and images of every odd kind."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from PIL import Image
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from icelens.auditing import features
from icelens.auditing.features import FARTHEST, SIDE, image_inputs, inputs_of, table_inputs, text_inputs
from icelens.auditing.inputs import Bags, Features, Pictures
from icelens.data import from_arrays
from icelens.errors import InputError

CPU = torch.device("cpu")
REVIEWS = [("good soup",), ("bad soup",), ("good bread",), ("bad bread",)]


def dense(bags):
    columns, offsets, weights = bags.batch(torch.arange(len(bags)), training=False)
    shape = (len(bags), bags.width)
    starts = [*offsets.tolist(), len(columns)]
    return scipy.sparse.csr_matrix((weights.numpy(), columns.numpy(), starts), shape).toarray()


def test_every_kind_of_data_finds_its_inputs():
    y = ["a", "b"] * 4
    arrays = np.arange(16.0).reshape(8, 2)
    assert isinstance(inputs_of(from_arrays(arrays, y), CPU), Features)
    assert isinstance(inputs_of(from_arrays(scipy.sparse.csr_matrix(arrays), y), CPU), Bags)
    assert isinstance(inputs_of(from_arrays([t for (t,) in REVIEWS] * 2, y), CPU), Bags)
    images = np.arange(8 * 25, dtype=np.uint8).reshape(8, 5, 5)
    assert isinstance(inputs_of(from_arrays(images, y), CPU), Pictures)


def test_texts_with_the_same_words_are_near_each_other():
    rows = dense(text_inputs([*REVIEWS, ("good soup",)]))
    assert rows.shape[0] == 5
    np.testing.assert_allclose(rows[0], rows[4])
    assert rows[0] @ rows[1] > rows[1] @ rows[2]
    np.testing.assert_allclose((rows**2).sum(1), 2, rtol=1e-5)  # words and pieces, each of length one


def test_two_columns_of_text_are_both_read():
    one = text_inputs([("soup",), ("bread",), ("soup",)])
    two = text_inputs([("soup", "cold"), ("bread", "hot"), ("soup", "warm")])
    assert two.width > one.width
    rows = dense(two)
    assert not np.allclose(rows[0], rows[2])


def test_a_text_is_read_to_its_limit(monkeypatch):
    monkeypatch.setattr(features, "CHARACTERS", 10)
    rows = dense(text_inputs([("same start and then",), ("same start of another",), ("else",)]))
    np.testing.assert_allclose(rows[0], rows[1])


def test_many_long_texts_are_read_by_words_alone(monkeypatch):
    both = text_inputs(REVIEWS).width
    monkeypatch.setattr(features, "CHARACTERS_IN_ALL", 10)
    words = text_inputs(REVIEWS)
    assert words.width < both
    assert words.width == 8  # four words and four pairs


def test_of_many_texts_a_word_that_is_seen_once_is_left_out():
    common = [("red apple",), ("green pear",)] * 100
    assert text_inputs(common).width == text_inputs([*common, ("zyxw",)]).width
    few = common[:50]
    assert text_inputs([*few, ("zyxw",)]).width > text_inputs(few).width


def test_texts_of_signs_alone_and_empty_ones():
    rows = dense(text_inputs([("!!!",), ("???",), ("",), ("!!!",)]))
    assert rows[2].sum() == 0
    np.testing.assert_allclose(rows[0], rows[3])
    nothing_shared = [(chr(0x4E00 + row),) for row in range(300)]
    with pytest.raises(InputError, match="no word that two of them share"):
        text_inputs(nothing_shared)


def column(values):
    """The inputs of a table with this column beside an ordinary one."""
    table = pd.DataFrame({"plain": np.arange(len(values), dtype=np.float32), "odd": values})
    found = table_inputs(table)
    assert isinstance(found, Features)
    assert found.values.dtype == torch.float32
    assert found.values.isfinite().all()
    assert (found.values.abs() <= FARTHEST).all()
    plain = np.arange(len(values)) - np.mean(np.arange(len(values)))
    np.testing.assert_allclose(found.values[:, 0], plain / plain.std(), rtol=1e-5)
    return found.values[:, 1:].numpy()


def test_missing_numbers_are_at_the_median_with_a_flag():
    odd = column(np.array([1, 2, np.nan, 3, 100], dtype=np.float32))
    assert odd.shape == (5, 2)
    filled = np.array([1, 2, 2.5, 3, 100])
    np.testing.assert_allclose(odd[:, 0], (filled - filled.mean()) / filled.std(), rtol=1e-5)
    assert odd[:, 1].tolist() == [0, 0, 1, 0, 0]


def test_a_column_without_any_number_and_one_that_never_changes_say_nothing():
    empty = column(np.full(5, np.nan, dtype=np.float32))
    assert (empty == empty[0]).all()
    assert (column(np.full(5, 7.1, dtype=np.float32)) == 0).all()


def test_categories_are_a_column_each_and_those_seen_once_one_together():
    odd = column(pd.Categorical(["red", "blue", "red", "blue", "teal", "pink", None, None]))
    assert odd.shape == (8, 4)
    assert set(np.unique(odd)) == {0, 1}
    assert (odd.sum(1) == 1).all()
    assert (odd[0] == odd[2]).all()
    assert (odd[4] == odd[5]).all()  # teal and pink
    assert (odd[6] == odd[7]).all()
    assert len(np.unique(odd, axis=0)) == 4
    assert column(pd.Categorical(list("abcdefgh"))).shape == (8, 1)


def test_tables_wider_than_what_is_prepared_at_a_time(monkeypatch):
    monkeypatch.setattr(features, "COLUMNS", 3)
    values = np.random.default_rng(0).normal(5, 2, (50, 8)).astype(np.float32)
    whole = table_inputs(values).values
    values[4, 6] = np.nan
    found = table_inputs(pd.DataFrame(values, columns=[f"c{place}" for place in range(8)])).values
    assert found.shape == (50, 9)
    kept = [0, 1, 2, 3, 4, 5, 7]
    torch.testing.assert_close(found[:, kept], whole[:, kept])
    assert found[4, 8] == found[:, 8].sum() == 1


def test_booleans_are_numbers():
    odd = column(np.array([True, False, True, False]))
    np.testing.assert_allclose(odd[:, 0], [1, -1, 1, -1])


def test_a_cell_far_out_is_clipped():
    far = np.zeros(1000, dtype=np.float32)
    far[0] = 1e9
    assert column(far)[0, 0] == FARTHEST
    array = table_inputs(np.c_[far, -far]).values
    assert array[0].tolist() == [FARTHEST, -FARTHEST]


@pytest.mark.parametrize("missing", [999_999, -999.0, 1e12, -3e38])
@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame])
def test_a_number_that_stands_for_none_leaves_the_others_apart(missing, kind):
    plain = np.random.default_rng(0).normal(size=(400, 2))
    holed = plain.copy()
    holed[::50, 0] = missing
    found = inputs_of(from_arrays(kind(holed), ["a", "b"] * 200), CPU).values.numpy()
    there = np.arange(400) % 50 != 0
    assert found[there, 0].std() > 0.9
    assert np.abs(found[~there, 0]).max() < 0.2  # in the middle
    assert np.corrcoef(found[there, 0], plain[there, 0])[0, 1] > 0.999


def test_heavy_tails_become_normal_in_their_order():
    numbers = np.random.default_rng(0).normal(size=1000)
    found = table_inputs(np.c_[np.exp(3 * numbers), numbers]).values.numpy()
    assert (np.argsort(found[:, 0]) == np.argsort(numbers)).all()
    assert np.corrcoef(found.T)[0, 1] > 0.99


def test_tables_that_people_use_are_standardised_and_nothing_else():
    for load in (load_iris, load_wine, load_breast_cancer, load_digits):
        plain = load().data
        spread = plain.std(0)
        expected = (plain - plain.mean(0)) / np.where(spread > 0, spread, 1)
        np.testing.assert_allclose(table_inputs(plain).values, expected.clip(-8, 8), atol=1e-4)


def test_a_rare_flag_is_no_slip():
    flags = np.zeros((1000, 2))
    flags[:30, 0], flags[:, 1] = 1000.0, np.arange(1000)
    assert table_inputs(flags).values[:30, 0].min() > 5


@pytest.mark.parametrize("size", [1e-38, 1e-20, 1.0, 1e20, 3e38])
def test_numbers_of_any_size_are_standardised(size):
    values = np.array([[1, 0.5], [1, -1], [1, 1], [-1, 0.25]], dtype=np.float32) * np.float32(size)
    before = values.copy()
    found = table_inputs(values).values.numpy()
    np.testing.assert_array_equal(values, before)  # the user's own array is left alone
    plain = before.astype(np.float64)
    np.testing.assert_allclose(found, (plain - plain.mean(0)) / plain.std(0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame])
def test_what_tells_large_numbers_apart_is_kept(kind):
    """Seconds since 1970 within a minute: neighbours in float32 are two minutes apart."""
    seconds = 1.7e9 + np.linspace(0, 60, 7)
    found = inputs_of(from_arrays(kind(np.c_[seconds, np.arange(7.0)]), ["a", "b"] * 3 + ["a"]), CPU).values
    np.testing.assert_allclose(found[:, 0], np.linspace(-1.5, 1.5, 7), atol=1e-5)
    torch.testing.assert_close(found[:, 0], found[:, 1], rtol=0, atol=1e-5)


def test_what_rounding_alone_spreads_is_constant():
    third = np.full(1000, 1e9 / 3)
    assert table_inputs(np.c_[third, np.arange(1000.0)]).values[:, 0].abs().max() < 1e-6
    assert np.abs(column(third)).max() < 1e-6


def test_an_array_keeps_constant_columns_at_zero():
    values = np.c_[np.full(100, 0.1), np.arange(100)].astype(np.float32)
    found = table_inputs(values).values
    assert (found[:, 0] == 0).all()
    assert found[:, 1].std(correction=0).item() == pytest.approx(1, rel=1e-5)


def test_a_table_of_very_many_categories_stays_sparse(monkeypatch):
    table = pd.DataFrame({"word": pd.Categorical([f"w{row // 2}" for row in range(40)])})
    assert isinstance(table_inputs(table), Features)
    monkeypatch.setattr(features, "WIDEST", 10)
    bags = table_inputs(table)
    assert isinstance(bags, Bags)
    rows = dense(bags)
    assert rows.shape == (40, 20)
    assert (rows.sum(1) == 1).all()


def test_a_sparse_matrix_keeps_its_pattern_and_is_at_most_one():
    plain = np.array([[0, 4.0], [0, -8.0], [0.5, 0], [0, 0]])
    before = scipy.sparse.csr_matrix(plain)
    rows = dense(table_inputs(before))
    np.testing.assert_allclose(rows, plain / [0.5, 8.0])
    np.testing.assert_array_equal(before.toarray(), plain)


def test_images_in_an_array_are_taken_as_they_are():
    grey = np.random.default_rng(0).integers(0, 256, (6, 8, 9), dtype=np.uint8)
    found = image_inputs(grey, large=False)
    assert found.pixels.shape == (6, 1, 8, 9)
    np.testing.assert_array_equal(found.pixels[:, 0], grey)
    batch = found.batch(torch.arange(6), training=False)
    assert batch.mean().item() == pytest.approx(0, abs=1e-5)
    assert batch.std(correction=0).item() == pytest.approx(1, abs=1e-3)
    colour = np.random.default_rng(0).integers(0, 256, (6, 8, 9, 3), dtype=np.uint8)
    np.testing.assert_array_equal(
        image_inputs(colour, large=True).pixels, torch.from_numpy(colour).permute(0, 3, 1, 2)
    )


@pytest.mark.parametrize(("shape", "channels"), [((3, 40, 50), 1), ((3, 40, 50, 3), 3), ((3, 40, 50, 4), 3)])
def test_larger_images_are_made_small(shape, channels):
    images = np.zeros(shape, dtype=np.uint8)
    images[1] = 200
    found = image_inputs(images, large=False)
    assert found.pixels.shape == (3, channels, SIDE, SIDE)
    assert (found.pixels[1] == 200).all()
    assert (found.pixels[0] == 0).all()


def test_images_that_are_hardly_different_are_finite():
    images = np.full((4, 5, 5), 9, np.uint8)
    images[3, 0, 0] = 10
    found = image_inputs(images, large=False)
    assert found.batch(torch.arange(4), training=False).isfinite().all()


@pytest.mark.parametrize("shape", [(4, 5, 6), (4, 50, 60), (4, 5, 6, 3)])
def test_images_that_are_all_the_same_are_refused(shape):
    side = "32 x 32" if 50 in shape else "5 x 6"
    with pytest.raises(InputError, match=f"all 4 images are the same at {side} pixels; nothing can be"):
        image_inputs(np.full(shape, 9, np.uint8), large=False)


def clear(pixels, ink):
    """Ink of one colour, with the picture in the transparency alone."""
    image = Image.new("L", pixels.shape[::-1], ink)
    image.putalpha(Image.fromarray(pixels))
    return image


@pytest.mark.parametrize(
    ("save", "suffix"),
    [
        (lambda pixels: pixels, "png"),
        (lambda pixels: pixels.astype(np.uint16), "png"),
        (lambda pixels: pixels.astype(np.uint16) * 16, "png"),
        (lambda pixels: pixels.astype(np.uint16) * 257, "tif"),
        (lambda pixels: pixels.astype(np.int32) - 100, "tif"),
        (lambda pixels: pixels.astype(np.float32), "tif"),
        (lambda pixels: pixels.astype(np.float32) / 255, "tif"),
        (lambda pixels: clear(pixels, 255), "png"),  # white on black
        (lambda pixels: clear(255 - pixels, 0), "png"),  # black on white
    ],
)
def test_files_are_the_same_pictures_however_they_hold_them(tmp_path, save, suffix):
    plain = np.zeros((3, SIDE, SIDE), dtype=np.uint8)
    plain[0, 4:20, 8:12], plain[1, 6:9, 3:29], plain[2, :16] = 255, 100, 30
    paths = [tmp_path / f"{row}.{suffix}" for row in range(3)]
    for path, pixels in zip(paths, plain, strict=True):
        saved = save(pixels)
        (saved if isinstance(saved, Image.Image) else Image.fromarray(saved)).save(path)
    np.testing.assert_array_equal(image_inputs(paths, large=False).pixels[:, 0], plain)


def test_files_of_several_depths_keep_their_own_scales(tmp_path):
    pixels = np.linspace(0, 255, SIDE * SIDE).astype(np.uint8).reshape(SIDE, SIDE)
    kinds = {"L.png": pixels, "I.png": pixels.astype(np.uint16) * 257, "F.tif": np.float32(pixels / 255)}
    for name, saved in kinds.items():
        Image.fromarray(saved).save(tmp_path / name)
    Image.new("L", (9, 9)).save(tmp_path / "black.png")
    found = image_inputs([tmp_path / name for name in (*kinds, "black.png")], large=False).pixels
    for picture in found[:3, 0]:
        np.testing.assert_array_equal(picture, pixels)


def test_files_grey_and_in_colour_together_become_colour(tmp_path):
    paths = [tmp_path / name for name in ("grey.png", "colour.png", "palette.gif", "deep.png")]
    Image.new("L", (50, 20), 100).save(paths[0])
    Image.new("RGB", (10, 10), (200, 10, 10)).save(paths[1])
    Image.new("P", (10, 10)).save(paths[2])
    Image.new("LA", (10, 10), (50, 255)).save(paths[3])
    found = image_inputs(paths, large=False)
    assert found.pixels.shape == (4, 3, SIDE, SIDE)
    assert (found.pixels[0] == 100).all()
    assert found.pixels[1, :, 5, 5].tolist() == [200, 10, 10]
    grey = image_inputs([paths[0], paths[3]], large=False)
    assert grey.pixels.shape == (2, 1, SIDE, SIDE)
    assert (grey.pixels[1] == 50).all()
