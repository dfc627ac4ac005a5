"""Data that could not be had here: its experiments run from files in the published formats."""

import dataclasses

import numpy as np
import pytest
from data_files import idx_bytes
from scipy.io import savemat

from icelens.reproduce.experiment import Place, read_experiment
from icelens.reproduce.runner import run_experiment
from icelens.reproduce.store import read_trials

TRAIN, TEST = 60, 20
LABELS = np.random.default_rng(0).permutation(np.arange(TRAIN + TEST) % 10).astype(np.uint8)


def write_kmnist(root):
    folder = root / "kmnist"
    folder.mkdir()
    pixels = np.random.default_rng(1).integers(256, size=(TRAIN + TEST, 28, 28), dtype=np.uint8)
    for part, rows in (("train", slice(TRAIN)), ("t10k", slice(TRAIN, None))):
        (folder / f"{part}-images-idx3-ubyte").write_bytes(idx_bytes(pixels[rows]))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(idx_bytes(LABELS[rows]))


def write_svhn(root):
    folder = root / "svhn"
    folder.mkdir()
    pixels = np.random.default_rng(2).integers(256, size=(32, 32, 3, TRAIN + TEST), dtype=np.uint8)
    # There the digit 0 is class 10.
    classes = np.where(LABELS == 0, 10, LABELS)[:, None]
    for part, rows in (("train", slice(TRAIN)), ("test", slice(TRAIN, None))):
        savemat(folder / f"{part}_32x32.mat", {"X": pixels[..., rows], "y": classes[rows]})


@pytest.mark.parametrize(
    ("data", "write"),
    [("kmnist", write_kmnist), pytest.param("svhn", write_svhn, marks=pytest.mark.slow)],
)
def test_table_1_runs_from_the_published_files(data, write, tmp_path):
    write(tmp_path)
    experiment = read_experiment(f"table1-{data}")
    short = {"iterations": 3, "batch_size": 16, "evaluations": 1, "warmup": 1}
    experiment = dataclasses.replace(experiment, train={**experiment.train, **short})
    place = Place(tmp_path, tmp_path / "results", tmp_path / "work", "cpu")
    assert run_experiment(experiment, place, trials=1, methods=["cross_entropy", "ice_linear"]) == 2
    records = read_trials(tmp_path / "results", "table1")
    assert [record["data"] for record in records] == [data, data]
    assert all(0 <= record["accuracy"] <= 1 for record in records)
    assert (tmp_path / "results" / "figures" / f"ridgeline_{data}_ice_linear.npz").exists()
