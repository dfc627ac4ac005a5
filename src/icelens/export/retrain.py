"""`icelens retrain`: what the review was worth to a classifier, on examples that it did not learn from."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icelens.errors import InputError
from icelens.export.changes import standing_verdicts
from icelens.export.reviewed import Reviewed, read_reviewed

NORMAL_90 = 1.645
Rows = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Score:
    """Accuracy of two networks on the same n examples; the difference, its error and 90 % interval."""

    n: int
    before: float
    after: float
    difference: float
    standard_error: float
    low: float
    high: float


@dataclass(frozen=True)
class Retrained:
    """What training on cleaned labels changed.

    Args:
        judged: on all held-out examples with a label to judge by.
        reviewed: on those whose label a person kept or gave.
        trusted: on those that nobody looked at and the audit lists as no issue.
        left_out: held-out ones without a label to judge by: dropped, unsure, or suspects nobody looked at.
        relabelled: labels that differ.
        dropped: examples that are trained on before, and not after.
        folds: how many times a part was held out.
        classes: how many.
        examples: how many, in all.
    """

    judged: Score | None
    reviewed: Score | None
    trusted: Score | None
    left_out: int
    relabelled: int
    dropped: int
    folds: int
    classes: int
    examples: int

    def as_json(self) -> dict[str, Any]:
        """For a program."""
        return asdict(self)


def retrain(
    folder: Path, *, data: Path | None = None, device: str = "auto", seed: int | None = None
) -> Retrained:
    """Train the audit's network on given and on cleaned labels, and judge both on what neither has seen.

    No label in the data is known to be right, so the held-out part is judged by those with the best claim:
    the ones people kept or gave in the review, and, of those nobody looked at, the ones the audit lists as
    no issue. The latter are easy by choice: a network agreed with them; so both parts are told apart.

    Args:
        folder: of the audit.
        data: where the audited data lies, if it was moved.
        device: "auto", "cpu", "cuda", ...
        seed: of the parts and the networks; that of the audit where left out.
    """
    standing_verdicts(folder)
    from icelens.auditing.stages import FOLDS, SMALL

    reviewed = read_reviewed(folder, data)
    table = reviewed.examples
    given, cleaned = reviewed.codes("label"), reviewed.codes("label_after")
    people = table["verdict"].isin(["keep", "relabel"]).to_numpy()
    trusted = (table["verdict"].isna() & ~table["is_issue"]).to_numpy()
    dropped = (table["verdict"] == "drop").to_numpy()
    if not dropped.any() and (given == cleaned).all():
        raise InputError(f"{folder}: its verdicts change no label, so both networks would learn the same")
    held, right = _right(reviewed, given, cleaned, dropped, device=device, seed=seed)
    return Retrained(
        judged=_score(right, held & (people | trusted)),
        reviewed=_score(right, held & people),
        trusted=_score(right, held & trusted),
        left_out=int((held & ~people & ~trusted).sum()),
        relabelled=int(((given != cleaned) & ~dropped).sum()),
        dropped=int(dropped.sum()),
        folds=FOLDS if len(table) < SMALL else 1,
        classes=len(reviewed.classes),
        examples=len(table),
    )


def _right(
    reviewed: Reviewed, given: Rows, cleaned: Rows, dropped: Flags, *, device: str, seed: int | None
) -> tuple[Flags, NDArray[np.bool_]]:
    """Which examples were held out, (N,), and whether each network was right on them, (2, N)."""
    import torch

    from icelens.auditing.fit import fit
    from icelens.auditing.network import load_network

    inputs, network = load_network(reviewed.folder, reviewed.data, device)
    place, classes = next(network.parameters()).device, len(reviewed.classes)
    seed = int(reviewed.recipe["settings"]["seed"]) if seed is None else seed
    right, held = np.zeros((2, len(given)), dtype=bool), np.zeros(len(given), dtype=bool)
    for part, rest in _parts(cleaned, seed):
        held[part] = True
        for way, (labels, rows) in enumerate(((given, rest), (cleaned, rest[~dropped[rest]]))):
            fitted = fit(
                inputs, torch.from_numpy(labels).to(place), classes, rows=torch.from_numpy(rows),
                read=torch.from_numpy(part), seed=seed, title=f"{('given', 'cleaned')[way]} labels",
            )  # fmt: skip
            right[way, part] = fitted.log_p.argmax(1) == cleaned[part]
    return held, right


def _parts(labels: Rows, seed: int) -> Iterator[tuple[Rows, Rows]]:
    """What is held out and what is trained on, in turn; each part has its share of every class."""
    import torch

    from icelens.auditing.stages import FOLDS, SMALL, folds

    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    dealt = folds(torch.from_numpy(labels), order, FOLDS)
    for part in dealt if len(labels) < SMALL else dealt[:1]:
        rows = part.numpy()
        yield rows, np.setdiff1d(np.arange(len(labels)), rows)


def _score(right: NDArray[np.bool_], chosen: Flags) -> Score | None:
    n = int(chosen.sum())
    if not n:
        return None
    before, after = (right[way, chosen].astype(float) for way in (0, 1))
    change = after - before
    error = float(change.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")
    low, high = interval(int((change > 0).sum()), int((change < 0).sum()), n)
    return Score(n, float(before.mean()), float(after.mean()), float(change.mean()), error, low, high)


def interval(better: int, worse: int, n: int) -> tuple[float, float]:
    """The 90 % interval of a difference of accuracies, from how many of n examples became right and wrong.

    Half an example is added to each of the four ways that one can go (Agresti and Min, 2005): else no change
    among a few would be called no change for sure.

    >>> [round(end, 3) for end in interval(0, 0, 60)]
    [-0.027, 0.027]
    """
    more, fewer, total = better + 0.5, worse + 0.5, n + 2
    centre = (more - fewer) / total
    reach = NORMAL_90 * math.sqrt(more + fewer - (more - fewer) ** 2 / total) / total
    return max(centre - reach, -1.0), min(centre + reach, 1.0)
