"""Experiments: what to train, by which methods, how often. Each is a TOML file in `recipes/`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from icelens.errors import FileError, InputError, MissingFileError, unknown

RECIPES = Path(__file__).parent / "recipes"
KINDS = ("images", "text")


@dataclass(frozen=True)
class Experiment:
    """One table's worth of trials on one data set.

    `train` are the settings of all trials, `method` those that replace them for one method. A method is a
    loss, or a variant of one under a name of its own, which has `loss` among its settings. `keep` names what
    is stored of the first ICE trials besides their record: "ridgeline" or "gallery".
    """

    title: str
    kind: str
    table: str
    trials: int
    methods: tuple[str, ...]
    train: dict[str, Any]
    method: dict[str, dict[str, Any]] = field(default_factory=dict)
    keep: str = ""

    @property
    def data(self) -> str:
        """The data set of its trials."""
        return str(self.train["data"])


@dataclass(frozen=True)
class Place:
    """Where an experiment finds its data, keeps its records and puts what it needs in between."""

    root: Path
    results: Path
    work: Path
    device: str = "auto"


def names() -> list[str]:
    """The experiments that come with the package."""
    return sorted(path.stem for path in RECIPES.glob("*.toml"))


def expanded(wanted: Iterable[str]) -> list[str]:
    """The names with each family in the place of its own: "table1" is all that start with "table1-"."""
    found: list[str] = []
    for name in wanted:
        family = [known for known in names() if known.startswith(f"{name}-")]
        found += family if family and name not in names() else [name]
    return found


def recipe_path(name: str) -> Path:
    """The file of an experiment: one that comes with the package, or the user's own."""
    own = Path(name)
    if own.suffix == ".toml":
        if not own.is_file():
            raise MissingFileError(f"{own}: no such recipe")
        return own
    if name not in names():
        raise unknown("experiment", name, names())
    return RECIPES / f"{name}.toml"


def read_experiment(name: str) -> Experiment:
    """The experiment of that name or file."""
    path = recipe_path(name)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise FileError(f"{path}: not a recipe in TOML: {error}") from None
    known = [part.name for part in fields(Experiment)]
    for key in content:
        if key not in known:
            raise InputError(f"{path}: {unknown('setting', key, known)}")
    missing = {"title", "kind", "table", "trials", "methods", "train"} - set(content)
    if missing:
        raise InputError(f"{path}: {sorted(missing)[0]} is missing")
    if content["kind"] not in KINDS:
        raise InputError(f"{path}: {unknown('kind', content['kind'], KINDS)}")
    if "data" not in content["train"]:
        raise InputError(f"{path}: train.data is missing")
    return Experiment(**{**content, "methods": tuple(content["methods"])})


def loss_of(experiment: Experiment, method: str) -> str:
    """The loss that a method is, or is a variant of."""
    return str(experiment.method.get(method, {}).get("loss", method))


def settings_of(experiment: Experiment, method: str) -> dict[str, Any]:
    """The settings of a method's trials: those of all, of its loss, its own.

    A table inside them is merged, not replaced.
    """
    settings = dict(experiment.train)
    for name in dict.fromkeys((loss_of(experiment, method), method)):
        for key, value in experiment.method.get(name, {}).items():
            old = settings.get(key)
            settings[key] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
    return settings
