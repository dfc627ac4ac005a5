import re

import numpy as np
import pytest
import torch
from data_files import write_cifar10_binary, write_cifar10_python, write_mnist, write_tsv

from icelens.data import DATASETS, digits, load
from icelens.data.datasets import get
from icelens.errors import InputError, MissingFileError

NAMES = ["mnist", "fashion-mnist", "kmnist", "svhn", "cifar10", "cifar100",
         "cifar10n-aggregate", "cifar10n-worst",
         "cola", "sst2", "mrpc", "qqp", "mnli", "qnli", "rte", "wnli"]  # fmt: skip


def test_the_names():
    assert list(DATASETS) == ["digits", *NAMES]


@pytest.mark.parametrize("name", NAMES)
def test_every_source_is_complete(name):
    source = DATASETS[name]
    assert len(set(source.classes)) == len(source.classes) >= 2
    assert source.home.startswith("http")
    assert source.licence
    for remote in source.remotes:
        assert re.fullmatch(r"https?://\S+[^/]", remote.url)
        assert re.fullmatch(r"sha256:[0-9a-f]{64}", remote.checksum)
        assert remote.size > 0
        assert remote.folder in {layout.folder for layout in source.layouts}


def test_no_two_files_share_a_checksum():
    sums = [remote.checksum for source in DATASETS.values() for remote in source.remotes]
    assert len(sums) > 20
    assert len(set(sums)) == len(sums)


def test_class_names():
    assert len(DATASETS["cifar100"].classes) == 100
    assert list(DATASETS["cifar100"].classes) == sorted(DATASETS["cifar100"].classes)
    assert DATASETS["cifar10"].classes[9] == "truck"
    assert DATASETS["fashion-mnist"].classes[0] == "T-shirt/top"
    assert DATASETS["kmnist"].classes[8] == "re"


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_data_set_says_where_it_was_looked_for_and_what_to_do(tmp_path, name):
    with pytest.raises(MissingFileError) as caught:
        load(name, tmp_path)
    first = DATASETS[name].layouts[0]
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / first.folder / first.files[0]}: no such file; ")
    fetched = f"`icelens data get {name} --root {tmp_path}`" in message
    assert fetched == bool(DATASETS[name].remotes)
    assert DATASETS[name].home in message
    assert "\n" not in message


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(InputError, match="unknown data set 'cifar-10'; did you mean 'cifar10'"):
        load("cifar-10", "data")
    with pytest.raises(InputError, match="unknown data set 'digit'; did you mean 'digits'"):
        load("digit", "data")
    with pytest.raises(InputError, match="unknown data set"):
        get("mnits", "data")


def test_digits_are_at_hand_without_any_folder(tmp_path):
    split, source = load("digits", tmp_path / "absent"), DATASETS["digits"]
    assert torch.equal(split.train.inputs, digits().train.inputs)
    assert (len(split.train), len(split.test)) == source.rows
    assert split.test.classes == source.classes
    assert get("digits", tmp_path / "absent") == {}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("folder", ["kmnist", "KMNIST/raw"])
@pytest.mark.parametrize("gz", [False, True])
def test_idx_files_are_found_zipped_or_not_also_where_torchvision_puts_them(tmp_path, folder, gz):
    pixels = write_mnist(tmp_path / folder, gz=gz)
    split = load("kmnist", str(tmp_path))
    assert np.array_equal(split.train.inputs[:, 0].numpy(), pixels)
    assert split.train.classes[2] == "su"


def test_cifar_is_found_in_either_version(tmp_path):
    pixels = write_cifar10_python(tmp_path / "cifar-10-batches-py")
    assert np.array_equal(load("cifar10", tmp_path).test.inputs.numpy(), pixels[15:])
    write_cifar10_binary(tmp_path / "cifar-10-batches-bin")
    (tmp_path / "cifar-10-batches-py" / "test_batch").unlink()
    assert np.array_equal(load("cifar10", tmp_path).test.inputs.numpy(), pixels[15:])


def test_the_folder_that_is_begun_names_the_missing_file(tmp_path):
    write_cifar10_python(tmp_path / "cifar-10-batches-py")
    (tmp_path / "cifar-10-batches-py" / "data_batch_3").unlink()
    with pytest.raises(MissingFileError, match="cifar-10-batches-py/data_batch_3: no such file"):
        load("cifar10", tmp_path)


def test_mrpc_is_found_in_either_form(tmp_path):
    folder, header = tmp_path / "glue/MRPC", "Quality|#1 ID|#2 ID|#1 String|#2 String"
    write_tsv(folder / "msr_paraphrase_train.txt", header, "1|1|2|a|b", "0|3|4|c|d", bom=True)
    write_tsv(folder / "mrpc_dev_ids.tsv", "3|4")
    assert load("mrpc", tmp_path).train.inputs == [("a", "b")]
    write_tsv(folder / "train.tsv", header, "1|1|2|x|y")
    write_tsv(folder / "dev.tsv", header, "1|1|2|x|y")
    assert load("mrpc", tmp_path).train.inputs == [("x", "y")]


def test_a_tsv_that_is_zipped_is_not_taken_for_there(tmp_path):
    write_tsv(tmp_path / "glue/RTE/train.tsv.gz", "x")
    write_tsv(tmp_path / "glue/RTE/dev.tsv", "x")
    with pytest.raises(MissingFileError, match=r"RTE/train\.tsv: no such file"):
        load("rte", tmp_path)
