import shutil
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from text_files import write_encoder

from icelens.errors import FileError, InputError, MissingFileError
from icelens.models.encoder import load_encoder, load_tokenizer


def test_the_body_is_the_files_and_a_head_of_other_classes_is_new(encoder, capfd):
    model = load_encoder(encoder, 3)
    assert model.config.num_labels == 3
    assert model.classifier.weight.shape == (3, 16)
    saved = load_file(Path(encoder) / "model.safetensors")
    body = {name: value for name, value in model.state_dict().items() if not name.startswith("classifier")}
    assert len(body) > 10
    for name, value in body.items():
        assert torch.equal(value, saved[name]), name
    assert capfd.readouterr() == ("", "")


def test_the_head_follows_the_seed(encoder):
    heads = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        heads.append(load_encoder(encoder, 3).classifier.weight)
    assert torch.equal(heads[0], heads[1])
    assert not torch.equal(heads[0], heads[2])


def test_half_precision_on_the_disk_is_float32_in_memory(tmp_path):
    path = Path(write_encoder(tmp_path)) / "model.safetensors"
    save_file({k: v.half() for k, v in load_file(path).items()}, path, metadata={"format": "pt"})
    assert {p.dtype for p in load_encoder(tmp_path, 2).parameters()} == {torch.float32}


def under_the_names_of_ddp(saved):
    return {f"module.{name}": value for name, value in saved.items()}


def without_a_bias(saved):
    return {name: value for name, value in saved.items() if "query.bias" not in name}


def with_shorter_words(saved):
    return {name: value[:, :8].contiguous() if "word" in name else value for name, value in saved.items()}


@pytest.mark.parametrize(
    ("change", "first"),
    [
        (under_the_names_of_ddp, "embeddings.LayerNorm.bias"),
        (without_a_bias, "query.bias"),
        (with_shorter_words, "word_embeddings.weight"),
    ],
)
def test_a_body_that_is_not_all_in_the_files_is_refused(tmp_path, change, first):
    path = Path(write_encoder(tmp_path)) / "model.safetensors"
    save_file(change(load_file(path)), path, metadata={"format": "pt"})
    with pytest.raises(FileError, match=f"do not hold all weights .* the first is 'bert.*{first}'"):
        load_encoder(tmp_path, 2)


def test_files_without_head_and_pooler_are_taken(tmp_path):
    path = Path(write_encoder(tmp_path)) / "model.safetensors"
    saved = load_file(path)
    body = {name: value for name, value in saved.items() if "pooler" not in name and "classifier" not in name}
    save_file(body, path, metadata={"format": "pt"})
    assert set(body) < set(saved)
    read = load_encoder(tmp_path, 3).state_dict()
    assert all(torch.equal(read[name], value) for name, value in body.items())


@pytest.mark.parametrize("name", ["./here", "/no/where", "~/model", "a/b/c", Path("models/tiny")])
def test_a_folder_that_is_missing_is_not_looked_for_on_the_hub(name):
    for load in (load_tokenizer, lambda name: load_encoder(name, 2)):
        with pytest.raises(MissingFileError, match="no such folder; give a folder"):
            load(name)


def test_a_folder_with_other_things_is_refused(tmp_path):
    with pytest.raises(FileError, match="no encoder that can be loaded"):
        load_encoder(tmp_path, 2)
    with pytest.raises(FileError, match="no encoder that can be loaded"):
        load_tokenizer(tmp_path)


def test_weights_that_could_run_code_are_refused(tmp_path, encoder):
    shutil.copytree(encoder, tmp_path / "pickled")
    weights = load_file(tmp_path / "pickled" / "model.safetensors")
    (tmp_path / "pickled" / "model.safetensors").unlink()
    torch.save(weights, tmp_path / "pickled" / "pytorch_model.bin")
    with pytest.raises(FileError, match="safetensors"):
        load_encoder(tmp_path / "pickled", 2)


def test_a_name_that_the_hub_does_not_give_is_told(monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(
        MissingFileError, match="no-such/encoder: no such folder, and nothing came from the hub"
    ):
        load_tokenizer("no-such/encoder")


def test_without_transformers_it_says_what_to_install(encoder, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(InputError, match=r"pip install icelens\[text\]"):
        load_encoder(encoder, 2)


def test_a_tokenizer_without_padding_is_refused(tmp_path):
    write_encoder(tmp_path)
    config = tmp_path / "tokenizer_config.json"
    config.write_text(config.read_text().replace('"pad_token": "[PAD]"', '"pad_token": null'))
    with pytest.raises(InputError, match="has no padding token"):
        load_tokenizer(tmp_path)
