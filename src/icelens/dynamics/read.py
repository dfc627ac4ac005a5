"""Reading a recording back: what it says of each example, in memory that its length does not change."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from icelens import progress
from icelens.dynamics.history import History
from icelens.dynamics.parts import COLUMNS, Part, find_parts
from icelens.dynamics.statistics import Statistics
from icelens.dynamics.stream import in_order
from icelens.errors import InputError, MissingFileError, unknown
from icelens.files import replacing

if TYPE_CHECKING:
    import pandas as pd

SCORES = ("aum", "p_label", "correctness", "confidence")
HINT = {"confidence": "; hand it to log(), or rank by 'aum'"}


@dataclass(frozen=True, eq=False)
class Dynamics:
    """What a recording says of each example.

    `examples` has a row per example, in the order of the data set: index, label, guess (the last one),
    visits, aum (mean margin), p_label and variability (mean and standard deviation of the given label's
    probability), correctness (share of visits with a right guess), forgotten (how often a wrong guess
    followed a right one), loss (mean) and confidence (the last one). Low aum, p_label, correctness or
    confidence = suspicious. An example that was never visited has 0 visits, −1 as label and guess, and NaN.
    """

    examples: pd.DataFrame
    rows: int  # visits of all examples
    epochs: range  # that were recorded
    snapshots: NDArray[Any]  # epochs at whose end `history` was taken
    history: NDArray[Any]  # (snapshots, sample), confidences; empty where none were recorded
    sample: NDArray[Any]  # which examples `history` has, at most 20,000
    relabelled: int  # examples that came with more than one label
    skipped: int  # rows with logits that are not finite; they count for nothing

    def suspects(self, count: int = 100, by: str = "aum") -> pd.DataFrame:
        """The examples with the lowest `aum`, `p_label`, `correctness` or `confidence`, lowest first."""
        if by not in SCORES:
            raise unknown("score", by, SCORES)
        known = self.examples[self.examples[by].notna()]
        if not len(known):
            raise InputError(f"no {by} was recorded" + HINT.get(by, ""))
        return known.nsmallest(count, by)

    def to_parquet(self, path: str | Path) -> None:
        """Write `examples`, whole or not at all."""
        with replacing(Path(path)) as part:
            self.examples.to_parquet(part, index=False)


def read_dynamics(folder: str | Path, *, until: int | None = None) -> Dynamics:
    """Read what a `FlightRecorder` wrote: per-example statistics, AUM and data map among them.

    Works while training goes on, for the rows that are written. They are read in the order of their steps
    over all ranks, some at a time.

    Args:
        folder: of the recording.
        until: epochs from this one on are left out. AUM tells most before a network has learned wrong labels
            by heart.
    """
    parts = _parts(Path(folder), until)
    last = max(part.epochs.stop for part in parts)
    epochs = range(min(part.epochs.start for part in parts), last if until is None else min(last, until))
    statistics, history = Statistics(parts[0].examples), History(parts[0].examples, epochs)
    rows = 0
    with progress.bar("reading the recording", sum(part.rows for part in parts)) as advance:
        for found in in_order(parts, list(COLUMNS)):
            advance(len(found["step"]))
            early = found["epoch"] < epochs.stop
            batch = {name: column[early] for name, column in found.items()}
            statistics.add(batch)
            history.add(batch)
            rows += len(batch["step"])
    values, sample = history.values()
    return Dynamics(
        statistics.table(), rows, epochs, history.epochs, values, sample,
        statistics.relabelled, statistics.skipped,
    )  # fmt: skip


def _parts(folder: Path, until: int | None) -> list[Part]:
    parts = [part for part in find_parts(folder) if part.rows]
    if not parts:
        raise MissingFileError(f"{folder}: holds no rows of a recording yet; flush() or close() writes them")
    first = min(part.epochs.start for part in parts)
    if until is not None and until <= first:
        raise InputError(f"until must be above {first}, the first epoch of the recording, got {until}")
    return [part for part in parts if until is None or part.epochs.start < until]
