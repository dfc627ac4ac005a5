"""What a network believes pass by pass when nothing holds it, and when it learns wrong labels by heart.

    python benchmarks/learning.py --root data                                    # minutes on a CPU
    python benchmarks/learning.py --cases mnist-mlp-pair-40 --passes 20

A row for each pass over the data, from the second on: of how many examples the network says what was
believed of them before ("lasting"), how many labels contradict the belief ("doubted"), of how many of these
the network says what was believed ("of doubted"), and how many beliefs are right. The first seed of each.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import torch
from robust import Place, recipe_of
from robust_cases import ALL, FEW, UNSEEN, load_case
from torch import Tensor

from icelens.losses import held
from icelens.train.loop import advance, begin
from icelens.train.task import prepare

CASES = [*UNSEEN, *FEW, "fashion-mlp-0", "fashion-mlp-instance-40", "fashion-mlp-50"]


class EnoughPasses(Exception):
    """Ends a training from within."""


class Passes:
    """What is counted in each pass over the data."""

    def __init__(self, clean_labels: Tensor, count: int) -> None:
        self.clean_labels, self.count = clean_labels, count
        self.counts = torch.zeros(4)
        self.rows: list[tuple[float, ...]] = []

    def count_batch(self, loss: held.HeldLoss, batch: held._Batch) -> None:
        """Count what was believed before the batch; at the end of a pass, write it down."""
        known = batch.notes.share > 0
        same = known & (batch.seen.argmax(1) == batch.notes.leader)
        doubted = known & (batch.notes.leader != batch.labels)
        self.counts += torch.stack([known, same, doubted, same & doubted]).sum(1)
        if int(loss.rows_seen) >= (len(self.rows) + 1) * len(self.clean_labels):
            seen, lasting, contradicted, both = self.counts.clamp_min(1).tolist()
            right = (loss.leader.long() == self.clean_labels).float().mean().item()
            self.rows.append((lasting / seen, contradicted / seen, both / contradicted, right))
            self.counts.zero_()
        if len(self.rows) == self.count:
            raise EnoughPasses


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, default=Path("data"), help="the folder of data sets")
    parser.add_argument("--cases", nargs="+", choices=ALL, default=CASES, metavar="CASE", help=", ".join(ALL))
    parser.add_argument("--passes", type=int, default=14)
    arguments = parser.parse_args()
    for case in arguments.cases:
        print("\n".join(course(case, arguments.root, arguments.passes)), flush=True)


def course(case: str, root: Path, passes: int) -> Iterator[str]:
    """The lines of a case: train by cross entropy, and note what ICE-HELD would."""
    split, settings = load_case(case, root, seed=0)
    recipe = recipe_of(settings, "ice_held", 0, Place(root, Path(), "cpu"))
    task = prepare(recipe, split)
    counted, measure = Passes(task.clean_labels.cpu(), passes), held.HeldLoss._measure

    def count(loss: held.HeldLoss, batch: held._Batch) -> None:
        measure(loss, batch)
        counted.count_batch(loss, batch)

    def nothing(loss: held.HeldLoss, v: Tensor, share: Tensor) -> Tensor:
        return torch.zeros_like(v)

    with patch.multiple(held.HeldLoss, _measure=count, _weight=nothing), suppress(EnoughPasses):
        advance(recipe, task, begin(recipe, task), title=case)
    yield f"\n{case}\n  pass  lasting  doubted  of doubted  right"
    for number, row in enumerate(counted.rows[1:], start=2):
        yield f"  {number:4}  {row[0]:7.3f}  {row[1]:7.3f}  {row[2]:10.3f}  {row[3]:5.3f}"


if __name__ == "__main__":
    main()
