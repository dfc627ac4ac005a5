"""cleanlab: what ICE says beside what Datalab says, and tables of label issues in both directions.

Importing this module makes the issue type "ice" known to Datalab.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from icelens.auditing.result import Audit
from icelens.errors import IcelensError, InputError

try:
    from cleanlab.datalab.internal.issue_manager import IssueManager
    from cleanlab.datalab.internal.issue_manager_factory import register
except ImportError as error:  # Datalab itself also needs datasets
    raise ImportError(f"{error}; run pip install 'icelens[cleanlab]'", name=error.name) from None

if TYPE_CHECKING:
    from cleanlab import Datalab

# Datalab and CleanLearning call the same number by two names.
SCORES = ("label_quality", "label_score")
LABELS = ("given_label", "predicted_label")


def to_cleanlab(audit: Audit) -> pd.DataFrame:
    """The table that `CleanLearning.get_label_issues` gives and `CleanLearning.fit` takes as `label_issues`.

    A row per example in the order of the data: `is_label_issue`, `label_quality` (trust), `given_label` and
    `predicted_label` as codes 0, 1, ... of the classes in their order.

    >>> import icelens, sklearn.datasets
    >>> X, y = sklearn.datasets.load_iris(return_X_y=True)
    >>> y[7] = 2
    >>> issues = to_cleanlab(icelens.audit(X, y))
    >>> issues[issues["label_quality"] < 0.1][["is_label_issue", "given_label", "predicted_label"]]
       is_label_issue  given_label  predicted_label
    7            True            2                0
    """
    table = audit.examples
    return pd.DataFrame(
        {
            "is_label_issue": table["is_issue"].to_numpy(dtype=bool),
            "label_quality": table["trust"].to_numpy(dtype=np.float64),
            "given_label": table["label"].cat.codes.to_numpy(dtype=np.int64),
            "predicted_label": table["guess"].cat.codes.to_numpy(dtype=np.int64),
        }
    )


def from_cleanlab(table: pd.DataFrame, *, classes: Sequence[str] | None = None) -> pd.DataFrame:
    """A table of label issues with the names of `Audit.examples`: index, label, guess, trust, is_issue.

    Trust is cleanlab's own score, which is no calibrated probability.

    Args:
        table: that of `CleanLearning.get_label_issues()`, or of `Datalab.get_issues("label")`, or some of the
            rows of one: its index holds the row numbers.
        classes: the names of classes 0, 1, ..., where the table holds codes.
    """
    score = next((name for name in SCORES if name in table), None)
    missing = [name for name in ("is_label_issue", *LABELS) if name not in table]
    if score is None or missing:
        needed = " and ".join([*([] if score else ["label_quality or label_score"]), *missing])
        raise InputError(
            f"the table has no {needed}; hand in CleanLearning.get_label_issues() or "
            'Datalab.get_issues("label")'
        )
    if table.index.dtype.kind not in "iu" or not table.index.is_unique:
        raise InputError("the index of the table must hold row numbers, each once")
    names = _named(table, classes)
    trust = table[score].to_numpy(dtype=np.float64)
    wrong = np.flatnonzero(~((trust >= 0) & (trust <= 1)))
    if len(wrong):
        raise InputError(
            f"{score} must lie in [0, 1], got {trust[wrong[0]]} at index {table.index[wrong[0]]}"
        )
    return pd.DataFrame(
        {
            "index": table.index.to_numpy(),
            "label": names[0],
            "guess": names[1],
            "trust": trust,
            "is_issue": table["is_label_issue"].to_numpy(dtype=bool),
        }
    )


def _named(table: pd.DataFrame, classes: Sequence[str] | None) -> list[pd.Categorical]:
    """Given and predicted labels as categories, the same for both."""
    columns = [table[name].to_numpy() for name in LABELS]
    if classes is None:
        known = np.unique(np.concatenate(columns))
        return [
            pd.Categorical.from_codes(np.searchsorted(known, column).tolist(), _strings(known.tolist()))
            for column in columns
        ]
    for name, column in zip(LABELS, columns, strict=True):
        if column.dtype.kind not in "iu":
            raise InputError(f"{name} holds names already; leave classes out")
        wrong = np.flatnonzero((column < 0) | (column >= len(classes)))
        if len(wrong):
            raise InputError(
                f"{name} holds class {column[wrong[0]]} but there are {len(classes)} classes; "
                f"first at index {table.index[wrong[0]]}"
            )
    return [pd.Categorical.from_codes(column.tolist(), _strings(classes)) for column in columns]


def _strings(names: Sequence[Any]) -> pd.Index[Any]:
    return pd.Index([str(name) for name in names], dtype=object)


@register
class ICEIssueManager(IssueManager):  # type: ignore[misc]
    """The issue type "ice" of a Datalab: an audit's trust as `ice_score`, its list as `is_ice_issue`.

        lab.find_issues(issue_types={"label": {"pred_probs": p}, "ice": {"features": X}})
        lab.find_issues(issue_types={"ice": {"audit": icelens.audit(X, y)}})

    `lab.get_info("ice")` holds `given_label` and `predicted_label` as codes, `confidence` (C), and
    `estimate`, the number of wrong labels with its 90 % interval.

    Args:
        datalab: which hands itself in.
        features: what `icelens.audit` takes as X: an array, a DataFrame, a sparse matrix, texts or images.
        audit: an audit of the same examples, in place of the features.
        seed: of the audit that is made of the features.
        device: that it runs on.
        backbone: an encoder for texts and images.
    """

    issue_name: ClassVar[str] = "ice"
    description: ClassVar[str] = (
        "Examples whose given label a network with instance confidences does not trust.\n\n"
        "ice_score is the calibrated probability that the label is right."
    )
    verbosity_levels: ClassVar[dict[int, list[str]]] = {0: [], 1: ["estimate"], 2: [], 3: ["confidence"]}

    def __init__(
        self,
        datalab: Datalab,
        *,
        features: Any = None,
        audit: Audit | None = None,
        seed: int = 0,
        device: str = "auto",
        backbone: Any = None,
    ) -> None:
        # Datalab prints what fails while it looks for issues and goes on: mistakes have to be told here.
        super().__init__(datalab)
        if (features is None) == (audit is None):
            raise InputError(
                'the issue type "ice" needs either features or an audit: issue_types={"ice": {"features": X}}'
            )
        if not datalab.has_labels:
            raise InputError('the issue type "ice" needs labels: Datalab(data, label_name=...)')
        if audit is None:
            self.audit = _audit(features, datalab.labels, seed=seed, device=device, backbone=backbone)
        elif isinstance(audit, Audit):
            self.audit = audit
        else:
            raise InputError(f"audit must be an icelens.Audit, got {type(audit).__name__}")
        self.predicted = _predicted(self.audit, datalab.labels)

    def find_issues(self, **_: Any) -> None:
        """Put the audit where a Datalab looks for it; the settings were given to the constructor."""
        table = self.audit.examples
        trust = table["trust"].to_numpy(dtype=np.float64)
        self.issues = pd.DataFrame(
            {"is_ice_issue": table["is_issue"].to_numpy(dtype=bool), self.issue_score_key: trust}
        )
        self.summary = self.make_summary(score=float(trust.mean()))
        self.info = self.collect_info()

    def collect_info(self) -> dict[str, Any]:
        """What else the audit found, as lists and numbers."""
        estimate = self.audit.estimate
        return {
            "given_label": [int(code) for code in self.datalab.labels],
            "predicted_label": self.predicted.tolist(),
            "confidence": self.audit.examples["confidence"].tolist(),
            "estimate": {"errors": estimate.errors, "low": estimate.low, "high": estimate.high},
        }


def _audit(features: Any, labels: Any, *, seed: int, device: str, backbone: Any) -> Audit:
    """An audit of Datalab's codes."""
    from icelens.auditing.public import run_audit
    from icelens.data import from_arrays

    try:
        data = from_arrays(features, np.asarray(labels, dtype=np.int64), keep_rare=True)
        return run_audit(data, seed=seed, device=device, backbone=backbone)
    except IcelensError as error:
        raise InputError(f'the issue type "ice": {error}') from error


def _predicted(audit: Audit, labels: Any) -> NDArray[np.int64]:
    """The guesses in the codes of a Datalab; its labels must be those of the audit, by whatever names."""
    given, guess = (audit.examples[name].cat.codes.to_numpy(dtype=np.int64) for name in ("label", "guess"))
    if len(given) != len(labels):
        raise InputError(f"the audit is of {len(given):,} examples, the Datalab has {len(labels):,}")
    codes = np.asarray(labels, dtype=np.int64)
    met = np.zeros((len(audit.examples["label"].cat.categories), codes.max() + 1))
    np.add.at(met, (given, codes), 1)
    theirs: NDArray[np.int64] = met.argmax(1)
    wrong = np.flatnonzero(theirs[given] != codes)
    if len(wrong) or len(np.unique(theirs[given])) < len(np.unique(given)):
        where = f"; first at index {wrong[0]}" if len(wrong) else ""
        raise InputError(f"the audit is of other labels than those of the Datalab{where}")
    return theirs[guess]
