"""An audit and what people said of it so far, as one table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from icelens.review.store import NAME, Store

if TYPE_CHECKING:
    import pandas as pd

    from icelens.data import Labelled
    from icelens.review.store import Verdict


@dataclass(frozen=True, eq=False)
class Reviewed:
    """The folder of an audit, read.

    Args:
        folder: where it lies.
        examples: the audit's table, and `verdict`, `label_after`, `who`, `when`: missing where there is no
            verdict; `label_after` is the label that stands, missing where the example is dropped.
        classes: of the data, and after those the classes that came with the review.
        place: where the data lies now, if it was moved.
    """

    folder: Path
    examples: pd.DataFrame
    classes: tuple[str, ...]
    place: Path | None = None

    @cached_property
    def data(self) -> Labelled:
        """What was audited, read again."""
        from icelens.auditing.source import source_data

        return source_data(self.folder, self.place)

    @cached_property
    def recipe(self) -> dict[str, Any]:
        """How it was audited."""
        from icelens.auditing.folder import read_json

        return read_json(self.folder / "recipe.json")

    def codes(self, column: str) -> Any:
        """The class of each example as a code; `label_after` of a dropped one is its given label."""
        import pandas as pd

        names = self.examples[column]
        known = pd.Index(self.classes).get_indexer(pd.Index(names.astype(object)))
        given = pd.Index(self.classes).get_indexer(pd.Index(self.examples["label"].astype(object)))
        return np.where(known < 0, given, known)


def read_reviewed(folder: Path, place: Path | None = None) -> Reviewed:
    """The audit in a folder with its verdicts, if there are any."""
    from icelens.auditing.folder import AuditFolder

    examples = AuditFolder(folder).read().examples
    classes = tuple(str(name) for name in examples["label"].cat.categories)
    found: list[Verdict] = []
    if (folder / NAME).is_file():
        with Store(folder) as store:
            found, classes = store.verdicts(), (*classes, *store.new_classes())
    return Reviewed(folder, _with_verdicts(examples, found), classes, place)


def _with_verdicts(examples: pd.DataFrame, verdicts: list[Verdict]) -> pd.DataFrame:
    import pandas as pd

    after = examples["label"].astype(object).to_numpy(copy=True)
    columns = {name: np.full(len(examples), None, dtype=object) for name in ("verdict", "who", "when")}
    for verdict in verdicts:
        row = verdict.index
        columns["verdict"][row], columns["who"][row] = verdict.verdict, verdict.who
        columns["when"][row] = verdict.at
        if verdict.verdict in ("relabel", "drop"):
            after[row] = verdict.label
    columns = {"verdict": columns["verdict"], "label_after": after, **columns}
    # As objects: pandas would turn None into a NaN, which is true.
    return examples.assign(**{name: pd.Series(column, dtype=object) for name, column in columns.items()})
