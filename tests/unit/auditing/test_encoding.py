import io
import json
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from tiny_backbones import (
    SMALL,
    labelled,
    pictures,
    sentences,
    write_bert,
    write_preprocessor,
    write_tokenizer,
    write_vit,
)

from icelens.auditing.encoding import image_encoder, text_encoder
from icelens.data import open_image
from icelens.errors import FileError, InputError

CPU = torch.device("cpu")


def encoded(data, name):
    """All examples in one batch."""
    return (text_encoder if data.kind == "text" else image_encoder)(data, name, CPU)(np.arange(len(data)))


def one_by_one(data, name):
    encode = (text_encoder if data.kind == "text" else image_encoder)(data, name, CPU)
    return torch.cat([encode(np.array([row])) for row in range(len(data))])


@pytest.mark.parametrize("columns", [1, 2])
def test_padding_changes_nothing(bert, columns):
    data = sentences(12, columns=columns)
    assert len({len(" ".join(text).split()) for text in data.inputs}) > 5
    torch.testing.assert_close(encoded(data, bert), one_by_one(data, bert), atol=1e-5, rtol=0)


def test_a_text_is_the_mean_of_its_tokens(bert):
    from transformers import BertModel

    network = BertModel.from_pretrained(bert).eval()
    with torch.no_grad():
        ids = torch.tensor([[2, 4, 10, 3]])  # [CLS] the good [SEP]
        expected = network(input_ids=ids).last_hidden_state.mean(1)
    data = labelled("text", [("the good",), ("then it was a very bad day",)])
    torch.testing.assert_close(encoded(data, bert)[:1], expected, atol=1e-5, rtol=0)


def test_a_pair_is_read_as_two_segments(bert):
    pair, joined = labelled("text", [("the good", "a film")]), labelled("text", [("the good a film",)])
    swapped = labelled("text", [("a film", "the good")])
    assert not torch.allclose(encoded(pair, bert), encoded(joined, bert), atol=1e-3)
    assert not torch.allclose(encoded(pair, bert), encoded(swapped, bert), atol=1e-3)


def test_a_text_is_cut_at_what_the_encoder_takes(tmp_path):
    name = write_bert(tmp_path, positions=8)
    whole = labelled("text", [("the good film was very then and never",)])
    cut = labelled("text", [("the good film was very then",)])  # and [CLS] and [SEP]
    assert torch.equal(encoded(whole, name), encoded(cut, name))


def test_a_text_is_cut_at_256_tokens(tmp_path):
    name = write_bert(tmp_path, positions=512)
    whole, cut = labelled("text", [("good " * 254 + "bad",)]), labelled("text", [("good " * 254,)])
    longer = labelled("text", [("good " * 253 + "bad",)])
    assert torch.equal(encoded(whole, name), encoded(cut, name))
    assert not torch.equal(encoded(whole, name), encoded(longer, name))


def test_a_text_without_tokens_is_a_vector_like_any_other(tmp_path):
    name = write_bert(tmp_path, special=False)
    data = labelled("text", [("",), ("good film",), (" ",)])
    together, alone = encoded(data, name), one_by_one(data, name)
    assert torch.isfinite(together).all()
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=0)


def test_an_encoder_that_takes_less_than_its_tokenizer_gives(bert, monkeypatch):
    from transformers import BertModel

    data, forward = sentences(5), BertModel.forward
    expected = encoded(data, bert)  # segments are all 0, as they are where none are given

    def strict(self, input_ids, attention_mask):
        return forward(self, input_ids=input_ids, attention_mask=attention_mask)

    monkeypatch.setattr(BertModel, "forward", strict)
    assert torch.equal(encoded(data, bert), expected)


def test_an_image_is_the_pooled_output_of_its_prepared_pixels(vit):
    from PIL import Image
    from transformers import ViTModel

    data, pixels = pictures(3), []
    for image in data.inputs:
        resized = np.asarray(Image.fromarray(image).resize((16, 16), Image.Resampling.BILINEAR)) / 255
        pixels.append((resized - [0.5, 0.4, 0.3]) / [0.2, 0.3, 0.4])
    prepared = torch.tensor(np.stack(pixels), dtype=torch.float32).permute(0, 3, 1, 2)
    with torch.no_grad():
        expected = ViTModel.from_pretrained(vit).eval()(prepared).pooler_output
    torch.testing.assert_close(encoded(data, vit), expected, atol=1e-5, rtol=1e-4)


def test_a_pooler_that_is_not_in_the_file_is_not_used(tmp_path):
    name = write_vit(tmp_path, make="ViTForImageClassification")
    data, found = pictures(3), []
    for seed in (0, 1):  # of what transformers would draw
        torch.manual_seed(seed)
        found.append(encoded(data, name))
    assert torch.equal(*found)
    assert found[0].shape == (3, 16)


def test_files_bytes_and_arrays_of_an_image_are_the_same(vit, tmp_path):
    grey = pictures(3).inputs[..., 0]
    paths, files = [], []
    for number, pixels in enumerate(grey):
        paths.append(tmp_path / f"{number}.png")
        open_image(pixels).save(paths[-1])
        files.append(io.BytesIO(paths[-1].read_bytes()))
    expected = encoded(labelled("image", np.stack([grey] * 3, -1)), vit)
    for inputs in (grey, grey[..., None], paths, files):
        torch.testing.assert_close(encoded(labelled("image", inputs), vit), expected)


def test_a_picture_is_the_same_however_its_file_holds_it(vit):
    """In the colour, in the transparency of black ink, in the lowest 8 of 16 bits, as floats up to 1."""
    plain = np.arange(256, dtype=np.uint8).reshape(16, 16)
    ink = np.stack([np.zeros_like(plain), 255 - plain], -1)
    held = [plain, ink, plain.astype(np.uint16), plain.astype(np.float32) / 255]
    files = []
    for pixels, ending in zip(held, ("PNG", "PNG", "PNG", "TIFF"), strict=True):
        Image.fromarray(pixels).save(file := io.BytesIO(), ending)
        files.append(io.BytesIO(file.getvalue()))
    vectors = encoded(labelled("image", files), vit)
    assert not torch.allclose(vectors[:1], encoded(labelled("image", [0 * plain]), vit), atol=1e-3)
    torch.testing.assert_close(vectors, vectors[:1].expand_as(vectors), atol=1e-3, rtol=0)


def test_a_convolutional_encoder(tmp_path):
    from transformers import ResNetConfig, ResNetModel

    config = ResNetConfig(embedding_size=8, hidden_sizes=[8, 12], depths=[1, 1], layer_type="basic")
    ResNetModel(config).save_pretrained(tmp_path)
    write_preprocessor(tmp_path)
    assert encoded(pictures(3), tmp_path).shape == (3, 12)


def test_an_encoder_of_both_reads_texts_by_one_tower_and_images_by_the_other(tmp_path):
    from transformers import CLIPConfig, CLIPModel

    text = {**SMALL, "vocab_size": 18, "max_position_embeddings": 24, "eos_token_id": 3}
    vision = {**SMALL, "hidden_size": 8, "image_size": 16, "patch_size": 8}
    CLIPModel(CLIPConfig(text_config=text, vision_config=vision)).save_pretrained(tmp_path)
    write_tokenizer(tmp_path)
    write_preprocessor(tmp_path)
    assert encoded(pictures(3), tmp_path).shape == (3, 8)
    data = sentences(5)
    assert encoded(data, tmp_path).shape == (5, 16)
    torch.testing.assert_close(encoded(data, tmp_path), one_by_one(data, tmp_path), atol=1e-5, rtol=0)


def test_an_encoder_of_the_other_kind_is_refused(bert, vit):
    with pytest.raises(InputError, match="this encoder reads images, but the examples are texts"):
        encoded(sentences(2), vit)
    with pytest.raises(InputError, match="this encoder reads texts, but the examples are images"):
        encoded(pictures(2), bert)


def test_a_model_that_is_no_encoder_is_refused(tmp_path):
    from transformers import T5Config, T5Model

    T5Model(T5Config(vocab_size=18, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2)).save_pretrained(
        tmp_path
    )
    with pytest.raises(InputError, match=r"a model with a decoder \(t5\), not an encoder"):
        encoded(sentences(2), tmp_path)


def test_weights_that_are_missing_or_of_another_shape_are_told(tmp_path):
    path = write_bert(tmp_path) / "config.json"
    settings = json.loads(path.read_text())
    for change in ({"num_hidden_layers": 2}, {"intermediate_size": 48}):
        path.write_text(json.dumps({**settings, **change}))
        with pytest.raises(FileError, match=r"\d+ are wrong, the first is 'encoder\.layer"):
            encoded(sentences(2), tmp_path)


def test_damaged_weights_are_told_in_a_line(tmp_path):
    path = write_bert(tmp_path) / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(FileError, match=r"no encoder that can be loaded: .*incomplete") as told:
        encoded(sentences(2), tmp_path)
    assert "\n" not in str(told.value)


def test_without_a_preprocessor_it_says_so(tmp_path):
    (write_vit(tmp_path) / "preprocessor_config.json").unlink()
    with pytest.raises(FileError, match=r"no preprocessor_config\.json"):
        encoded(pictures(2), tmp_path)


def test_images_that_the_encoder_does_not_take_are_told(tmp_path):
    write_preprocessor(write_vit(tmp_path), size={"height": 24, "width": 24})
    with pytest.raises(FileError, match="does not take what its own files prepare: Input image size"):
        encoded(pictures(2), tmp_path)


def test_images_left_at_different_sizes_are_told(tmp_path):
    write_preprocessor(write_vit(tmp_path), do_resize=False)
    images = [io.BytesIO(), io.BytesIO()]
    for file, side in zip(images, (16, 24), strict=True):
        open_image(np.zeros((side, side), np.uint8)).save(file, "PNG")
    with pytest.raises(FileError, match="leaves images at different sizes"):
        encoded(labelled("image", images), tmp_path)


def test_a_broken_image_is_named(vit):
    with pytest.raises(FileError, match="mine: image 'example 1' cannot be read"):
        encoded(labelled("image", [*pictures(1).inputs, io.BytesIO(b"no image")]), vit)


def test_without_transformers_it_says_what_to_install(bert, vit, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    for data, name in ((sentences(2), bert), (pictures(2), vit)):
        with pytest.raises(InputError, match=r"encoders need transformers: pip install icelens\[text\]"):
            encoded(data, name)
