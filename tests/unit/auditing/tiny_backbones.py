"""Random encoders of one layer for texts and images, as `save_pretrained` writes them, and data for them."""

import json

import numpy as np
import torch

from icelens.data import Labelled

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
WORDS = [
    "the",
    "a",
    "film",
    "was",
    "it",
    "very",
    "good",
    "bad",
    "and",
    "then",
    "some",
    "day",
    "never",
    "again",
]
SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
PREPROCESSOR = {
    "image_processor_type": "ViTImageProcessor", "size": {"height": 16, "width": 16}, "do_resize": True,
    "do_rescale": True, "do_normalize": True, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4],
}  # fmt: skip


def labelled(kind, inputs):
    """Data with labels that nothing here looks at."""
    count = len(inputs)
    ids = np.array([f"example {row}" for row in range(count)], object)
    return Labelled(kind, inputs, np.arange(count) % 2, ("no", "yes"), ids, np.arange(count), name="mine")


def sentences(count, seed=0, columns=1):
    """Texts of 1 to 20 words."""
    generator = np.random.default_rng(seed)
    draw = lambda: " ".join(generator.choice(WORDS, generator.integers(1, 21)))  # noqa: E731
    return labelled("text", [tuple(draw() for _ in range(columns)) for _ in range(count)])


def pictures(count, seed=0):
    """Colour images of 20 x 12 pixels."""
    generator = np.random.default_rng(seed)
    return labelled("image", generator.integers(0, 256, (count, 20, 12, 3), dtype=np.uint8))


def write_tokenizer(folder, *, special=True):
    """Of words; with `special` a text begins and ends with tokens of its own."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: number for number, word in enumerate([*SPECIAL, *WORDS])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if special:
        tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    names["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)


def write_bert(folder, *, seed=0, positions=64, special=True):
    """BERT of one layer; its tokenizer names no limit, the encoder has one."""
    from transformers import BertConfig, BertModel

    write_tokenizer(folder, special=special)
    torch.manual_seed(seed)
    words = len(SPECIAL) + len(WORDS)
    BertModel(BertConfig(vocab_size=words, max_position_embeddings=positions, **SMALL)).save_pretrained(
        folder
    )
    return folder


def write_preprocessor(folder, **changes):
    """How images are prepared, for any encoder of 16 x 16 pixels."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "preprocessor_config.json").write_text(json.dumps({**PREPROCESSOR, **changes}))
    return folder


def write_vit(folder, *, make="ViTModel"):
    """A vision transformer of one layer; as `ViTForImageClassification` its file holds no pooler."""
    import transformers

    config = transformers.ViTConfig(image_size=16, patch_size=8, **SMALL)
    torch.manual_seed(0)
    getattr(transformers, make)(config).save_pretrained(folder)
    return write_preprocessor(folder)
