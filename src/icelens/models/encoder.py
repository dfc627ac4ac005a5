"""Pretrained transformer encoders with a classification head, from a folder or the Hugging Face hub."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from icelens.errors import FileError, InputError, MissingFileError


def load_encoder(name: str | Path, classes: int) -> nn.Module:
    """A pretrained encoder with a linear head over the classes; the head is drawn from torch's seed.

    Weights come from safetensors files only, in float32 whatever they were saved in, and no code that
    lies beside them is run. Nothing is downloaded for a folder.

    Args:
        name: a folder that `save_pretrained` wrote, or the name of a model on the hub, which is fetched.
        classes: how many logits.
    """
    settings = {
        "num_labels": classes,
        "use_safetensors": True,
        "dtype": torch.float32,
        "ignore_mismatched_sizes": True,  # a head that was made for other classes makes room for ours
    }
    make = _transformers().AutoModelForSequenceClassification.from_pretrained
    return cast(nn.Module, _from(name, make, **settings))


def load_tokenizer(name: str | Path) -> Any:
    """The tokenizer of an encoder, which pads on the right."""
    tokenizer = _from(name, _transformers().AutoTokenizer.from_pretrained)
    if tokenizer.pad_token is None:
        raise InputError(f"{name}: its tokenizer has no padding token, so it cannot read batches")
    tokenizer.padding_side = "right"
    return tokenizer


def _from(name: str | Path, make: Callable[..., Any], **settings: Any) -> Any:
    local = Path(name).is_dir()
    if not local and _is_path(name):
        raise MissingFileError(f"{name}: no such folder; give a folder with an encoder or a name on the hub")
    try:
        with _quiet():
            return make(str(name), local_files_only=local, trust_remote_code=False, **settings)
    except (OSError, ValueError, ImportError) as error:
        reason = str(error).strip().split("\n", 1)[0]
        if local:
            raise FileError(f"{name}: no encoder that can be loaded: {reason}") from None
        raise MissingFileError(f"{name}: no such folder, and nothing came from the hub: {reason}") from None


def _is_path(name: str | Path) -> bool:
    """Whether it can only be meant as a folder: names on the hub are `name` or `owner/name`."""
    text = str(name)
    return isinstance(name, Path) or text.startswith(("/", ".", "~")) or "\\" in text or text.count("/") > 1


def _transformers() -> Any:
    try:
        return importlib.import_module("transformers")
    except ImportError:
        raise InputError("text encoders need transformers: pip install icelens[text]") from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the bars and the report of a head that is not in the file, which for us is as it should be."""
    logging = _transformers().utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
