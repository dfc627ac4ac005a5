"""Classes: which are taken for which, and how many labels of each are wrong."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from icelens.auditing.report.foreign import one_line
from icelens.auditing.report.words import count, share_of, tally

if TYPE_CHECKING:
    from icelens.auditing.result import Audit

MOST_IN_A_MAP = 20
LEVELS = 8  # of colour
PAIRS, PAIRS_BESIDE_A_MAP, MORE_PAIRS = 20, 5, 200
BARS, MORE_BARS = 30, 1000

Row = dict[str, Any]


def names(audit: Audit) -> list[str]:
    """The classes as they are shown, in the order of their codes."""
    return [one_line(name) for name in audit.examples["label"].cat.categories]


def confusion(audit: Audit) -> list[list[Row]] | None:
    """For each given label how many issues have which guess; None where the map would be too large."""
    categories = len(audit.examples["label"].cat.categories)
    issues = audit.examples[audit.examples["is_issue"].to_numpy(bool)]
    if categories > MOST_IN_A_MAP or not len(issues):
        return None
    counts = np.zeros((categories, categories), dtype=int)
    np.add.at(counts, (issues["label"].cat.codes.to_numpy(), issues["guess"].cat.codes.to_numpy()), 1)
    # The root shows the pairs between which few are confused, too.
    levels = np.ceil(LEVELS * np.sqrt(counts / counts.max())).astype(int)
    return [
        [{"count": count(n), "level": level} for n, level in zip(*row, strict=True)]
        for row in zip(counts.tolist(), levels.tolist(), strict=True)
    ]


def pairs(audit: Audit, *, beside_a_map: bool) -> tuple[list[Row], list[Row], str]:
    """The pairs of label and guess with the most errors: those shown at once, more, and what they leave."""
    frame = audit.pairs[(audit.pairs["errors"] >= 0.5) | (audit.pairs["issues"] > 0)].head(MORE_PAIRS)
    codes = {name: code for code, name in enumerate(audit.examples["label"].cat.categories)}
    top = max(float(frame["errors"].max()), 1e-9) if len(frame) else 1.0
    rows = [
        {
            "label": one_line(row["label"]),
            "guess": one_line(row["guess"]),
            "label_code": codes[row["label"]],
            "guess_code": codes[row["guess"]],
            "errors": tally(row["errors"]),
            "issues": count(row["issues"]),
            "bar": _share(row["errors"], top),
        }
        for row in frame.to_dict("records")
    ]
    first = PAIRS_BESIDE_A_MAP if beside_a_map else PAIRS
    return rows[:first], rows[first:], _rest(audit.estimate.errors, float(frame["errors"].sum()))


def _rest(errors: float, told: float) -> str:
    """Why the pairs come to fewer errors than there are in all."""
    if errors - told < 0.05:
        return ""
    return (
        f"These come to {tally(told)} of the {tally(errors)} errors to expect. The others are thinly spread "
        "over all other labels, those that the model agrees with among them."
    )


def bars(audit: Audit) -> tuple[list[Row], list[Row], int]:
    """The classes by the share of their labels that is wrong: those shown at once, more, how many others."""
    frame = audit.by_class
    shares = frame["errors"].to_numpy(float) / np.maximum(frame["examples"].to_numpy(float), 1)
    order = np.argsort(-shares, kind="stable")[: BARS + MORE_BARS]
    codes = {name: code for code, name in enumerate(audit.examples["label"].cat.categories)}
    top = max(float(np.nanmax(shares, initial=0)), 1e-9)
    most = zip(frame.iloc[order].to_dict("records"), shares[order].tolist(), strict=True)
    rows = [
        {
            "name": one_line(row["label"]),
            "code": codes[row["label"]],
            "rate": share_of(row["errors"], row["examples"]),
            "bar": _share(share, top),
            "errors": tally(row["errors"]),
            "examples": count(row["examples"]),
        }
        for row, share in most
    ]
    return rows[:BARS], rows[BARS:], len(frame) - len(rows)


def _share(value: float, top: float) -> str:
    """The width of a bar in per cent."""
    return f"{100 * max(value, 0) / top:.1f}" if math.isfinite(value) else "0"
