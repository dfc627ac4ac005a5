"""What an audit says in words: the headline, what to do next, why an example is a suspect."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from icelens.auditing.evidence import LEAST_GAIN
from icelens.auditing.report.foreign import isolated, one_line
from icelens.auditing.result import AMBIGUOUS
from icelens.counts import counted, one_or_more

if TYPE_CHECKING:
    from icelens.auditing.result import Audit

FIRST = 100  # suspects that a first review looks at
FALLBACK = 20  # examples shown where none is an issue
FEW = 50  # examples, of which no network learns much
FEW_EACH = 5  # of a class: what was held out leaves too few to learn it by
TORN = 1.5  # times the estimate, from where on it is worth a warning that so many explain the labels too
WIDER = 1.25  # times the upper end of the interval, from where on it is worth a warning
NEARLY_ALL = 0.985
MANY = 1000  # of which a tenth of a per cent is worth telling
SURE = 0.9  # of another class; with less a model leans to it


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


def share_of(part: float, whole: float) -> str:
    """A share as exact as a whole of that size lets it be.

    >>> share_of(8, 60), share_of(412, 13_000)
    ('13 %', '3.2 %')
    """
    share = part / whole if whole else math.nan
    return rate(share) if whole >= MANY else percent(share)


def tally(number: float) -> str:
    """An expected number of things, so exact that parts come to their sum: of a few, a tenth of one counts.

    >>> tally(1.94), tally(0.02), tally(146.2)
    ('1.9', '<0.1', '146')
    """
    if not math.isfinite(number) or number >= 99.95:
        return count(number)
    if 0 < number < 0.05:
        return "<0.1"
    return f"{number:.1f}" if number else "0"


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
    """How many labels are wrong, in one sentence; the share is that of the number that stands there."""
    estimate, examples = audit.estimate, len(audit.examples)
    errors, where = round(estimate.errors), isolated(one_line(name))
    interval = f"90 % interval {count(estimate.low)} to {count(estimate.high)}"
    labels = counted(examples, "label")
    if errors == 0:
        return f"None of {labels} in {where} seems to be wrong ({interval})."
    are, share = one_or_more(errors, "is", "are"), share_of(errors, examples)
    return f"About {count(errors)} of {labels} in {where} {are} wrong ({interval}), {share}."


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
    if learned_nothing(audit):
        return "Look at a few suspects from the top, and go on only if their labels are wrong."
    if not len(audit.budgets):
        return f"{look}. {after}"
    (found,) = expected(audit, [first])
    them = f"the first {first}" if issues > first else f"the {first} listed"
    return f"{look}: {_part(found, first)} of {them} should really be wrong. {after}"


def _part(found: float, first: int) -> str:
    """How many of the first are wrong: a number, unless that would sound like all or none."""
    if found > NEARLY_ALL * first or round(found) >= first:
        return "nearly all"
    return f"about {count(found)}" if round(found) else "hardly any"


def beside(audit: Audit) -> str:
    """Where the wrong labels are that the list does not hold; "" where it holds all, or there is none."""
    issues, errors = int(audit.examples["is_issue"].sum()), round(audit.estimate.errors)
    if not issues or not len(audit.budgets) or learned_nothing(audit):
        return ""
    listed = min(round(float(expected(audit, [issues])[0])), errors)
    if listed in (0, errors):
        return ""
    others = counted(len(audit.examples) - issues, "other example")
    return (
        f"The list should hold about {count(listed)} of the {counted(errors, 'wrong label')}; the other "
        f"{count(errors - listed)} will be somewhere among the {others}, none of which stands out."
    )


def doubt(audit: Audit) -> str:
    """Why there may be far more or fewer errors than the interval says; "" where nothing speaks for that."""
    estimate, contradicted = audit.estimate, audit.about.get("contradicted", 0)
    low, high = audit.about.get("explained", (estimate.low, estimate.high))
    if len(audit.examples) < FEW:
        few = counted(len(audit.examples), "example")
        return f"With {few}, go by the order of the list and not by its numbers."
    classes = audit.examples["label"].nunique()
    if len(audit.examples) < FEW_EACH * classes:
        few = f"{counted(len(audit.examples), 'example')} of {counted(classes, 'class', 'classes')}"
        return f"With {few}, go by the order of the list and not by its numbers."
    if learned_nothing(audit):
        return (
            "The model learned next to nothing here: labels that it had not seen it predicts hardly better "
            "than the shares of the classes do. Unless nearly all examples are of one class, trust neither "
            "these numbers nor the list."
        )
    if high > TORN * estimate.errors and high >= 1:
        return (
            "The model learned too little here to tell few errors from many: "
            f"{count(low)} to {count(high)} would explain the labels about as well."
        )
    if contradicted > WIDER * estimate.high:
        return (
            f"The model contradicts {counted(contradicted, 'label')}. If wrong labels follow a pattern, "
            "as those of a rule or of a tired annotator do, there may be that many."
        )
    return ""


def learned_nothing(audit: Audit) -> bool:
    """Whether the predictions that errors were counted by say no more of the labels than their shares do."""
    gain: float = audit.about.get("gain", math.inf)  # an audit that does not tell
    return gain < LEAST_GAIN and len(audit.examples) >= FEW  # few hold no more than that


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
    torn = example["kind"] == AMBIGUOUS
    if example["label"] == example["guess"]:
        said = f"agrees with {label} but gives it only {percent(given)}"
    elif math.isnan(guessed):
        said = f"says {guess} and gives the label {label} {percent(given)}"
    elif torn:
        said = f"gives {guess} {percent(guessed)} and the label {label} {percent(given)}"
    else:
        leans = "is sure of" if guessed >= SURE else "leans to"
        said = f"{leans} {guess} ({percent(guessed)}) and gives the label {label} {percent(given)}"
    return f"The model {'is torn: it ' if torn else ''}{said}; {_course(float(example['confidence']))}."


def quoted(name: object) -> str:
    """A class within a sentence."""
    return f"'{isolated(one_line(name))}'"


def _course(confidence: float) -> str:
    """What became of the confidence in training."""
    known = math.isfinite(confidence)
    return f"confidence ended at {confidence:.2f} in training" if known else "confidence is not known"
