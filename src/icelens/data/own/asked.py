"""Asked: the columns that the user named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from icelens.data.own import naming
from icelens.data.own.origin import Origin, brief, listed, no_such

BY_NUMBER = "count columns from 1: --label 2 --text 4"


@dataclass(frozen=True)
class Asked:
    """The columns, or arrays of a file, that the user named; empty where icelens is to find them."""

    label: str | None = None
    text: tuple[str, ...] = ()
    image: str | None = None
    features: tuple[str, ...] = ()
    id: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All that were named."""
        return tuple(name for _, name in self._roles())

    @property
    def inputs(self) -> tuple[str, tuple[str, ...]] | None:
        """The kind of data and its columns, where the user named them."""
        image = (self.image,) if self.image is not None else ()
        kinds = {"text": self.text, "image": image, "table": self.features}
        return next(((kind, names) for kind, names in kinds.items() if names), None)

    def label_of(self, names: Sequence[str]) -> str | None:
        """The column of labels: as named, or the one with the likeliest name among the others."""
        return self.label or naming.label_column(name for name in names if name not in self.names)

    def exact(self, names: Sequence[str]) -> set[str]:
        """The columns of a file without types in which "01" must stay "01"."""
        kept = {self.label_of(names), self.id, self.image, *self.text}
        return {
            name for name in names if name in kept or (naming.like_id(name) and name not in self.features)
        }

    def check(self, origin: Origin) -> None:
        """Raise where options contradict each other."""
        seen: dict[str, str] = {}
        for role, name in self._roles():
            if name in seen:
                raise origin.error(f"column {brief(name)} is given twice, for {seen[name]} and {role}")
            seen[name] = role
        kinds = [f"--{kind}" for kind in ("text", "image", "features") if getattr(self, kind)]
        if len(kinds) > 1:
            raise origin.error(f"give one of {' and '.join(kinds)}: a model learns from one kind of input")
        if len(self.text) > 2:
            raise origin.error(f"--text takes one or two columns, got {len(self.text)}: {listed(self.text)}")

    def check_names(self, origin: Origin, names: Sequence[str], what: str = "column") -> None:
        """Raise where one is named that is not there."""
        for name in self.names:
            if name not in names:
                raise no_such(origin, what, name, names)

    def _roles(self) -> list[tuple[str, str]]:
        single = (("--label", self.label), ("--image", self.image), ("--id", self.id))
        return [
            *((role, name) for role, name in single if name is not None),
            *(("--text", name) for name in self.text),
            *(("--features", name) for name in self.features),
        ]
