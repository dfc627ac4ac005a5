import numpy as np
import pytest
from data_files import images
from scipy.io import savemat

from icelens.data import svhn
from icelens.data.names import DIGITS
from icelens.errors import FileError


def write(path, labels, **changed):
    pixels = images(32, 32, 3, len(labels))
    savemat(path, {"X": pixels, "y": np.array(labels, np.uint8)[:, None], **changed})
    return pixels


def test_ten_means_zero_and_images_are_turned(tmp_path):
    pixels = write(tmp_path / "train_32x32.mat", [1, 10, 9])
    write(tmp_path / "test_32x32.mat", [2])
    split = svhn.read_split(tmp_path, DIGITS)
    assert split.train.labels.tolist() == [1, 0, 9]
    assert split.train.inputs.shape == (3, 3, 32, 32)
    assert split.train.inputs[1, 2, 5, 7] == pixels[5, 7, 2, 1]
    assert len(split.test) == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"X": np.zeros((32, 32, 3), np.uint8)}, r"X must be uint8 of shape \(32, 32, 3, N\)"),
        ({"X": np.zeros((32, 32, 3, 2))}, "got float64"),
        ({"X": np.zeros((32, 32, 3, 5), np.uint8)}, "5 inputs but 2 labels"),
        ({"y": np.array([[1], [11]])}, "labels hold class 11 .* first at index 1"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path, changed, message):
    write(tmp_path / "a.mat", [1, 2], **changed)
    with pytest.raises(FileError, match=message):
        svhn.read_mat(tmp_path / "a.mat", DIGITS)


def test_other_files_are_refused(tmp_path):
    (tmp_path / "a.mat").write_bytes(b"no matlab here" * 20)
    with pytest.raises(FileError, match=r"a\.mat: cannot be read as a MATLAB file"):
        svhn.read_mat(tmp_path / "a.mat", DIGITS)
    savemat(tmp_path / "b.mat", {"Z": np.zeros(1)})
    with pytest.raises(FileError, match="expected the arrays X and y, it has Z"):
        svhn.read_mat(tmp_path / "b.mat", DIGITS)
    write(tmp_path / "c.mat", [1, 2])
    (tmp_path / "c.mat").write_bytes((tmp_path / "c.mat").read_bytes()[:-100])
    with pytest.raises(FileError, match=r"c\.mat: cannot be read"):
        svhn.read_mat(tmp_path / "c.mat", DIGITS)
