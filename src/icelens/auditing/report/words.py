"""What an audit says in words: the headline, what to do next, why an example is a suspect."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from icelens.auditing.report.foreign import isolated, one_line
from icelens.auditing.result import AMBIGUOUS

if TYPE_CHECKING:
    from icelens.auditing.result import Audit

FIRST = 100  # suspects that a first review looks at
FALLBACK = 20  # examples shown where none is an issue
FEW = 50  # examples, of which no network learns much
WIDER = 1.25  # times the upper end of the interval, from where on it is worth a warning


def count(number: float) -> str:
    """A whole number with its thousands apart.

    >>> count(12999.6)
    '13,000'
    """
    return f"{round(number):,}" if math.isfinite(number) else "?"


def percent(share: float) -> str:
    """A probability as people say it; neither 0 nor 100 % where it is only near.

    >>> percent(0.004), percent(0.873), percent(1.0)
    ('<1 %', '87 %', '100 %')
    """
    if not math.isfinite(share):
        return "?"
    if 0 < share < 0.005:
        return "<1 %"
    return ">99 %" if 0.995 <= share < 1 else f"{100 * share:.0f} %"


def rate(share: float) -> str:
    """A share of many, to a tenth of a per cent.

    >>> rate(0.0317), rate(0.0002), rate(0.0)
    ('3.2 %', '<0.1 %', '0 %')
    """
    if not math.isfinite(share):
        return "?"
    if share == 0:
        return "0 %"
    return "<0.1 %" if share < 0.0005 else f"{100 * share:.1f} %"


def number(value: float, digits: int = 4) -> str:
    """A value of a table: the digits that count, and no exponent where people would write none.

    >>> number(1234567.0), number(0.00012345), number(25.380001), number(-0.0)
    ('1,234,567', '0.0001234', '25.38', '0')
    """
    if not math.isfinite(value):
        return "missing" if math.isnan(value) else str(value)
    if value == 0:
        return "0"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e12 else f"{value:.{digits}g}"


def headline(audit: Audit, name: str) -> str:
    """How many labels are wrong, in one sentence."""
    estimate, examples = audit.estimate, len(audit.examples)
    errors, where = round(estimate.errors), isolated(one_line(name))
    interval = f"90 % interval {count(estimate.low)} to {count(estimate.high)}"
    labels = "label" if examples == 1 else "labels"
    if errors == 0:
        return f"None of {count(examples)} {labels} in {where} seems to be wrong ({interval})."
    verb = "is" if errors == 1 else "are"
    many, share = f"{count(errors)} of {count(examples)} {labels}", rate(estimate.errors / examples)
    return f"About {many} in {where} {verb} wrong ({interval}), {share}."


def next_step(audit: Audit) -> str:
    """What to do with the list, and what to expect of it."""
    issues = int(audit.examples["is_issue"].sum())
    if issues == 0:
        shown = min(FALLBACK, len(audit.examples))
        least = "the least trusted example" if shown == 1 else f"the {shown} least trusted examples"
        if audit.estimate.errors >= 0.5:
            return f"No label stands out as wrong; look at {least}, or give the audit better features."
        return f"There is nothing that you must review; to be sure, look at {least}."
    if issues == 1:
        return "Look at the one suspect: correct its label, drop it, or keep it if its label is right."
    after = "Correct or drop what you find."
    first = min(FIRST, issues)
    look = "Look through the suspects from the top"
    if not len(audit.budgets):
        return f"{look}. {after}"
    (found,) = expected(audit, [first])
    them = f"the first {first}" if issues > first else f"the {first}"
    share = "nearly all" if found > 0.985 * first else f"about {count(found)}"
    return f"{look}: {share} of {them} should really be wrong. {after}"


def doubt(audit: Audit) -> str:
    """Why there may be far more or fewer errors than the interval says; "" where nothing speaks for that."""
    estimate, contradicted = audit.estimate, audit.about.get("contradicted", 0)
    low, high = audit.about.get("explained", (estimate.low, estimate.high))
    if len(audit.examples) < FEW:
        few = count(len(audit.examples))
        return f"With {few} examples, go by the order of the list and not by its numbers."
    if high > WIDER * estimate.high and high >= 1:
        return (
            "The model learned too little here to tell few errors from many: "
            f"{count(low)} to {count(high)} would explain the labels about as well."
        )
    if contradicted > WIDER * estimate.high:
        return (
            f"The model contradicts {count(contradicted)} labels. If wrong labels follow a pattern, "
            "as those of a rule or of a tired annotator do, there may be that many."
        )
    return ""


def expected(audit: Audit, budgets: Sequence[int] | NDArray[Any]) -> NDArray[np.float64]:
    """How many errors to expect among the first n of the list, for each n of the budgets."""
    told = audit.budgets.sort_values("n")
    at, errors = told["n"].to_numpy(float), told["errors"].to_numpy(float)
    found: NDArray[np.float64] = np.interp(np.asarray(budgets), np.append(0.0, at), np.append(0.0, errors))
    return found


def why(example: dict[str, Any], classes: int) -> str:
    """One sentence on what speaks against a label.

    Args:
        example: a row of `Audit.examples`; where it has `p_guess`, the sentence says it.
        classes: how many classes there are; with two, what the label does not get the guess does.
    """
    label, guess = quoted(example["label"]), quoted(example["guess"])
    given, guessed = float(example["p_label"]), float(example.get("p_guess", math.nan))
    if math.isnan(guessed) and classes == 2:
        guessed = 1 - given
    if example["label"] == example["guess"]:
        said = f"agrees with {label} but gives it only {percent(given)}"
    elif math.isnan(guessed):
        said = f"says {guess} and gives the label {label} {percent(given)}"
    else:
        said = f"gives {guess} {percent(guessed)} and the label {label} {percent(given)}"
    torn = "is torn: it " if example["kind"] == AMBIGUOUS else ""
    return f"The model {torn}{said}; {_course(float(example['confidence']))}."


def quoted(name: object) -> str:
    """A class within a sentence."""
    return f"'{isolated(one_line(name))}'"


def _course(confidence: float) -> str:
    """What became of C, which starts at 1/2."""
    if not math.isfinite(confidence):
        return "confidence is not known"
    way = "fell to" if confidence < 0.495 else "ended at"
    return f"confidence {way} {confidence:.2f} in training"
