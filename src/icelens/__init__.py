"""icelens shows which labels to trust: the public names, loaded when they are first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from icelens.lazy import lazy

if TYPE_CHECKING:
    from icelens.auditing.result import Audit
    from icelens.confidence import Confidence
    from icelens.data import Examples, Indexed, Split
    from icelens.door import audit
    from icelens.dynamics.read import Dynamics, read_dynamics
    from icelens.dynamics.recorder import FlightRecorder
    from icelens.errors import IcelensError
    from icelens.losses import LOSSES, HeldLoss, ICELoss, Problem, make_loss
    from icelens.models import MODELS, network
    from icelens.noise import NOISES, add_noise
    from icelens.train import Recipe, Run, read_recipe, run_recipe

__version__ = "0.1.0"

__all__ = [
    "LOSSES",
    "MODELS",
    "NOISES",
    "Audit",
    "Confidence",
    "Dynamics",
    "Examples",
    "FlightRecorder",
    "HeldLoss",
    "ICELoss",
    "IcelensError",
    "Indexed",
    "Problem",
    "Recipe",
    "Run",
    "Split",
    "__version__",
    "add_noise",
    "audit",
    "make_loss",
    "network",
    "read_dynamics",
    "read_recipe",
    "run_recipe",
]

_HOMES = {
    "auditing.result": ("Audit",),
    "confidence": ("Confidence",),
    "data": ("Examples", "Indexed", "Split"),
    "door": ("audit",),
    "dynamics.read": ("Dynamics", "read_dynamics"),
    "dynamics.recorder": ("FlightRecorder",),
    "errors": ("IcelensError",),
    "losses": ("LOSSES", "HeldLoss", "ICELoss", "Problem", "make_loss"),
    "models": ("MODELS", "network"),
    "noise": ("NOISES", "add_noise"),
    "train": ("Recipe", "Run", "read_recipe", "run_recipe"),
}
__getattr__ = lazy(__name__, _HOMES)  # `icelens --help` must not wait for torch


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
