"""The losses, grouped by the state they own, and the table of all methods by name.

A method makes a loss with one signature for all, `loss(outputs, labels, index)`; it says how many outputs
the network needs for K classes and how to read a prediction from them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from icelens.errors import InputError, unknown
from icelens.losses.abstain import DACLoss, abstaining_cross_entropy
from icelens.losses.channel import ChannelLoss
from icelens.losses.held import HeldLoss
from icelens.losses.instance import ICELoss
from icelens.losses.instance_wide import ELRLoss, SOPLoss
from icelens.losses.pointwise import (
    confidence_cross_entropy,
    cross_entropy,
    generalized_cross_entropy,
    hard_bootstrapping,
    label_smoothing,
    soft_bootstrapping,
    symmetric_cross_entropy,
)
from icelens.losses.ranges import AT_LEAST_0, AT_MOST_0, SHARE, Range, check_setting
from icelens.losses.reduction import Pointwise
from icelens.losses.transition import ForwardLoss, forward_correction, noise_adaptation, start_adaptation

__all__ = [
    "LOSSES",
    "WITH_CONFIDENCES",
    "ChannelLoss",
    "DACLoss",
    "ELRLoss",
    "ForwardLoss",
    "HeldLoss",
    "ICELoss",
    "Method",
    "Pointwise",
    "Problem",
    "SOPLoss",
    "abstaining_cross_entropy",
    "confidence_cross_entropy",
    "cross_entropy",
    "find_method",
    "forward_correction",
    "generalized_cross_entropy",
    "hard_bootstrapping",
    "label_smoothing",
    "make_loss",
    "noise_adaptation",
    "soft_bootstrapping",
    "start_adaptation",
    "symmetric_cross_entropy",
]

# Losses with a confidence for each example: `confidence()`, which moves by `step_size`.
WITH_CONFIDENCES = (ICELoss, ChannelLoss)


@dataclass(frozen=True)
class Problem:
    """What a loss may need to know before training.

    `steps` are the training steps in all, for a loss with a schedule (dac); `transition` is a matrix that a
    run before this one gave (forward).
    """

    examples: int
    classes: int
    steps: int | None = None
    transition: Tensor | None = None


def _first_k(outputs: Tensor, classes: int) -> Tensor:
    return outputs[:, :classes]


@dataclass(frozen=True)
class Method:
    """A row of the contents table: what the method is, and how to make and read it.

    `settings` are the ones a user may change, with their defaults, and `ranges` what they may be. At
    `cross_entropy_at` the loss is cross entropy, once outputs beyond the K classes are silent. `pretrain`
    names what a cross-entropy run must supply first: "anchors" or "confusion". `mixes` says whether a step
    may call the loss twice, as mixup does: not where each call counts, whatever its weight. `compiles` says
    that it is many small operations, which are compiled along with a network that is.
    """

    title: str
    formula: str
    paper: str
    state: str
    make: Callable[..., nn.Module]
    settings: Mapping[str, Any] = field(default_factory=dict)
    ranges: Mapping[str, Range] = field(default_factory=dict)
    cross_entropy_at: Mapping[str, Any] = field(default_factory=dict)
    outputs: Callable[[int], int] = lambda classes: classes
    predict: Callable[[Tensor, int], Tensor] = _first_k
    pretrain: str | None = None
    mixes: bool = True
    compiles: bool = False


def _defaults(function: Callable[..., Any], *hidden: str) -> dict[str, Any]:
    """The keyword-only settings of a loss, less those that are not the user's to set in a recipe."""
    parameters = inspect.signature(function).parameters.values()
    hidden += ("reduction", "weight", "ignore_index", "device", "capacity", "dtype")
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in hidden}


def _pointwise(function: Callable[..., Tensor]) -> dict[str, Any]:
    def make(problem: Problem, **settings: Any) -> nn.Module:
        return Pointwise(function, **settings)

    return {"make": make, "settings": _defaults(function)}


def _ice(transform: str) -> dict[str, Any]:
    def make(problem: Problem, **settings: Any) -> nn.Module:
        return ICELoss(problem.examples, transform=transform, **settings)

    return {
        "make": make,
        "settings": _defaults(ICELoss, "transform"),
        "ranges": ICELoss.RANGES,
        "cross_entropy_at": {"start": 80.0},
    }


def _per_class_rows(loss: type[HeldLoss | ELRLoss | SOPLoss]) -> dict[str, Any]:
    def make(problem: Problem, **settings: Any) -> nn.Module:
        return loss(problem.examples, problem.classes, **settings)

    return {"make": make, "settings": _defaults(loss), "ranges": loss.RANGES}


def _make_forward(problem: Problem, **settings: Any) -> nn.Module:
    if problem.transition is None:
        raise InputError("forward correction needs the transition matrix: Problem(..., transition=T)")
    return ForwardLoss(problem.transition, **settings)


def _make_dac(problem: Problem, **settings: Any) -> nn.Module:
    if problem.steps is None:
        raise InputError(
            "the abstaining classifier needs its number of training steps: Problem(..., steps=N)"
        )
    return DACLoss(problem.steps, **settings)


LOSSES: dict[str, Method] = {
    "cross_entropy": Method("Cross entropy", "−log p_y", "—", "none", **_pointwise(cross_entropy)),
    "label_smoothing": Method(
        "Label smoothing", "−Σ_k [(1 − s)·y_k + s/K]·log p_k", "Szegedy et al., 2016", "none",
        ranges={"smoothing": SHARE}, cross_entropy_at={"smoothing": 0.0}, **_pointwise(label_smoothing),
    ),
    "soft_bootstrapping": Method(
        "Soft bootstrapping", "−Σ_k [β·y_k + (1 − β)·p_k]·log p_k", "Reed et al., 2015", "none",
        ranges={"beta": SHARE}, cross_entropy_at={"beta": 1.0}, **_pointwise(soft_bootstrapping),
    ),
    "hard_bootstrapping": Method(
        "Hard bootstrapping", "−β·log p_y − (1 − β)·log max_k p_k", "Reed et al., 2015", "none",
        ranges={"beta": SHARE}, cross_entropy_at={"beta": 1.0}, **_pointwise(hard_bootstrapping),
    ),
    "adaptation": Method(
        "Noise adaptation layer", "−log Σ_i p_i T(x)[i, y]", "Goldberger and Ben-Reuven, 2017",
        "none (K·K outputs more)", outputs=lambda classes: classes + classes * classes, pretrain="confusion",
        **_pointwise(noise_adaptation),
    ),
    "forward": Method(
        "Forward correction", "−log Σ_i p_i T[i, y]", "Patrini et al., 2017", "none (K·K for all)",
        make=_make_forward, pretrain="anchors",
    ),
    "dac": Method(
        "Deep abstaining classifier", "(1 − a)·H − α·log(1 − a)", "Thulasidasan et al., 2019",
        "none (one output more)", make=_make_dac, settings=_defaults(DACLoss),
        ranges=DACLoss.RANGES, cross_entropy_at={"warmup": 1.0}, outputs=lambda classes: classes + 1,
        mixes=False,
    ),
    "gce": Method(
        "Generalized cross entropy", "(1 − p_y^q) / q", "Zhang and Sabuncu, 2018", "none",
        ranges={"q": SHARE}, cross_entropy_at={"q": 0.0}, **_pointwise(generalized_cross_entropy),
    ),
    "ice_linear": Method(
        "ICE-LIN", "−log(C·p_y + (1 − C)/K)", "Zhang and Sugiyama, 2021", "4 bytes", **_ice("linear")
    ),
    "ice_power": Method(
        "ICE-POW", "−log(p_y^C / Σ_k p_k^C)", "Zhang and Sugiyama, 2021", "4 bytes", **_ice("power")
    ),
    "ice_held": Method(
        "ICE-HELD", "−log p_y + w·log(1 − ⟨t, p⟩)", "icelens, after Liu et al., 2020",
        "8 bytes (K·K for all)", cross_entropy_at={"hold": 0.0}, mixes=False, compiles=True,
        **_per_class_rows(HeldLoss),
    ),
    "sce": Method(
        "Symmetric cross entropy", "−α·log p_y − β·A·(1 − p_y)", "Wang et al., 2019", "none",
        ranges={"alpha": AT_LEAST_0, "beta": AT_LEAST_0, "log_zero": AT_MOST_0},
        cross_entropy_at={"alpha": 1.0, "beta": 0.0}, **_pointwise(symmetric_cross_entropy),
    ),
    "elr": Method(
        "Early-learning regularisation", "−log p_y + λ·log(1 − ⟨t, p⟩)", "Liu et al., 2020", "4·K bytes",
        cross_entropy_at={"strength": 0.0}, mixes=False, **_per_class_rows(ELRLoss),
    ),
    "sop": Method(
        "Sparse over-parameterisation", "−log((p_y + u²) / Σ_k (p_k + s_k))", "Liu et al., 2022",
        "4·(K + 1) bytes", cross_entropy_at={"scale": 0.0, "floor": 0.0}, **_per_class_rows(SOPLoss),
        mixes=False,
    ),
}  # fmt: skip


def find_method(name: str) -> Method:
    """The row of the table of this name, or an error with the nearest name."""
    if name not in LOSSES:
        raise unknown("loss", name, LOSSES)
    return LOSSES[name]


def make_loss(name: str, problem: Problem, **settings: Any) -> nn.Module:
    """The loss of this name, called as `loss(outputs, labels, index)`; settings that cannot work are refused.

    >>> loss = make_loss("gce", Problem(examples=100, classes=10), q=0.5)
    >>> LOSSES["adaptation"].outputs(10)  # the network must have that many
    110
    """
    method = find_method(name)
    try:
        for setting, value in settings.items():
            if setting not in method.settings:
                raise unknown("setting", setting, method.settings)
            check_setting(setting, value, method.ranges[setting])
    except InputError as error:
        raise InputError(f"loss '{name}': {error}") from None
    return method.make(problem, **settings)
