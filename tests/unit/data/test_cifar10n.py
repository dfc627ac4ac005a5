import numpy as np
import pytest

from icelens.data import read_cifar10n
from icelens.errors import FileError, MissingFileError

GOOD = {name: np.array([0, 9, 3], np.uint8) for name in ("aggregate", "worst", "clean")}


def test_three_columns_of_labels(tmp_path):
    np.savez(tmp_path / "n.npz", **{**GOOD, "worst": np.array([1, 1, 1])})
    labels = read_cifar10n(tmp_path / "n.npz")
    assert labels["worst"].tolist() == [1, 1, 1]
    assert labels["clean"].tolist() == [0, 9, 3]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"worst": np.array([1, 1])}, r"'worst' has shape \(2,\) and 'clean' \(3,\)"),
        ({"worst": np.array([1, 10, 1])}, "'worst' holds class 10; first at index 1"),
        ({"worst": np.array([{}, 1, 1])}, r"not an \.npz file"),
    ],
)
def test_labels_that_do_not_fit_are_refused(tmp_path, changed, message):
    np.savez(tmp_path / "n.npz", **{**GOOD, **changed})
    with pytest.raises(FileError, match=message):
        read_cifar10n(tmp_path / "n.npz")


def test_other_files_are_refused(tmp_path):
    with pytest.raises(MissingFileError, match=r"noisylabels\.com"):
        read_cifar10n(tmp_path / "n.npz")
    (tmp_path / "n.npz").write_bytes(b"PK no zip")
    with pytest.raises(FileError, match=r"not an \.npz file"):
        read_cifar10n(tmp_path / "n.npz")
    np.savez(tmp_path / "n.npz", clean=GOOD["clean"], aggregate=GOOD["clean"])
    with pytest.raises(FileError, match="no array 'worst'; arrays are clean, aggregate"):
        read_cifar10n(tmp_path / "n.npz")
