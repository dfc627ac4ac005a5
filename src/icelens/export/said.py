"""What a file says of one example, and what is known of the examples that it can speak of."""

from __future__ import annotations

from dataclasses import dataclass

from icelens.auditing.source import Source


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


@dataclass(frozen=True, eq=False)
class Known:
    """The examples of an audit: their ids, the given label of each, and where the data was read from."""

    ids: list[str]
    labels: list[str]
    source: Source | None = None
