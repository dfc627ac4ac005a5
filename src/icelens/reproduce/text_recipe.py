"""The settings of a trial of Table 2."""

from __future__ import annotations

from dataclasses import dataclass

from icelens.data.glue import TASKS
from icelens.errors import InputError, unknown

METHODS = ("cross_entropy", "ice_linear", "ice_power")
PRECISIONS = ("bfloat16", "float32")


@dataclass(frozen=True)
class TextRecipe:
    """The settings of a trial. The defaults are the paper's, for a small task.

    Args:
        data: a task of GLUE: cola, sst2, mrpc, qqp, mnli, qnli, rte or wnli.
        method: cross_entropy, ice_linear or ice_power.
        encoder: a folder with a pretrained encoder, or its name on the hub.
        epochs: how often each row is seen.
        batch_size: rows of a step.
        learning_rate: of AdamW at the start; it falls linearly to 0, without a warm-up.
        weight_decay: of the matrices; biases and the scales of norms have none.
        max_gradient_norm: gradients longer than this are scaled down to it.
        max_length: tokens of a text or of a pair of texts.
        precision: "bfloat16", mixed, or "float32".
        eager: on a GPU, do not record the steps as CUDA graphs, though it then waits for Python.
        step_size: how far one visit moves a confidence logit; cross entropy has none.
        start: the confidence logit of every row at the start.
        rise: the share of the run over which the step grows from 0 to `step_size`. A model that has seen
            little knows the frequent class from the rare one and not much more; full steps would take
            the whole rare class for wrong labels.
        held_out: the share of the training rows that is not trained on but scored on, in place of the
            dev set. For choosing settings.
        seed: of the head, the order of the rows, dropout, and the rows held out.
        device: "auto", "cpu", "cuda", ...
    """

    data: str = "cola"
    method: str = "cross_entropy"
    encoder: str = "bert-base-cased"
    epochs: int = 5
    batch_size: int = 32
    learning_rate: float = 5e-5
    weight_decay: float = 0.01
    max_gradient_norm: float = 1.0
    max_length: int = 128
    precision: str = "bfloat16"
    eager: bool = False
    step_size: float = 1.0
    start: float = 0.0
    rise: float = 0.0
    held_out: float = 0.0
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        for name, known in (("data", TASKS), ("method", METHODS), ("precision", PRECISIONS)):
            if getattr(self, name) not in known:
                raise unknown(name, getattr(self, name), known)
        for name in ("epochs", "batch_size", "max_length"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 0 <= self.rise <= 1:
            raise InputError(f"rise must lie in [0, 1], got {self.rise}")
        if not 0 <= self.held_out < 1:
            raise InputError(f"held_out must lie in [0, 1), got {self.held_out}")
