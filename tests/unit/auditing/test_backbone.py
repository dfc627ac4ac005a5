import functools
import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_backbones import labelled, pictures, sentences, write_bert

from icelens.auditing import backbone
from icelens.auditing.backbone import embed
from icelens.auditing.encoding import text_encoder
from icelens.auditing.fit import fit
from icelens.data import open_image
from icelens.errors import FileError, InputError, MissingFileError
from icelens.models.encoder import fingerprint_of

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(backbone, "CHUNK", 6)
    monkeypatch.setattr(backbone, "BATCH", 3)


@pytest.fixture
def forwards(monkeypatch):
    """Counts the batches that the encoders see; a number in `stop` is the one that is interrupted."""
    from transformers import BertModel, ViTModel

    seen = {"batches": 0, "stop": None}

    def counting(forward):
        @functools.wraps(forward)
        def counted(*arguments, **settings):
            seen["batches"] += 1
            if seen["batches"] == seen["stop"]:
                raise KeyboardInterrupt
            return forward(*arguments, **settings)

        return counted

    for kind in (BertModel, ViTModel):
        monkeypatch.setattr(kind, "forward", counting(kind.forward))
    return seen


def test_columns_are_standardised_and_rows_stay_where_they_were(bert):
    data = sentences(20)
    features = embed(data, bert, CPU)
    assert features.values.shape == (20, 16)
    assert features.values.dtype == torch.float32
    torch.testing.assert_close(features.values.mean(0), torch.zeros(16), atol=1e-5, rtol=0)
    torch.testing.assert_close(features.values.std(0, unbiased=False), torch.ones(16), atol=1e-4, rtol=0)
    raw = text_encoder(data, bert, CPU)(np.arange(20))
    expected = (raw - raw.mean(0)) / raw.std(0, unbiased=False)
    torch.testing.assert_close(features.values, expected, atol=1e-3, rtol=1e-3)


def test_an_audit_can_learn_from_it(bert):
    data = labelled("text", [("good film" if row % 2 else "bad day",) for row in range(40)])
    run = fit(embed(data, bert, CPU), torch.from_numpy(data.labels), 2)
    assert (run.log_p.argmax(1) == data.labels).all()


@pytest.mark.parametrize("make", [sentences, pictures])
def test_a_second_call_reads_the_file_and_runs_nothing(bert, vit, tmp_path, forwards, make):
    data, name = make(20), bert if make is sentences else vit
    first = embed(data, name, CPU, tmp_path)
    assert forwards["batches"] == 7  # chunks of 6, 6, 6 and 2 in batches of 3
    assert [path.suffix for path in tmp_path.iterdir()] == [".npy"]
    second = embed(data, str(name), CPU, tmp_path)
    assert forwards["batches"] == 7
    assert torch.equal(first.values, second.values)


def test_other_labels_and_ids_do_not_matter_to_it(bert, tmp_path, forwards):
    data = sentences(20)
    embed(data, bert, CPU, tmp_path)
    seen = forwards["batches"]
    embed(
        replace(data, labels=data.labels[::-1].copy(), ids=np.arange(20).astype(object)), bert, CPU, tmp_path
    )
    assert forwards["batches"] == seen


def test_the_file_of_other_texts_is_not_used(bert, tmp_path):
    data = sentences(20)
    embed(data, bert, CPU, tmp_path)
    changed = [*data.inputs]
    changed[7] = ("never again",)
    for others in (changed, data.inputs[::-1], data.inputs[:-1], [(text, "") for (text,) in data.inputs]):
        other = labelled("text", others)
        assert torch.equal(embed(other, bert, CPU, tmp_path).values, embed(other, bert, CPU).values)
    assert len(list(tmp_path.iterdir())) == 5


def test_the_file_of_another_backbone_is_not_used_even_in_the_same_folder(tmp_path):
    data, name = sentences(20), write_bert(tmp_path / "model")
    first = embed(data, name, CPU, tmp_path / "cache")
    write_bert(name, seed=1)
    second = embed(data, name, CPU, tmp_path / "cache")
    assert not torch.allclose(first.values, second.values, atol=0.1)
    assert torch.equal(second.values, embed(data, name, CPU).values)


def test_an_encoder_of_the_hub_is_known_by_its_revision(tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    model = tmp_path / "models--some--encoder"
    for revision in ("a" * 40, "b" * 40):
        write_bert(model / "snapshots" / revision)
        (model / "refs").mkdir(exist_ok=True)
        (model / "refs" / "main").write_text(revision)
        assert fingerprint_of("some/encoder") == f"some/encoder@{revision}"
    with pytest.raises(MissingFileError, match="no/encoder: no such folder, and nothing came from the hub"):
        fingerprint_of("no/encoder")


@pytest.mark.parametrize("make", [sentences, pictures])
def test_an_embedding_that_was_stopped_goes_on(bert, vit, tmp_path, forwards, make):
    data, name = make(20), bert if make is sentences else vit
    whole = embed(data, name, CPU)
    forwards.update(batches=0, stop=4)
    with pytest.raises(KeyboardInterrupt):
        embed(data, name, CPU, tmp_path)
    assert [path.suffix for path in tmp_path.iterdir()] == [".parts"]
    forwards.update(batches=0, stop=None)
    assert torch.equal(embed(data, name, CPU, tmp_path).values, whole.values)
    assert forwards["batches"] == 5  # the first chunk, of two batches, was kept
    assert [path.suffix for path in tmp_path.iterdir()] == [".npy"]


def test_parts_of_other_data_are_not_gone_on_from(bert, tmp_path, forwards):
    forwards["stop"] = 4
    with pytest.raises(KeyboardInterrupt):
        embed(sentences(20), bert, CPU, tmp_path)
    forwards["stop"] = None
    other = sentences(20, seed=1)
    assert torch.equal(embed(other, bert, CPU, tmp_path).values, embed(other, bert, CPU).values)


@pytest.mark.parametrize("damage", [lambda raw: raw[:200], lambda raw: b"", lambda raw: b"PK" + raw])
def test_a_damaged_file_is_made_again(bert, tmp_path, damage):
    data = sentences(20)
    first = embed(data, bert, CPU, tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    assert torch.equal(embed(data, bert, CPU, tmp_path).values, first.values)
    assert np.load(path).shape == (20, 16)


def test_an_image_file_that_changed_is_read_again(vit, tmp_path):
    paths = []
    for number, pixels in enumerate(pictures(8).inputs):
        paths.append(tmp_path / f"{number}.png")
        open_image(pixels).save(paths[-1])
    data, cache = labelled("image", paths), tmp_path / "cache"
    first = embed(data, vit, CPU, cache)
    os.utime(paths[0], (1, 1))
    assert torch.equal(embed(data, vit, CPU, cache).values, first.values)
    open_image(np.zeros((20, 12, 3), np.uint8)).save(paths[3])
    assert not torch.allclose(embed(data, vit, CPU, cache).values, first.values)
    assert len(list(cache.iterdir())) == 3
    paths[5].unlink()
    with pytest.raises(MissingFileError, match=r"5\.png: No such file"):
        embed(data, vit, CPU, cache)


def test_a_table_is_refused(bert):
    with pytest.raises(InputError, match="mine: a backbone reads texts or images, but this is a table"):
        embed(labelled("table", np.zeros((4, 2), np.float32)), bert, CPU)


def test_a_backbone_that_is_missing_is_told_with_a_cache_too(tmp_path):
    for cache in (None, tmp_path):
        with pytest.raises(MissingFileError, match="no such folder; give a folder with an encoder"):
            embed(sentences(4), tmp_path / "nowhere", CPU, cache)


def test_numbers_that_are_not_finite_are_told(tmp_path):
    from safetensors.torch import load_file, save_file

    path = write_bert(tmp_path / "model") / "model.safetensors"
    weights = load_file(path)
    weights["embeddings.word_embeddings.weight"][8] = torch.nan
    save_file(weights, path, metadata={"format": "pt"})
    data = labelled("text", [("the film",), ("it",), ("a day",)])
    with pytest.raises(FileError, match="no finite numbers for example 'example 1'"):
        embed(data, tmp_path / "model", CPU, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
