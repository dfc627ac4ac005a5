"""What an audit found, for the terminal."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

from icelens.auditing.report.foreign import one_line
from icelens.auditing.report.suspects import choose
from icelens.auditing.report.words import beside, count, doubt, headline, next_step, number, percent
from icelens.counts import counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from icelens.auditing.result import Audit
    from icelens.data.labelled import Labelled

PAIRS = 5
GAP = 2  # between two columns
NARROWEST = 8  # a narrower look at the content says nothing
SNIPPET = 200  # characters of a content; the width of the terminal cuts them again


def print_summary(audit: Audit, data: Labelled, console: Console | None = None, top: int = 20) -> None:
    """Print the headline, what to do next, the pairs most confused, and the least trusted examples.

    Args:
        audit: what was found.
        data: what was audited, for a look at the contents.
        console: where to print; standard output where left out.
        top: how many examples to list, at most.
    """
    from rich.console import Console

    console = console or Console(highlight=False)
    _say(console, headline(audit, data.name), bold=True)
    for sentence in filter(None, (next_step(audit), beside(audit), doubt(audit))):
        _say(console, sentence)
    pairs = _pairs(audit)
    if pairs:
        _say(console, f"Most frequent: {pairs}.")
    if top > 0 and len(data):
        console.print()
        console.print(_table(audit, data, console, top))
        more = int(audit.examples["is_issue"].sum()) - top
        if more > 0:
            _say(console, f"… and {counted(more, 'more suspect')}")


def _pairs(audit: Audit) -> str:
    """The pairs of label and guess with the most errors, such as `cat → dog (12)`."""
    likely = audit.pairs[audit.pairs["errors"] >= 0.5].head(PAIRS).to_dict("records")
    return ", ".join(
        f"{one_line(row['label'], 30)} → {one_line(row['guess'], 30)} ({count(row['errors'])})"
        for row in likely
    )


def _table(audit: Audit, data: Labelled, console: Console, top: int) -> Table:
    from rich.table import Table

    rows = choose(audit, top)
    cells: list[tuple[str, ...]] = [("id", "label", "guess", "trust", _CONTENT[data.kind])]
    for row, example in zip(rows.tolist(), audit.examples.iloc[rows].to_dict("records"), strict=True):
        names = [one_line(example[name], SNIPPET) for name in ("id", "label", "guess")]
        cells.append((*names, percent(float(example["trust"])), _content(data, row)))
    table = Table(box=None, pad_edge=False, show_header=False)
    widths = _widths(cells, console.width)
    for _ in widths:
        table.add_column(no_wrap=True, overflow="crop")
    for place, line in enumerate(cells):
        texts = [_cut(console, cell, width) for cell, width in zip(line, widths, strict=False)]
        table.add_row(*texts, style=None if place else "bold")
    return table


def _widths(cells: list[tuple[str, ...]], width: int) -> list[int]:
    """How wide each column may be: names what they need up to a share of the line, the content the rest."""
    from rich.cells import cell_len

    needed = [max(cell_len(cell) for cell in column) for column in zip(*cells, strict=True)]
    room = width - GAP * (len(needed) - 1) - needed[3]
    shares = (room // 4, room // 5, room // 5)
    names = [max(min(need, share), 3) for need, share in zip(needed, shares, strict=False)]
    content = room - sum(names)
    shown = content >= NARROWEST and any(line[4] for line in cells[1:])
    return [*names, needed[3], *([content] if shown else [])]


def _cut(console: Console, cell: str, width: int) -> Text:
    from rich.cells import cell_len, set_cell_size

    if cell_len(cell) > width:
        cell = f"{set_cell_size(cell, width - 1).rstrip()}…"
    return _text(console, cell)


def _content(data: Labelled, row: int) -> str:
    """A glance at an example on one line."""
    if data.kind == "text":
        return " | ".join(one_line(part, SNIPPET) for part in data.inputs[row])
    if data.kind == "table":
        return _values(data.inputs, row)
    # An image in memory has nothing to be read, and a file often has its path for an id.
    image = "" if hasattr(data.inputs[row], "shape") else str(data.inputs[row])
    return "" if not image or image.endswith(str(data.ids[row])) else one_line(image, SNIPPET)


def _values(table: Any, row: int) -> str:
    """The first values of a row, as many as a line can hold; of a sparse one those that are not 0."""
    if hasattr(table, "iloc"):
        first = table.iloc[row, :12]
        pairs = [(str(name), value) for name, value in first.items()]
    elif hasattr(table, "tocsr"):
        sparse = table[[row]].tocsr()
        pairs = [(f"[{j}]", x) for j, x in zip(sparse.indices[:12], sparse.data[:12], strict=True)]
    else:
        pairs = [(f"[{j}]", value) for j, value in enumerate(table[row][:12])]
    return ", ".join(f"{one_line(name, 24)} {_value(value)}" for name, value in pairs)


def _value(value: Any) -> str:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    return number(float(value)) if is_number else one_line(value, 24)


def _say(console: Console, sentence: str, *, bold: bool = False) -> None:
    # Lines of a file or a pipe are not broken: what reads them may look for the sentence.
    text = _text(console, sentence)
    if bold:
        text.stylize("bold")
    console.print(text, soft_wrap=not console.is_terminal)


def _text(console: Console, text: str) -> Text:
    """Text as it is: no markup is read in it, and what the terminal cannot write is replaced."""
    from rich.text import Text

    encoding = console.encoding
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(_PLAIN).encode(encoding, "replace").decode(encoding)
    return Text(text)


_PLAIN = str.maketrans({"→": "->", "…": "~", "\u2068": "", "\u2069": ""})
_CONTENT = {"text": "text", "image": "image", "table": "values"}
