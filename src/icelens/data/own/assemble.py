"""From inputs, labels and ids to `Labelled`: rows without labels and broken images are left out here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icelens.counts import counted
from icelens.data.labelled import Labelled, rows_in, take_inputs
from icelens.data.own.images import Broken, find_broken, find_missing
from icelens.data.own.labels import Labels, Rules, check_classes, used
from icelens.data.own.origin import Origin, brief


@dataclass(frozen=True)
class Let:
    """What the user lets through."""

    drop_unlabelled: bool = False
    keep_rare: bool = False
    skip_broken: bool = False

    def rules(self, origin: Origin, what: str, elsewhere: str = "") -> Rules:
        """How to read labels that errors call `what`."""
        return Rules(origin, what, self.drop_unlabelled, self.keep_rare, elsewhere)


def assemble(
    kind: str,
    inputs: Any,
    labels: Labels,
    ids: NDArray[np.object_] | None,
    *,
    origin: Origin,
    let: Let,
    said: tuple[str, ...],
) -> Labelled:
    """The examples that have a label and, if they are images, can be decoded.

    Args:
        kind: "text", "image" or "table".
        inputs: of all rows, as `Labelled` has them.
        labels: of the rows that have one.
        ids: of all rows; None for row numbers.
        origin: where they come from.
        let: what the user lets through.
        said: what was decided so far.
    """
    rows = rows_in(inputs)
    ids = np.arange(rows).astype(object) if ids is None else ids
    if len(labels.rows) < rows:
        inputs, ids = take_inputs(inputs, labels.rows), ids[labels.rows]
    name = origin.path.resolve().name if origin.path else "arrays"
    data = Labelled(kind, inputs, labels.codes, labels.classes, ids, labels.rows, name, (*said, *labels.said))
    if kind == "image" and not isinstance(inputs, np.ndarray):
        return _decoded(data, origin, let)
    return data


def _decoded(data: Labelled, origin: Origin, let: Let) -> Labelled:
    broken = ([] if let.skip_broken else find_missing(data.inputs)) or find_broken(data.inputs)
    if not broken:
        return data
    told = _told(data, broken)
    if not let.skip_broken or len(broken) == len(data):
        option = origin.option("skip_broken")
        raise origin.error(f"{told}; repair or remove them, or leave them out with {option}")
    kept = np.setdiff1d(np.arange(len(data)), [image.position for image in broken])
    rest = data.take(kept)
    labels = used(Labels(rest.labels, rest.classes, rest.rows))
    check_classes(labels, let.rules(origin, "what is left without broken images"))
    return replace(rest, labels=labels.codes, classes=labels.classes, said=(*data.said, f"{told}; left out"))


def _told(data: Labelled, broken: list[Broken]) -> str:
    first = broken[0]
    source = data.inputs[first.position]
    where = f"row {data.rows[first.position]:,}" + (
        f", {brief(source, 120)}" if hasattr(source, "__fspath__") else ""
    )
    return f"{len(broken):,} of {counted(len(data), 'image')} cannot be read, first {where} ({first.why})"
