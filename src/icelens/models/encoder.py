"""Pretrained transformer encoders, bare or with a classification head, from a folder or the hub."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from icelens.errors import FileError, InputError, MissingFileError

_INPUTS = {"input_ids": "text", "pixel_values": "image"}
_TOWERS = {"text": "text_model", "image": "vision_model"}  # of models that read both, such as CLIP
_FILES = (".json", ".safetensors", ".txt", ".model")  # settings, weights, vocabularies


def load_encoder(name: str | Path, classes: int) -> nn.Module:
    """A pretrained encoder with a linear head over the classes; the head is drawn from torch's seed.

    Weights come from safetensors files only, in float32 whatever they were saved in, and no code that
    lies beside them is run. They must be there for all but the head and a pooler. Nothing is downloaded for
    a folder.

    Args:
        name: a folder that `save_pretrained` wrote, or the name of a model on the hub, which is fetched.
        classes: how many logits.
    """
    network, drawn = _load(name, _transformers().AutoModelForSequenceClassification, num_labels=classes)
    # A head is drawn anew where the file has none, or one for other classes; the body is not.
    body = f"{network.base_model_prefix}."
    _refuse(name, [weight for weight in drawn if weight.startswith(body)])
    return cast(nn.Module, network)


@dataclass(frozen=True, eq=False)
class Backbone:
    """An encoder without a head.

    Args:
        network: in eval mode, its weights without gradients.
        pooler: whether its pooled output was learned; the files of classifiers often lack the layer for it.
    """

    network: nn.Module
    pooler: bool


def load_backbone(name: str | Path, kind: str) -> Backbone:
    """A pretrained encoder for "text" or "image", loaded under the same rules as `load_encoder`."""
    network, drawn = _load(name, _transformers().AutoModel)
    _refuse(name, drawn)
    network = _reader(name, network, kind).eval().requires_grad_(False)
    return Backbone(network, pooler=not drawn)


def _load(name: str | Path, kind: Any, **settings: Any) -> tuple[Any, list[str]]:
    """A network, and which weights are drawn at random: transformers does no more than warn of those.

    They are not in the files, or not in the shape that the network has.
    """
    settings |= {"use_safetensors": True, "dtype": torch.float32}
    settings |= {"ignore_mismatched_sizes": True, "output_loading_info": True}
    network, found = _from(name, kind.from_pretrained, **settings)
    return network, sorted({*found["missing_keys"], *(weight for weight, *_ in found["mismatched_keys"])})


def _refuse(name: str | Path, drawn: list[str]) -> None:
    """Raise for weights that were drawn at random, but for those of a pooler, which many files lack."""
    needed = [weight for weight in drawn if "pooler" not in weight]
    if needed:
        raise FileError(f"{name}: its files do not hold all weights in the shape they should have; "
                        f"{len(needed)} are wrong, the first is '{needed[0]}'")  # fmt: skip


def _reader(name: str | Path, network: Any, kind: str) -> nn.Module:
    """The network that reads texts or images: all of it, or one of its two towers."""
    tower = getattr(network, _TOWERS[kind], None)
    if isinstance(tower, nn.Module):
        return tower
    if network.config.is_encoder_decoder:
        raise InputError(f"{name}: a model with a decoder ({network.config.model_type}), not an encoder")
    reads = _INPUTS.get(network.main_input_name)
    if reads is None:
        raise InputError(f"{name}: reads {network.main_input_name}, neither texts nor images")
    if reads != kind:
        raise InputError(f"{name}: this encoder reads {reads}s, but the examples are {kind}s")
    return cast(nn.Module, network)


def load_image_processor(name: str | Path) -> Any:
    """What makes an encoder's input of images; it does without torchvision."""
    folder, wanted = Path(name), ("preprocessor_config.json", "processor_config.json")
    if folder.is_dir() and not any((folder / file).exists() for file in wanted):
        raise FileError(f"{name}: no {wanted[0]}, which says how this encoder takes images")
    return _from(name, _transformers().AutoImageProcessor.from_pretrained)


def fingerprint_of(name: str | Path) -> str:
    """Tells encoders of one name apart: by a hash of the folder's files, or the revision on the hub."""
    folder = Path(name)
    if not folder.is_dir():
        return f"{name}@{_from(name, _revision)}"
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.suffix in _FILES and path.is_file()):
        with path.open("rb") as file:
            digest.update(f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()


def _revision(name: str, **_: bool) -> str:
    # Files of the hub lie in folders that are named as their revisions.
    path = importlib.import_module("huggingface_hub").hf_hub_download(name, "config.json")
    return Path(path).parent.name


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
    except Exception as error:  # damaged files raise whatever they lead transformers to
        reason = str(error).strip().split("\n", 1)[0] or type(error).__name__
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
        raise InputError("pretrained encoders need transformers: pip install icelens[text]") from None


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
