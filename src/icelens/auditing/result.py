"""What an audit found: a row for every example, and what it says of the whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from icelens.counts import counted, one_or_more
from icelens.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray
    from torch import Tensor

    from icelens.auditing.aids import Aids

MISLABELLED, AMBIGUOUS = "mislabelled", "ambiguous"


@dataclass(frozen=True)
class Estimate:
    """A number of wrong labels with its 90 % interval."""

    errors: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Audit:
    """The result of an audit.

    Args:
        examples: a row per example in the order of the data: `id`, `index`, `rank` (1 is the most
            suspicious), `label` and `guess` (categories, the same for both), `confidence` (C; for images on a
            GPU without a backbone that of ICE-HELD), `p_label` and `p_guess` (the model's probability of
            either), `trust` (the probability that the given label is right; low = suspicious), `kind`
            ("mislabelled", "ambiguous", or "" where there is no issue), `is_issue`.
        estimate: how many labels are wrong.
        pairs: the label given, the class it should be, how many errors of that kind are expected and how many
            issues there are, the most frequent first: columns `label`, `guess`, `errors`, `issues`.
        by_class: for each class `label`, `examples`, `errors`, `issues`.
        budgets: how many errors to expect in the first n of the list: columns `n`, `errors`.
        history: confidences during training of a sample of examples: `iteration` (snapshots,), `confidence`
            (snapshots, sample), or None.
        about: what was audited and how: name, kind, model, epochs, seconds, seed, versions, and `said`, the
            lines that were told on the way. JSON can hold it.
        aids: what reviewers are shown beside a suspect, where it was asked for; a folder keeps it on disk.
        weights: of the network that was trained on all, likewise.
    """

    examples: pd.DataFrame
    estimate: Estimate
    pairs: pd.DataFrame
    by_class: pd.DataFrame
    budgets: pd.DataFrame
    history: tuple[NDArray[np.int64], NDArray[np.float32]] | None = None
    about: dict[str, Any] = field(default_factory=dict)
    aids: Aids | None = None
    weights: dict[str, Tensor] | None = None

    def __repr__(self) -> str:
        """In a line: examples, issues and the estimate."""
        issues, found = int(self.examples["is_issue"].sum()), self.estimate
        wrong = round(found.errors)
        return (
            f"Audit({counted(len(self.examples), 'example')}, {counted(issues, 'issue')}; about "
            f"{counted(wrong, 'label')} {one_or_more(wrong, 'is', 'are')} wrong, "
            f"90 % interval {found.low:,.0f} to {found.high:,.0f})"
        )

    def suspects(self, n: int | None = None) -> pd.DataFrame:
        """The examples by trust, the least trusted first: n of them, or all that are issues."""
        if n is not None and n < 0:
            raise InputError(f"n must be at least 0, got {n}")
        ranked = self.examples.sort_values("trust", kind="stable")
        return ranked.head(n) if n is not None else ranked[ranked["is_issue"]]


def with_ranks(examples: pd.DataFrame) -> pd.DataFrame:
    """The table with `rank` beside `index`: 1 is the first that `Audit.suspects` gives, the least trusted."""
    import numpy as np

    order = np.argsort(examples["trust"].to_numpy(), kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(1, len(order) + 1)
    ranked = examples.drop(columns="rank", errors="ignore")
    ranked.insert(ranked.columns.tolist().index("index") + 1, "rank", rank)
    return ranked
