import numpy as np
import pytest

from icelens.data import get, load, read_cifar10n
from icelens.errors import FileError, InputError, MissingFileError
from icelens.train import Recipe
from icelens.train.task import prepare

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


def write_cifar10(root, labels):
    folder = root / "cifar-10-batches-bin"
    folder.mkdir()
    for number, name in enumerate([*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]):
        rows = np.zeros((1, 3073), np.uint8)
        rows[:, 0] = labels[number] if number < 5 else 7
        rows.tofile(folder / f"{name}.bin")


@pytest.mark.parametrize("which", ["aggregate", "worst"])
def test_human_labels_are_the_given_ones_and_the_true_ones_come_along(tmp_path, which):
    clean = [3, 1, 4, 1, 5]
    write_cifar10(tmp_path, clean)
    columns = {"clean": clean, "aggregate": [3, 1, 4, 1, 9], "worst": [0, 1, 4, 1, 9]}
    np.savez(tmp_path / "cifar-10n.npz", **{name: np.array(c) for name, c in columns.items()})
    split = load(f"cifar10n-{which}", tmp_path)
    assert split.train.labels.tolist() == columns[which]
    assert split.clean_labels.tolist() == clean
    assert split.test.labels.tolist() == [7]
    recipe = Recipe(data=f"cifar10n-{which}", root=str(tmp_path), device="cpu")
    task = prepare(recipe)
    assert task.moved.tolist() == [given != true for given, true in zip(columns[which], clean, strict=True)]
    assert task.truth_is_known


def test_labels_of_other_images_are_refused(tmp_path):
    write_cifar10(tmp_path, [3, 1, 4, 1, 5])
    np.savez(tmp_path / "cifar-10n.npz", **{name: np.zeros(5, int) for name in GOOD})
    with pytest.raises(FileError, match="'clean' is not CIFAR-10's training labels in their order"):
        load("cifar10n-worst", tmp_path)


def test_they_are_not_fetched(tmp_path):
    with pytest.raises(
        InputError, match=r"cifar10n-worst is not fetched by icelens: see http://noisylabels\.com"
    ):
        get("cifar10n-worst", tmp_path)
    with pytest.raises(MissingFileError, match=r"cifar-10n\.npz: no such file; see http://noisylabels\.com"):
        load("cifar10n-worst", tmp_path)
