import os
import pickle
import sys

import numpy as np
import pytest
from data_files import cifar_record, images, write_cifar10_binary, write_cifar10_python

from icelens.data import cifar, cifar_pickle
from icelens.data.names import CIFAR10, CIFAR100
from icelens.errors import FileError


@pytest.mark.parametrize(
    ("write", "read"),
    [
        (write_cifar10_binary, cifar.read_ten_binary),
        (write_cifar10_python, cifar.read_ten_python),
    ],
)
def test_rows_keep_the_order_of_the_batches(tmp_path, write, read):
    pixels = write(tmp_path / "c")
    split = read(tmp_path / "c", CIFAR10)
    assert np.array_equal(split.train.inputs.numpy(), pixels[:15])
    assert np.array_equal(split.test.inputs.numpy(), pixels[15:])
    assert split.train.labels.tolist() == [row % 10 for row in range(15)]
    assert split.test.labels.tolist() == [5, 6, 7]


def write_hundred(folder, kind):
    pixels = images(4, 3, 32, 32)
    for name in ("train", "test"):
        if kind == "binary":
            raw = b"".join(cifar_record([1, 90 + i], pixels[i]) for i in range(4))
            (folder / f"{name}.bin").write_bytes(raw)
        else:
            labels = {b"coarse_labels": [1] * 4, b"fine_labels": [90, 91, 92, 93]}
            (folder / name).write_bytes(pickle.dumps({b"data": pixels.reshape(4, -1), **labels}, protocol=2))
    return pixels


@pytest.mark.parametrize("kind", ["binary", "python"])
def test_cifar100_takes_the_fine_label(tmp_path, kind):
    pixels = write_hundred(tmp_path, kind)
    read = cifar.read_hundred_binary if kind == "binary" else cifar.read_hundred_python
    split = read(tmp_path, CIFAR100)
    assert split.train.labels.tolist() == [90, 91, 92, 93]
    assert np.array_equal(split.test.inputs.numpy(), pixels)


@pytest.mark.parametrize(("change", "seen"), [(-1, 9218), (1, 9220)])
def test_a_cut_or_overlong_batch_is_told(tmp_path, change, seen):
    write_cifar10_binary(tmp_path / "c")
    path = tmp_path / "c" / "data_batch_2.bin"
    path.write_bytes(path.read_bytes()[:change] if change < 0 else path.read_bytes() + b"x")
    with pytest.raises(
        FileError, match=rf"data_batch_2\.bin: expected a multiple of 3073 bytes .* has {seen}"
    ):
        cifar.read_ten_binary(tmp_path / "c", CIFAR10)


def test_a_batch_cut_between_records_is_told(tmp_path):
    write_cifar10_binary(tmp_path / "c")
    path = tmp_path / "c" / "data_batch_2.bin"
    path.write_bytes(path.read_bytes()[:-3073])
    with pytest.raises(FileError, match=r"data_batch_2\.bin: 2 images, but data_batch_1\.bin has 3"):
        cifar.read_ten_binary(tmp_path / "c", CIFAR10)


def test_a_wrong_label_names_its_file_and_row(tmp_path):
    write_cifar10_binary(tmp_path / "c")
    path = tmp_path / "c" / "data_batch_3.bin"
    raw = bytearray(path.read_bytes())
    raw[3073] = 10
    path.write_bytes(raw)
    with pytest.raises(FileError, match=r"data_batch_3\.bin: labels hold class 10 .* first at index 1"):
        cifar.read_ten_binary(tmp_path / "c", CIFAR10)


class Evil:
    def __reduce__(self):
        return os.system, ("touch hacked",)


class EvilCodec:
    def __reduce__(self):
        import _codecs

        return _codecs.encode, ("x", "rot13")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (Evil(), r"refused to load '\w+\.system'"),
        ({b"data": EvilCodec()}, "codec 'rot13' is not allowed"),
        ({b"data": sys.exit}, "refused to load"),
        ([1, 2], "not a CIFAR batch; expected a dict with 'data' and 'labels'"),
        ({b"data": 3, b"labels": []}, "'data' must be a uint8 array"),
        ({b"data": np.zeros((1, 3072), np.uint8), b"labels": ["cat"]}, "'labels' must be a list of integers"),
    ],
)
def test_a_pickle_with_anything_else_is_refused(tmp_path, monkeypatch, content, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "batch").write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(FileError, match=message):
        cifar_pickle.read_batch(tmp_path / "batch", b"labels")
    assert not (tmp_path / "hacked").exists()


@pytest.mark.parametrize("raw", [b"", b"no pickle", b"\x80\x02}"])
def test_a_damaged_pickle_is_told(tmp_path, raw):
    (tmp_path / "batch").write_bytes(raw)
    with pytest.raises(FileError, match="cannot be read as a CIFAR batch"):
        cifar_pickle.read_batch(tmp_path / "batch", b"labels")


def test_the_published_pickles_of_python_2_are_read(tmp_path):
    # As Python 2 wrote them: keys and bytes are `str`, and numpy's module has its name of before numpy 2.
    pixels = images(2, 3072)
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\nq\x01cnumpy\nndarray\nq\x02K\x00\x85U\x01b\x87R(K\x01"
        b"K\x02M\x00\x0c\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89T" + len(pixels.tobytes()).to_bytes(4, "little") + pixels.tobytes() + b"tb"
    )
    raw = b"\x80\x02}(U\x04data" + array + b"U\x06labels](K\x03K\x04eu."
    (tmp_path / "batch").write_bytes(raw)
    read, labels = cifar_pickle.read_batch(tmp_path / "batch", b"labels")
    assert np.array_equal(read.numpy().reshape(2, -1), pixels)
    assert labels.tolist() == [3, 4]
