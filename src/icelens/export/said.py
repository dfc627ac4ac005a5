"""What a file says of one example, and what is known of the examples that it can speak of."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from icelens.data.labelled import Columns


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
        when: it was said, in ISO 8601, if the file tells.
    """

    index: int
    id: str | None
    verdict: str
    label: str | None
    who: str
    where: str
    mark: str = ""
    when: str = ""


@dataclass(frozen=True, eq=False)
class Known:
    """The examples of an audit, and the columns they were read from.

    Args:
        ids: of all examples, in the order of the data.
        labels: the given ones.
        columns: as they are recorded or, where they are not, as the user named them.
        recorded: whether they are, so that there are no others.
    """

    ids: list[str]
    labels: list[str]
    columns: Columns = field(default_factory=Columns)
    recorded: bool = False

    @cached_property
    def classes(self) -> frozenset[str]:
        """Those of the given labels, and of a column of codes those without an example too."""
        return frozenset((*self.labels, *self.columns.codes))

    @cached_property
    def rows_are_places(self) -> bool:
        """Whether row 17 of the data has the index 17; not so where rows were left out and ids are rows."""
        return not all(id.isdecimal() for id in self.ids) or self.ids == list(map(str, range(len(self.ids))))

    @cached_property
    def places(self) -> dict[str, int]:
        """The index of each id."""
        return {id: place for place, id in enumerate(self.ids)}
