"""Which column of an imported table says what.

A table may be one that icelens wrote, a copy of the data, or a list that a person made of either. Names of
ours mean what they mean to us only where the data has no column of that name: what goes by a wrong column
ends as a wrong label of another example, and nobody sees it.
"""

from __future__ import annotations

from dataclasses import dataclass

from icelens.data.labelled import Columns
from icelens.data.own import naming
from icelens.data.own.origin import brief, listed
from icelens.data.own.table import Table
from icelens.export.said import Known

# The columns of examples.csv, which no other table has together.
EXAMPLES = {"id", "index", "label", "guess", "confidence", "p_label", "p_guess", "trust", "kind", "is_issue"}
OURS = {"id", "index", "label", "verdict", "label_after", "who"}
# What pandas calls a column of row names in Parquet.
LEVEL = "__index_level_0__"


@dataclass(frozen=True)
class Roles:
    """Which column of a table says what; "" where none does.

    Args:
        index: the row number.
        id: the id.
        label: the new label.
        verdict: the verdict.
        who: whose it is.
        copied: whether the label stands in a column of the data.
        after: whether it is one that was put in the place of the given one.
        doubtful: whether a column called index may hold row numbers as well as ids.
    """

    index: str
    id: str
    label: str
    verdict: str
    who: str
    copied: bool = False
    after: bool = False
    doubtful: bool = False


def roles_of(table: Table, known: Known) -> Roles:
    """By the names in the data, then by ours, then by those that ids and labels usually have."""
    data, names = known.columns, table.names
    taken = {data.label, data.id, *data.others}
    if set(names) >= EXAMPLES and not taken >= EXAMPLES:
        data, taken = Columns(), set()
    own = [name for name in names if name not in taken]
    verdict, after = _first(own, "verdict"), _first(own, "label_after")
    index, id = _examples(table, data, own)
    label = after or _label(names, data, own, verdict)
    if not (index or id) or not (verdict or label):
        raise table.origin.error(
            "columns must be id or index (as examples.csv has them), and verdict or label; "
            f"they are {listed(names)}{_in_the_data(known, names)}"
        )
    unsaid = _of_row_names(data) or (data.id is None and not (known.recorded and known.rows_are_places))
    of_the_data = ({data.label, *data.others} - OURS) & set(names)
    return Roles(
        index, id, label, verdict, _first(own, "who"), copied=label == data.label and not verdict,
        after=bool(after),
        doubtful=(id == "index" and not of_the_data) or (index != "" and not id and unsaid),
    )  # fmt: skip


def _label(names: list[str], data: Columns, own: list[str], verdict: str) -> str:
    """Beside a verdict the data's own column holds the label as it was, which is none to relabel by."""
    ours = _first(names if data.label == "label" else own, "label")
    return ours if verdict else _first(names, data.label) or ours or naming.label_column(own) or ""


def _examples(table: Table, data: Columns, own: list[str]) -> tuple[str, str]:
    """The columns of row numbers and of ids."""
    index, id = _first(own, "index"), _first(own, "id")
    named = _first([name for name in table.names if name not in table.nameless], data.id)
    if named:
        return "", id if named == "index" and id else named
    if _of_row_names(data) and not id:
        return index, _row_names(table, data, own, index)
    return index, id if index or id else next(filter(naming.like_id, own), "")


def _row_names(table: Table, data: Columns, own: list[str], index: str) -> str:
    """The column of ids that had no name; pandas gives it one when it writes a table again."""
    nameless = [name for name in table.names if name in table.nameless]
    found = _first(own, naming.UNNAMED) or _first(nameless, data.id, table.names[0])
    if found and index:
        raise table.origin.error(f"both 'index' and {_called(table, found)} may hold ids; remove one")
    return found


def _of_row_names(data: Columns) -> bool:
    """Whether the ids stood in a column that pandas writes its row names into, and gives any name to."""
    return data.id is not None and (data.id in (naming.UNNAMED, LEVEL) or data.id.isdecimal())


def _called(table: Table, name: str) -> str:
    return f"the column {name}, which has no name," if name in table.nameless else brief(name)


def _in_the_data(known: Known, names: list[str]) -> str:
    if not known.recorded:
        return ""
    data = known.columns
    ids = "are row numbers" if data.id is None else f"are in {brief(data.id)}"
    unlike = [name for name in names if name in data.others and name in OURS]
    said = f", and {listed(unlike)} is something else" if unlike else ""
    return f"; in the data ids {ids} and labels in {brief(data.label)}{said}"


def _first(names: list[str], *wanted: str | None) -> str:
    return next((name for name in wanted if name is not None and name in names), "")
