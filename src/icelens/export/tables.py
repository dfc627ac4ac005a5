"""Tables of examples: CSV, Parquet, and the issues as cleanlab names them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from icelens import files
from icelens.counts import counted
from icelens.export.reviewed import Reviewed

if TYPE_CHECKING:
    import pandas as pd


def write_csv(reviewed: Reviewed, part: Path) -> str:
    """A row for every example: what the audit says of it, and what people did."""
    files.write_csv(reviewed.examples, part)
    return counted(len(reviewed.examples), "example")


def write_parquet(reviewed: Reviewed, part: Path) -> str:
    """The same with types."""
    text = dict.fromkeys(("verdict", "label_after", "who", "when"), "string")
    reviewed.examples.astype(text).to_parquet(part, index=False)
    return counted(len(reviewed.examples), "example")


def write_cleanlab(reviewed: Reviewed, part: Path) -> str:
    """The table that cleanlab's `CleanLearning.fit` takes as `label_issues`."""
    issues = cleanlab_issues(reviewed)
    files.write_csv(issues, part)
    return f"{counted(len(issues), 'example')}, {counted(int(issues['is_label_issue'].sum()), 'issue')}"


def cleanlab_issues(reviewed: Reviewed) -> pd.DataFrame:
    """The columns that cleanlab names, in the order of the data; labels as codes, and trust as quality.

    Where a person gave a verdict, it counts: a kept label is no issue, one that was changed or dropped is.
    """
    import pandas as pd

    table = reviewed.examples
    wrong, right = table["verdict"].isin(["relabel", "drop"]), table["verdict"] == "keep"
    predicted = table["guess"].astype(object).where(table["verdict"] != "relabel", table["label_after"])
    names = pd.Index(reviewed.classes)
    return pd.DataFrame(
        {
            "is_label_issue": (table["is_issue"] & ~right) | wrong,
            "label_quality": table["trust"].where(~right, 1.0).where(~wrong, 0.0),
            "given_label": reviewed.codes("label"),
            "predicted_label": names.get_indexer(pd.Index(predicted)),
            "id": table["id"],
            "given_name": table["label"],
            "predicted_name": predicted,
        }
    )
