"""A text and an image classifier of one layer, data for them, and the settings all tests share."""

import torch
from torch import nn
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    TrainingArguments,
    ViTConfig,
    ViTForImageClassification,
)

CLASSES = 3
SMALL = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16,
         "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "num_labels": CLASSES}  # fmt: skip


def text_model(seed=0):
    torch.manual_seed(seed)
    return BertForSequenceClassification(BertConfig(vocab_size=30, max_position_embeddings=16, **SMALL))


def image_model(seed=0):
    torch.manual_seed(seed)
    return ViTForImageClassification(ViTConfig(image_size=4, patch_size=2, **SMALL))


class Network(nn.Module):
    """Not of transformers: all that is asked is an output with logits."""

    def __init__(self, dtype=torch.float64):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(48, 8), nn.Tanh(), nn.Linear(8, CLASSES)).to(
            dtype
        )

    def forward(self, pixel_values, labels=None):
        return {"logits": self.layers(pixel_values)}


def texts(count, seed=0, length=6):
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, 30, (count, length), generator=draw)
    labels = torch.randint(CLASSES, (count,), generator=draw).tolist()
    ones = [1] * length
    return [
        {"input_ids": row, "attention_mask": ones, "label": label}
        for row, label in zip(ids.tolist(), labels, strict=True)
    ]


def images(count, seed=0, dtype=torch.float32):
    draw = torch.Generator().manual_seed(seed)
    pixels = torch.randn(count, 3, 4, 4, generator=draw, dtype=dtype)
    labels = torch.randint(CLASSES, (count,), generator=draw).tolist()
    return [{"pixel_values": x, "label": label} for x, label in zip(pixels, labels, strict=True)]


def arguments(folder, **changes):
    settings = {
        "output_dir": str(folder),
        "use_cpu": True,
        "per_device_train_batch_size": 8,
        "max_steps": 3,
        "learning_rate": 1e-2,
        "save_strategy": "no",
        "logging_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
    }
    return TrainingArguments(**{**settings, **changes})
