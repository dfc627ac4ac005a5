"""What a file says of one example."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    """A verdict on its way into a review.

    Args:
        index: the row of the data set.
        id: the user's name for it, to be checked; None where the file has none.
        verdict: one of the store's, or "" for a label alone: kept where it is the given one, else relabelled.
        label: the class.
        who: whose verdict it is.
        where: in the file, for errors.
        mark: what tells this verdict from another of the same person with the same words.
    """

    index: int
    id: str | None
    verdict: str
    label: str | None
    who: str
    where: str
    mark: str = ""
