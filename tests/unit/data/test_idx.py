import gzip

import numpy as np
import pytest
from data_files import idx_bytes, images, write_mnist

from icelens.data import idx
from icelens.data.names import DIGITS
from icelens.errors import FileError, MissingFileError


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 4, 5), (0, 2, 2)])
@pytest.mark.parametrize("gz", [False, True])
def test_any_shape_is_read_back(tmp_path, shape, gz):
    array = images(*shape)
    path = tmp_path / ("a.gz" if gz else "a")
    path.write_bytes(gzip.compress(idx_bytes(array)) if gz else idx_bytes(array))
    assert np.array_equal(idx.read_idx(path).numpy(), array)


@pytest.mark.parametrize("gz", [False, True])
def test_the_four_files_make_a_split(tmp_path, gz):
    pixels = write_mnist(tmp_path / "mnist", gz=gz)
    split = idx.read_split(tmp_path / "mnist", DIGITS)
    assert np.array_equal(split.train.inputs[:, 0].numpy(), pixels)
    assert split.test.labels.tolist() == [0, 1, 2, 3, 4, 5]
    assert split.train.inputs.shape == (6, 1, 28, 28)


GOOD = idx_bytes(images(2, 3, 4))


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (GOOD[:-1], r"truncated idx file; its header \(2, 3, 4\) means 40 bytes, it has 39"),
        (GOOD + b"x", r"overlong idx file; its header \(2, 3, 4\) means 40 bytes, it has 41"),
        (GOOD[:10], "truncated idx file; 3 dimensions need 16 bytes of header, it has 10"),
        (GOOD[:2], "truncated idx file; the header has at least 4 bytes, it has 2"),
        (b"\0\0\x0d" + GOOD[3:], "not an idx file of unsigned bytes; it starts with 00000d03, not 000008"),
        (GOOD[:4][::-1] + GOOD[4:], "not an idx file of unsigned bytes"),
    ],
)
@pytest.mark.parametrize("gz", [False, True])
def test_a_damaged_file_is_told_in_one_line(tmp_path, raw, message, gz):
    path = tmp_path / ("bad.gz" if gz else "bad")
    path.write_bytes(gzip.compress(raw, mtime=0) if gz else raw)
    with pytest.raises(FileError, match=message) as caught:
        idx.read_idx(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


# Without the time in its header, which would name the tests differently in each process.
PACKED = gzip.compress(GOOD, mtime=0)


@pytest.mark.parametrize("raw", [GOOD, PACKED[:-9], PACKED[:12] + b"\xff" * 20])
def test_a_damaged_gzip_file_is_told(tmp_path, raw):
    (tmp_path / "bad.gz").write_bytes(raw)
    with pytest.raises(FileError, match="damaged gzip file"):
        idx.read_idx(tmp_path / "bad.gz")


def test_a_split_tells_which_file_is_wrong(tmp_path):
    folder = tmp_path / "mnist"
    write_mnist(folder)
    labels = folder / "train-labels-idx1-ubyte"
    labels.write_bytes(idx_bytes(np.array([0, 1, 2, 3, 4, 10])))
    with pytest.raises(FileError, match=r"train-labels-idx1-ubyte: labels hold class 10 .* first at index 5"):
        idx.read_split(folder, DIGITS)
    labels.write_bytes(idx_bytes(np.zeros((5,))))
    with pytest.raises(FileError, match="train-labels-idx1-ubyte: 6 inputs but 5 labels"):
        idx.read_split(folder, DIGITS)
    labels.write_bytes(idx_bytes(np.zeros((6, 2))))
    with pytest.raises(FileError, match="labels need 1 dimensions, the file has 2"):
        idx.read_split(folder, DIGITS)
    labels.unlink()
    with pytest.raises(MissingFileError, match=r"no such file, nor train-labels-idx1-ubyte\.gz"):
        idx.read_split(folder, DIGITS)
