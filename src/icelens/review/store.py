"""The store of a review: examples in order, and what people said of them, in one SQLite file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from icelens.errors import InputError
from icelens.review import verdicts
from icelens.review.about import read_about
from icelens.review.database import Database
from icelens.review.filters import VERDICTS, Filters, few_of_state, tallied, walk
from icelens.review.judging import Bench, Judgement, place_of
from icelens.review.listing import describe, next_places
from icelens.review.order import (
    Order,
    checked_order,
    count_doubt,
    head_of,
    load_order,
    places_of,
    save_order,
    stored_reach,
    stored_version,
)
from icelens.review.records import Content, Entry, Example, Progress, Verdict
from icelens.review.root import image_below

if TYPE_CHECKING:
    import sqlite3

__all__ = ["VERDICTS", "Content", "Entry", "Example", "Filters", "Judgement", "Progress", "Store", "Verdict"]

NAME = "review.sqlite"  # in the folder of an audit
LARGEST_PAGE = 1000
EVERYTHING = Filters()


class Store:
    """The examples of an audit in their order, and the verdicts on them.

    Every verdict is a new row; the newest that was not taken back counts. What a call has returned is on the
    disk. Several threads may use one store in turn, and any number of stores and processes one file.

    Args:
        path: `review.sqlite`, or the folder of the audit that holds it.
    """

    def __init__(self, path: str | Path) -> None:
        path = Path(path)
        self.path = path / NAME if path.is_dir() else path
        self._database = Database(self.path)
        self._use(Order())
        self._head: tuple[NDArray[np.float64], NDArray[np.int64]] = (np.zeros(0), np.zeros(0, np.int64))
        try:
            with self._database.reading() as connection:
                self.about = read_about(connection, self.path)
                connection.create_function("rank_of", 1, self._rank)
        except BaseException:
            self.close()
            raise
        self.name, self.kind, self.classes = self.about.name, self.about.kind, self.about.classes
        self.counts = self.about.examples, self.about.issues
        self.fingerprint, self.data_root = self.about.fingerprint, self.about.root

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return self.about.examples

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def example(self, index: int) -> Example:
        """One example."""
        return self.examples([index])[0]

    def examples(self, indices: Sequence[int]) -> list[Example]:
        """Some examples, in this order."""
        with self._database.reading() as connection:
            self._refresh(connection)
            places = [place_of(connection, self.about, index) for index in indices]
            return describe(connection, self.about, self._order, places)

    def page(
        self, filters: Filters = EVERYTHING, *, after: int | None = None, limit: int = 50
    ) -> list[Example]:
        """The next examples that pass the filters, in today's order.

        Args:
            filters: which.
            after: the rank to go on from, that of the last example of the page before.
            limit: how many.
        """
        if not 1 <= limit <= LARGEST_PAGE:
            raise InputError(f"limit must lie from 1 to {LARGEST_PAGE}, got {limit}")
        with self._database.reading() as connection:
            places = self._next(connection, filters, after, limit)
            return describe(connection, self.about, self._order, places)

    def image(self, index: int) -> bytes | Path | None:
        """The image of an example: the bytes of its file, or the path of one; None where none was kept.

        A path leads to a file below `data_root`, or it is refused.
        """
        with self._database.reading() as connection:
            place = place_of(connection, self.about, index)
            query = "SELECT path, image FROM contents WHERE place = ?"
            path, image = connection.execute(query, (place,)).fetchone() or (None, None)
        return image if path is None else image_below(self.data_root, path)

    def progress(self, filters: Filters = EVERYTHING) -> Progress:
        """How far the review has come, by label, guess and kind; state and query of filters do not count."""
        where, parameters = tallied(filters, self.about.codes)
        sums = ", ".join(f'coalesce(sum("{name}"), 0)' for name in ("examples", *VERDICTS, "doubt"))
        with self._database.reading() as connection:
            query = f"SELECT {sums} FROM tallies t WHERE {where}"
            total, kept, relabelled, dropped, unsure, doubt = connection.execute(query, parameters).fetchone()
        return Progress(total, kept, relabelled, dropped, unsure, max(float(doubt), 0.0))

    def judge(
        self, index: int, verdict: str, *, label: str | None = None, who: str, key: str,
        new_class: bool = False,
    ) -> Verdict:  # fmt: skip
        """Add a verdict; it counts from now on.

        Args:
            index: of the example.
            verdict: "keep", "relabel", "drop" or "unsure". A relabel to the label that it has is a keep.
            label: the name of the class, for a relabel.
            who: whose verdict it is.
            key: the client's own name for this click: a second call with it writes nothing and returns what
                the first one wrote.
            new_class: whether `label` may be one that no example has and nobody gave before.
        """
        return self.judge_all([Judgement(index, verdict, key, label)], who=who, new_class=new_class)[0]

    def judge_all(
        self, judgements: Iterable[Judgement], *, who: str, new_class: bool = False
    ) -> list[Verdict]:
        """Add many verdicts: all of them or, where one cannot be, none."""
        verdicts.check_text("who", who)
        wanted = list(judgements)

        def give(connection: sqlite3.Connection) -> list[Verdict]:
            bench = self._bench(connection)
            return [bench.judge(one, who, new_class) for one in wanted]

        return self._database.write(give)

    def undo(self, *, who: str, key: str, index: int | None = None, of: str | None = None) -> Verdict | None:
        """Take back the newest verdict of this person.

        Writes a new row and returns the verdict that it takes back; None where there is none. What counts
        then is the one before it.

        Args:
            who: who takes back.
            key: the client's own name for this click; a second call with it writes nothing.
            index: take back the newest verdict of this example instead, whoever gave it.
            of: take back the verdict that was given under this key instead.
        """
        verdicts.check_text("who", who)
        verdicts.check_text("key", key)
        if index is not None and of is not None:
            raise InputError("name the example or the key of its verdict, not both")
        return self._database.write(
            lambda connection: self._bench(connection).undo(who, key, index=index, of=of)
        )

    def verdicts(self) -> list[Verdict]:
        """The verdict that counts, of each example that has one, by index."""
        with self._database.reading() as connection:
            return verdicts.standing(connection)

    def history(self, index: int | None = None) -> list[Entry]:
        """All that was said of an example, or of all: the oldest first, with what was taken back."""
        with self._database.reading() as connection:
            if index is not None:
                place_of(connection, self.about, index)
            return verdicts.history(connection, index)

    def new_classes(self) -> tuple[str, ...]:
        """Classes that reviewers gave and the data has not, of verdicts that stand."""
        query = (
            "SELECT DISTINCT v.label FROM standing s JOIN verdicts v ON v.number = s.number "
            "WHERE s.verdict = 'relabel' ORDER BY v.label"
        )
        with self._database.reading() as connection:
            return tuple(name for (name,) in connection.execute(query) if name not in self.about.codes)

    @property
    def order_version(self) -> int:
        """How often the order was set anew."""
        with self._database.reading() as connection:
            return stored_version(connection)

    def set_order(self, index: Any, trust: Any) -> None:
        """Put examples into another order, the least trusted first, with another trust.

        They share out between them the ranks that they hold; all others stay where they are. It is meant for
        the head of the list: as far as the last of them the order is kept apart from the audit's.

        Args:
            index: rows of the data set in their new order.
            trust: the new trust of each.
        """
        rows, values = checked_order(index, trust, len(self))
        if not len(rows):
            return
        with self._database.reading() as connection:  # what takes long, before others must wait
            places, reach = places_of(connection, rows), stored_reach(connection)
            head = self._known_head(connection, max(int(places.max()) + 1, reach))

        def change(connection: sqlite3.Connection) -> None:
            longer = stored_reach(connection) > len(head[0])  # set by others meanwhile
            audited, tally = head_of(connection, stored_reach(connection)) if longer else head
            order = self._today(connection).extended(audited)
            newer = order.changed(places, values)
            count_doubt(connection, tally[: order.reach], order.trust - newer.trust)
            save_order(connection, newer)

        self._database.write(change)

    def _known_head(
        self, connection: sqlite3.Connection, reach: int
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        if len(self._head[0]) < reach:
            self._head = head_of(connection, reach)
        return self._head[0][:reach], self._head[1][:reach]

    def _next(
        self, connection: sqlite3.Connection, filters: Filters, after: int | None, limit: int
    ) -> list[int]:
        self._refresh(connection)
        steps = walk(filters, self.about.codes, few=few_of_state(connection, filters))
        return next_places(connection, self._order, steps, after, limit)

    def _bench(self, connection: sqlite3.Connection) -> Bench:
        return Bench(connection, self.about, self._today(connection))

    def _today(self, connection: sqlite3.Connection) -> Order:
        """Today's order, as any connection sees it; what this store reads by is left alone."""
        order = self._order
        return order if stored_version(connection) == order.version else load_order(connection)

    def _refresh(self, connection: sqlite3.Connection) -> None:
        """Read by today's order from now on."""
        order = self._today(connection)
        if order is not self._order:
            self._use(order)

    def _use(self, order: Order) -> None:
        self._order, self._ranks = order, order.ranks.data

    def _rank(self, place: int) -> int:
        return self._ranks[place]  # called for every example of the head
