"""Small files in GLUE's format for all eight tasks, the rows of a trial, and a tiny random BERT."""

import numpy as np
import torch

from icelens.data import DATASETS
from icelens.data.glue import TASKS

GOOD, BAD = ["good", "fine", "great"], ["bad", "poor", "awful"]
FILLERS = ["the", "a", "film", "was", "it", "very", "and", "then", "some", "day"]


def texts(count, seed, classes):
    """Words drawn at random, and a word that gives the class away."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda words: words[int(torch.randint(len(words), (), generator=generator))]  # noqa: E731
    rows = []
    for _ in range(count):
        label = int(torch.randint(classes, (), generator=generator))
        length = int(torch.randint(1, 12, (), generator=generator))
        hint = draw((BAD, GOOD, FILLERS)[label])
        rows.append((label, " ".join([*(draw(FILLERS) for _ in range(length)), hint]), f"{hint} it was"))
    return rows


def write_rows(path, **scores):
    """What a trial keeps of its training rows; class 0 is all that it guesses."""
    guess = np.zeros(len(next(iter(scores.values()))), np.int8)
    np.savez_compressed(path, guess=guess, **{name: np.float32(values) for name, values in scores.items()})
    return path


def write_task(root, data, *, train=40, test=12):
    """A folder of GLUE for one task, as `icelens.data.load` finds it."""
    task, folder = TASKS[data], root / DATASETS[data].layouts[0].folder
    folder.mkdir(parents=True, exist_ok=True)
    columns = task.columns or ("index", *task.texts, task.label)
    for seed, (name, count) in enumerate([("train.tsv", train), *((name, test) for name in task.tests)]):
        lines = [] if task.columns else ["\t".join(columns)]
        for number, (label, first, second) in enumerate(texts(count, seed, len(task.classes))):
            values = {**dict(zip(task.texts, (first, second), strict=False)), task.label: task.values[label]}
            lines.append("\t".join(values.get(column, str(number)) for column in columns))
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return root


def write_encoder(folder, *, dropout=0.1):
    """A random BERT of one layer with a WordPiece tokenizer, as `save_pretrained` writes them."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {word: number for number, word in enumerate([*special, *GOOD, *BAD, *FILLERS])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=128, **names,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )  # fmt: skip
    fast.save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=128, num_labels=2,
        hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
    )  # fmt: skip
    torch.manual_seed(0)
    BertForSequenceClassification(config).save_pretrained(folder)
    return str(folder)
