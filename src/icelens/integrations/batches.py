"""Batches of transformers: the index beside what a collator makes, and what a model's output says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from icelens.errors import InputError

# The label that the Trainer leaves out when it counts the items of a step; ICELoss's default too.
IGNORED = -100


class IndexedCollator:
    """A collator with the index led around it, since most collators do not know what to do with one."""

    def __init__(self, collator: Callable[[list[Any]], Any]) -> None:
        self.collator = collator

    def __call__(self, items: list[Any]) -> Any:
        """The batch that the collator makes of the items, and their index if they have one."""
        if not (isinstance(items[0], Mapping) and "index" in items[0]):
            return self.collator(items)
        index = torch.tensor([item["index"] for item in items])
        batch = self.collator([{key: item[key] for key in item if key != "index"} for item in items])
        batch["index"] = index
        return batch


def labels_of(batch: Mapping[str, Any]) -> Tensor:
    """The labels of a batch, or an error that says what it holds instead."""
    labels = batch.get("labels")
    if not isinstance(labels, Tensor):
        raise InputError(f"a batch needs a tensor 'labels' of classes; it holds {', '.join(batch)}")
    return labels


def logits_of(outputs: Any) -> Tensor:
    """The logits in what a model returned: a dict, an object or a tuple that starts with them."""
    found = outputs.get("logits") if isinstance(outputs, Mapping) else getattr(outputs, "logits", None)
    if found is None and isinstance(outputs, tuple):
        found = outputs[0]
    if not isinstance(found, Tensor):
        held = ", ".join(outputs) if isinstance(outputs, Mapping) else type(outputs).__name__
        raise InputError(f"the model's output has no logits, only {held}; it needs a classification head")
    return found


def guess_and_p_label(logits: Any, labels: Tensor) -> Tensor:
    """(batch, 2): the class that the logits say, and the probability they give the label."""
    logits = logits[0] if isinstance(logits, (tuple, list)) else logits
    p = logits.float().softmax(-1)
    p_label = p.gather(1, labels.clamp(min=0)[:, None]).squeeze(1)
    p_label = p_label.masked_fill(labels == IGNORED, float("nan"))
    return torch.stack([logits.argmax(-1).float(), p_label], dim=1)
