"""The most unusual values of a row, measured against the examples that carry the same label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from icelens.auditing.report.foreign import one_line
from icelens.auditing.report.words import number, percent

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 6  # values of a row
MARKED = 2.0  # deviations from where a value is called unusual
CAP = 99.0
ROWS = 2000  # examples of a class that say what is usual in it
CELLS = 4_000_000  # and how many of their values
FEWEST = 8  # a class of fewer examples has no usual values
VALUE = 60  # characters of a value
MISSING = number(float("nan"))

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Cell:
    """A value of a row: `mark` is "high", "low", "rare", or "" where it is not unusual.

    A number is marked where it lies outside of the range that `usual` names, as both are shown, and nowhere
    else.
    """

    column: str
    value: str
    usual: str
    mark: str


def unusual_cells(
    table: Any, labels: NDArray[np.int64], rows: Sequence[int], *, most: int = SHOWN
) -> list[list[Cell]]:
    """For each of the rows its most unusual values, the most unusual first.

    Numbers are measured in robust deviations from the median of the class; categories, and numbers of
    which most are equal, by the share of the class that is at least as rare, on the same scale.

    Args:
        table: a DataFrame, a float array (N, features), or a scipy CSR matrix.
        labels: (N,), the given classes.
        rows: which rows to describe.
        most: values for each.
    """
    chosen = np.asarray(rows, dtype=np.int64)
    found: list[list[Cell]] = [[] for _ in chosen]
    for label in np.unique(labels[chosen]):
        places = np.flatnonzero(labels[chosen] == label)
        peers = np.flatnonzero(labels == label)
        for place, cells in zip(places, _of_class(table, peers, chosen[places], most), strict=True):
            found[place] = cells
    return found


def _of_class(table: Any, peers: NDArray[Any], rows: NDArray[Any], most: int) -> Iterator[list[Cell]]:
    """The cells of rows of one class."""
    columns = list(_columns(table, peers, rows))
    scores = np.array([column.scores for column in columns]).reshape(len(columns), len(rows))
    for row in range(len(rows)):
        order = np.argsort(-np.abs(scores[:, row]), kind="stable")[:most]
        yield [columns[i].cell(row) for i in order]


@dataclass(frozen=True)
class _Column:
    """One column of the rows at hand: how unusual each value is, and how it is shown."""

    name: str
    scores: Floats
    values: Sequence[str]
    marks: Sequence[str]
    usual: str = ""

    def cell(self, row: int) -> Cell:
        return Cell(self.name, self.values[row], self.usual, self.marks[row])


def _columns(table: Any, peers: NDArray[Any], rows: NDArray[Any]) -> Iterator[_Column]:
    if hasattr(table, "iloc"):
        yield from _of_frame(table, _sample(peers, table.shape[1]), rows)
        return
    names: NDArray[Any] = np.arange(table.shape[1])
    here = table[rows]
    if hasattr(here, "tocsr"):
        # What a sparse row does not name is 0, as nearly everything is, and not worth showing.
        names = np.unique(here.indices)[: CELLS // FEWEST]
        there = table[_sample(peers, len(names))][:, names].toarray()
        here = here[:, names].toarray()
    else:
        there = table[_sample(peers, len(names))]
    for place, name in enumerate(names):
        yield _numbers(f"feature {name}", _floats(here[:, place]), _floats(there[:, place]))


def _of_frame(frame: pd.DataFrame, peers: NDArray[Any], rows: NDArray[Any]) -> Iterator[_Column]:
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    here, there = frame.iloc[rows], frame.iloc[peers]
    for place, name in enumerate(frame.columns):
        one, many = here.iloc[:, place], there.iloc[:, place]
        if is_numeric_dtype(one.dtype) and not is_bool_dtype(one.dtype):
            yield _numbers(one_line(name), *(s.to_numpy(float, na_value=np.nan) for s in (one, many)))
        else:
            yield _categories(one_line(name), _names(one), _names(many))


def _numbers(name: str, here: Floats, there: Floats) -> _Column:
    values = [number(value) for value in here.tolist()]
    present = there[np.isfinite(there)]
    if len(present) < FEWEST:
        return _Column(name, np.zeros(len(here)), values, [""] * len(here))
    (missing,) = _deviations(np.array([1 - len(present) / len(there)]), len(there))
    low, high = _usual_range(present)
    usual = low if low == high else f"{low} to {high}"
    if len(present) < len(there) and missing < MARKED:
        usual += " or missing"
    marks = [_mark(value, low, high) if value != MISSING else _rare(missing) for value in values]
    scores = np.where(np.isnan(here), missing, _scores(here, present))
    return _Column(name, scores, values, marks, usual)


def _scores(values: Floats, present: Floats) -> Floats:
    """How many deviations each value lies from the median of those that are present, with a sign."""
    median = np.median(present)
    distances = np.sort(np.abs(present - median))
    deviation = 1.4826 * np.median(distances)
    if deviation > 0:
        return _floats(np.clip((values - median) / deviation, -CAP, CAP))
    # Most are equal: then the share counts that lies at least as far.
    farther = 1 - np.searchsorted(distances, np.abs(values - median)) / len(present)
    return _floats(np.sign(values - median) * _deviations(farther, len(present)))


def _usual_range(present: Floats) -> tuple[str, str]:
    """The least and the greatest of the values that are not unusual, as they are shown."""
    usual = present[np.abs(_scores(present, present)) < MARKED]
    return number(float(usual.min())), number(float(usual.max()))


def _mark(value: str, low: str, high: str) -> str:
    """Numbers are compared as they are shown: nobody should read `2.96 high, usually 1.2 to 2.96`."""
    at, least, greatest = (float(text.replace(",", "")) for text in (value, low, high))
    return "low" if at < least else "high" if at > greatest else ""


def _rare(score: float) -> str:
    return "rare" if score >= MARKED else ""


def _categories(name: str, here: list[str], there: list[str]) -> _Column:
    values, counts = np.unique(np.array(there, dtype=object).astype(str), return_counts=True)
    if len(there) < FEWEST:
        return _Column(name, np.zeros(len(here)), here, [""] * len(here))
    seen = dict(zip(values.tolist(), counts.tolist(), strict=True))
    # Where every value is another, as with names, none is rarer than the rest.
    shares = np.array([counts[counts <= max(seen.get(value, 0), 1)].sum() for value in here]) / len(there)
    most = int(counts.argmax())
    usual = f"{values[most]} ({percent(counts[most] / len(there))})" if counts[most] > 1 else ""
    scores = _deviations(shares, len(there))
    return _Column(name, scores, here, [_rare(score) for score in scores], usual)


def _deviations(shares: Floats, examples: int) -> Floats:
    """How many deviations a normal value lies from its mean where such a share lies at least as far."""
    from scipy.stats import norm

    deviations: Floats = norm.isf(np.clip(shares, 1 / (examples + 1), 1) / 2)
    return deviations


def _sample(peers: NDArray[Any], columns: int) -> NDArray[Any]:
    """Enough of a class to say what is usual in it, evenly over the file."""
    most = int(np.clip(CELLS // max(columns, 1), 50, ROWS))
    return peers if len(peers) <= most else peers[np.linspace(0, len(peers) - 1, most).astype(int)]


def _floats(values: Any) -> Floats:
    floats: Floats = np.asarray(values, dtype=np.float64)
    return floats


def _names(series: pd.Series[Any]) -> list[str]:
    """The values of a column as text; lists and other objects are what their text is."""
    missing = series.isna().to_numpy()
    return [MISSING if gone else one_line(v, VALUE) for v, gone in zip(series, missing, strict=True)]
