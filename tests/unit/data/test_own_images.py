"""Images in class-named folders, in a column of paths, in a column of bytes."""

import io
import os

import numpy as np
import pyarrow as pa
import pytest
from own_files import picture, picture_folder, write_arrow_file, write_csv, write_parquet, write_saved
from PIL import Image

from icelens.data import open_image, read_labelled
from icelens.errors import FileError, InputError, MissingFileError

FILES = ["cat/1.png", "cat/10.jpg", "cat/2.PNG", "dog/a.jpeg", "dog/b.bmp", "dog/c.gif"]
LABELS = ["cat"] * 3 + ["dog"] * 3


def opened(data):
    sizes = []
    for source in data.inputs:
        with open_image(source) as image:
            image.load()
            sizes.append(image.size)
    return sizes


def truncate(path):
    path.write_bytes(path.read_bytes()[:-60])


class TestFolder:
    def test_classes_are_the_names_of_folders(self, tmp_path):
        data = read_labelled(picture_folder(tmp_path / "pets"))
        assert data.kind == "image"
        assert data.classes == ("cat", "dog")
        assert data.labels.tolist() == [0, 0, 0, 1, 1, 1]
        assert data.ids.tolist() == FILES
        assert data.inputs == [tmp_path / "pets" / name for name in FILES]
        assert data.name == "pets"
        assert opened(data) == [(7, 9)] * 6

    @pytest.mark.parametrize(
        "suffix", ["png", "jpg", "jpeg", "bmp", "gif", "webp", "tif", "tiff", "ppm", "TIFF"]
    )
    def test_every_format_is_read(self, tmp_path, suffix):
        for number in range(4):
            picture(tmp_path / "all" / "ab"[number % 2] / f"{number}.{suffix}", number)
        assert opened(read_labelled(tmp_path / "all")) == [(7, 9)] * 4

    def test_folders_of_numbers_are_in_their_order(self, tmp_path):
        for name in ("10", "9", "100"):
            picture(tmp_path / "digits" / name / "a.png")
            picture(tmp_path / "digits" / name / "b.png")
        assert read_labelled(tmp_path / "digits").classes == ("9", "10", "100")

    def test_what_is_hidden_or_no_image_is_skipped(self, tmp_path):
        folder = picture_folder(tmp_path / "pets")
        picture(folder / "cat" / ".hidden.png")
        picture(folder / ".trash" / "x.png")
        picture(folder / "cat" / "deeper" / "x.png")
        picture(folder / "cover.png")
        (folder / "cat" / "notes.txt").write_text("x")
        (folder / "empty").mkdir()
        data = read_labelled(folder)
        assert data.ids.tolist() == FILES
        assert "folders without images left out: 'empty'" in data.said
        assert "1 image beside the class folders left out" in data.said
        assert "1 image in folders further down left out" in data.said

    def test_the_name_of_the_folder_is_found_from_within(self, tmp_path, monkeypatch):
        monkeypatch.chdir(picture_folder(tmp_path / "pets"))
        assert read_labelled(".").name == "pets"

    @pytest.mark.parametrize("damage", [truncate, lambda path: path.write_bytes(b""),
                                        lambda path: path.write_bytes(b"not an image")])  # fmt: skip
    @pytest.mark.parametrize("name", ["cat/1.png", "cat/10.jpg", "dog/b.bmp"])
    def test_a_broken_image_is_named_or_left_out(self, tmp_path, damage, name):
        folder = picture_folder(tmp_path / "pets")
        damage(folder / name)
        message = (
            rf"1 of 6 images cannot be read, first row \d, '.*pets/{name}' \(.*\); repair or remove them, "
            "or leave them out with --skip-broken"
        )
        with pytest.raises(InputError, match=message):
            read_labelled(folder)
        data = read_labelled(folder, skip_broken=True)
        rest = [row for row, file in enumerate(FILES) if file != name]
        assert data.ids.tolist() == [FILES[row] for row in rest]
        assert data.rows.tolist() == rest
        assert opened(data) == [(7, 9)] * 5
        assert "1 of 6 images cannot be read" in data.said[-1]

    def test_the_classes_that_are_left_are_checked_again(self, tmp_path):
        folder = picture_folder(tmp_path / "pets")
        for name in "ab":
            picture(folder / "emu" / f"{name}.png")
        truncate(folder / "cat" / "1.png")
        truncate(folder / "cat" / "2.PNG")
        with pytest.raises(
            InputError, match=r"what is left without broken images: class 'cat' \(row 1\) has one ex"
        ):
            read_labelled(folder, skip_broken=True)
        truncate(folder / "cat" / "10.jpg")
        assert read_labelled(folder, skip_broken=True).classes == ("dog", "emu")
        for name in FILES:
            (folder / name).write_bytes(b"x")
        for name in "ab":
            (folder / "emu" / f"{name}.png").write_bytes(b"x")
        with pytest.raises(InputError, match="8 of 8 images cannot be read"):
            read_labelled(folder, skip_broken=True)

    def test_a_format_that_runs_programs_is_never_read(self, tmp_path):
        folder = picture_folder(tmp_path / "pets")
        (folder / "cat" / "1.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EOF\n")
        with pytest.raises(InputError, match=r"cat/1.png' \(not an image of a known format\)"):
            read_labelled(folder)

    def test_one_level_is_searched_and_the_right_folder_is_named(self, tmp_path):
        picture_folder(tmp_path / "all" / "train")
        with pytest.raises(FileError, match=r"images are one level further down; give .*all/train itself"):
            read_labelled(tmp_path / "all")

    def test_other_folders_are_told(self, tmp_path):
        with pytest.raises(
            FileError, match=r"not a data set; a folder that is audited holds images in .* holds nothing"
        ):
            read_labelled(tmp_path)
        picture(tmp_path / "a.png")
        with pytest.raises(FileError, match="images, but no folders that name their classes"):
            read_labelled(tmp_path)

    def test_one_class_and_columns_are_told(self, tmp_path):
        folder = picture_folder(tmp_path / "pets")
        with pytest.raises(InputError, match="column 'y' is named, but a folder of images has no columns"):
            read_labelled(folder, label="y")
        for name in FILES[3:]:
            (folder / name).unlink()
        with pytest.raises(InputError, match="pets: the folder holds one class alone, 'cat'"):
            read_labelled(folder)

    @pytest.mark.skipif(os.name != "posix", reason="file names are text there")
    def test_a_name_that_is_not_utf8_is_told(self, tmp_path):
        folder = picture_folder(tmp_path / "pets")
        try:
            os.rename(folder / "cat" / "1.png", os.fsencode(folder / "cat") + b"/caf\xe9.png")
        except OSError:
            pytest.skip("this file system refuses such names")
        with pytest.raises(
            FileError, match=r"the name 'caf\N{REPLACEMENT CHARACTER}\.png' is not UTF-8; rename it"
        ):
            read_labelled(folder)


class TestColumnOfPaths:
    columns = {"file": FILES, "label": LABELS, "width": [1, 2, 3, 2, 1, 2]}  # noqa: RUF012

    @pytest.mark.parametrize("options", [{}, {"image": "file"}])
    def test_paths_are_relative_to_the_table(self, tmp_path, options):
        picture_folder(tmp_path / "data")
        data = read_labelled(write_csv(tmp_path / "data" / "list.csv", self.columns), **options)
        assert data.kind == "image"
        assert data.inputs == [tmp_path / "data" / name for name in FILES]
        told = {"images are in column 'file'", "left out: 'width'"}
        assert told & set(data.said) == (set() if options else told)

    def test_absolute_paths_are_taken_as_they_are(self, tmp_path):
        picture_folder(tmp_path / "data")
        columns = self.columns | {"file": [str(tmp_path / "data" / name) for name in FILES]}
        assert opened(read_labelled(write_csv(tmp_path / "list.csv", columns))) == [(7, 9)] * 6

    def test_a_missing_file_is_named_or_left_out(self, tmp_path):
        picture_folder(tmp_path)
        path = write_csv(tmp_path / "list.csv", self.columns | {"file": [*FILES[:4], "dog/gone.png", ""]})
        with pytest.raises(
            InputError, match=r"2 of 6 images cannot be read, first row 4, '.*gone\.png' \(no such file\)"
        ):
            read_labelled(path)
        data = read_labelled(path, skip_broken=True, keep_rare=True)
        assert data.rows.tolist() == [0, 1, 2, 3]

    def test_paths_to_nowhere_are_told(self, tmp_path):
        path = write_csv(tmp_path / "list.csv", {"file": FILES, "label": LABELS})
        with pytest.raises(
            InputError, match=r"column 'file' names images, but 'cat/1\.png' is not in .*; paths are rela"
        ):
            read_labelled(path)

    def test_numbers_are_no_images(self, tmp_path):
        path = write_parquet(tmp_path / "a.parquet", self.columns)
        with pytest.raises(
            InputError, match="column 'width' holds int64; images are paths relative to the table, or"
        ):
            read_labelled(path, image="width")


class TestStored:
    def cells(self, tmp_path, bytes_of=range(6)):
        folder = picture_folder(tmp_path)
        return [
            {"bytes": (folder / name).read_bytes() if row in bytes_of else None, "path": name}
            for row, name in enumerate(FILES)
        ]

    features = {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}  # noqa: RUF012

    @pytest.mark.parametrize("bytes_of", [range(6), (), (0, 3)], ids=["bytes", "paths", "both"])
    def test_images_of_a_saved_data_set(self, tmp_path, bytes_of):
        kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
        cells = pa.array(self.cells(tmp_path / "saved_images", bytes_of), kind)
        folder = write_saved(tmp_path / "saved", {"image": cells, "label": [0, 0, 0, 1, 1, 1]}, self.features)
        if len(bytes_of) < 6:
            picture_folder(folder)
        data = read_labelled(folder)
        assert data.kind == "image"
        assert data.classes == ("cat", "dog")
        assert opened(data) == [(7, 9)] * 6
        assert opened(data.take(np.array([5, 1]))) == [(7, 9)] * 2

    def test_a_column_of_bytes_is_read_if_named(self, tmp_path):
        cells = [cell["bytes"] for cell in self.cells(tmp_path)]
        path = write_arrow_file(tmp_path / "a.arrow", {"picture": cells, "label": LABELS})
        data = read_labelled(path, image="picture")
        assert [open_image(image).format for image in data.inputs[0:2]] == ["PNG", "JPEG"]
        assert isinstance(data.inputs[0], io.BytesIO)
        with pytest.raises(InputError, match=r"no column to learn from: 'picture' \(holds binary\)"):
            read_labelled(path)

    def test_a_broken_one_is_named_by_its_row(self, tmp_path):
        cells = [cell["bytes"] for cell in self.cells(tmp_path)]
        path = write_parquet(
            tmp_path / "a.parquet", {"picture": [*cells[:4], cells[4][:40], None], "label": LABELS}
        )
        with pytest.raises(InputError, match=r"2 of 6 images cannot be read, first row 4 \("):
            read_labelled(path, image="picture")
        data = read_labelled(path, image="picture", skip_broken=True, keep_rare=True)
        assert opened(data) == [(7, 9)] * 4

    def test_what_the_library_itself_saves_is_read(self, tmp_path):
        datasets = pytest.importorskip("datasets")
        made = datasets.Dataset.from_dict(
            {"img": [Image.new("RGB", (7, 9), (i, 0, 0)) for i in range(4)], "label": [0, 1, 0, 1]},
            features=datasets.Features(
                {"img": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b"])}
            ),
        )
        made.save_to_disk(tmp_path / "saved")
        data = read_labelled(tmp_path / "saved")
        assert opened(data) == [(7, 9)] * 4
        assert data.classes == ("a", "b")
        assert data.inputs[2].read() == data.inputs[2].read()


def test_an_array_is_opened_as_an_image():
    assert open_image(np.zeros((4, 5, 3), np.uint8)).size == (5, 4)
    with pytest.raises(MissingFileError):
        read_labelled("no/such/folder")
