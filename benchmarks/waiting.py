"""Other rules of when ICE-HELD holds, each as what stands in HeldLoss in the place of its own.

For benchmarks/parts.py. Three are rules of s, the share of examples of which a belief lasts; three count only
the examples whose label contradicts the belief: of these it rises while a network learns and falls once it
learns wrong labels by heart.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from icelens.losses import held

Change = dict[str, Any]


def rising_evenly(loss: held.HeldLoss, counts: Tensor, *, over: int) -> None:
    """Let s̄ rise evenly to the mean of s over so many visits of each example, and be that of two from there.

    s is a mean at first, too, and always much faster than s̄.
    """
    used, again, _, lasting = counts.unbind()
    repeats = loss.rows_seen - loss.examples_seen + again  # visits that were not an example's first
    span = (2 * loss.examples_seen).clamp_min(1)
    newer = torch.maximum(again / repeats.clamp_min(1), 4 * used / span).clamp(loss.memory, 1) * (again > 0)
    loss.steady.lerp_((lasting / again.clamp_min(1)).to(loss.steady), newer.to(loss.steady))
    risen = repeats > over / 2 * span
    visits = (used / span * torch.where(risen, 1, 2 / over)).clamp(max=1).to(loss.steady)
    loss.settled += visits * (loss.steady - loss.settled * risen)


def evenly(over: int) -> Change:
    def average(loss: held.HeldLoss, counts: Tensor, *_: Tensor) -> None:
        rising_evenly(loss, counts, over=over)

    return {"_average": average}


def by_doubted(power: int = 8, slack: float = 1.03, *, lasting: bool = False) -> Change:
    """s and s̄ of the examples whose label contradicts the belief; the hold as a power of their ratio.

    Args:
        power: of the ratio, with ten classes or fewer.
        slack: how far above s̄ s may be.
        lasting: whether the hold, once it is there, does not give way.
    """
    make, measure = held.HeldLoss.__init__, held.HeldLoss._measure

    def init(loss: held.HeldLoss, *arguments: Any, **settings: Any) -> None:
        make(loss, *arguments, **settings)
        loss.register_buffer("doubts", torch.zeros((), dtype=torch.int64))
        loss.register_buffer("highest", torch.zeros(()))

    def count(loss: held.HeldLoss, batch: held._Batch) -> None:
        _follow_doubted(loss, batch)
        measure(loss, batch)

    return {
        "__init__": init,
        "_average": lambda *_: None,
        "_measure": count,
        "_weight": _weigher(power, slack, lasting=lasting),
    }


def _follow_doubted(loss: Any, batch: held._Batch) -> None:
    notes = batch.notes
    doubted = batch.usable & (notes.share > 0) & (notes.leader != batch.labels)
    same = (doubted & (batch.seen.argmax(1) == notes.leader)).sum()
    used, doubted = batch.usable.sum(), doubted.sum()
    loss.doubts += doubted
    share = loss.contradicted.double()
    span = (2 * loss.examples_seen * share).clamp_min(1)
    floor = loss.memory * doubted / (share * used).clamp_min(1)
    newer = torch.maximum(torch.maximum(doubted / loss.doubts.clamp_min(1), 4 * doubted / span), floor)
    newer = (newer.clamp(max=1) * (doubted > 0)).to(loss.steady)
    loss.steady.lerp_((same / doubted.clamp_min(1)).to(newer), newer)
    visits = (doubted / span).clamp(max=1).to(newer)
    loss.settled += visits * (loss.steady - loss.settled * (loss.doubts > span))


def _weigher(power: int, slack: float, *, lasting: bool) -> Callable[[Any, Tensor, Tensor], Tensor]:
    def weight(loss: Any, v: Tensor, share: Tensor) -> Tensor:
        classes = len(loss.stayed)
        many = max(1.0, math.log10(classes))
        hold = loss.hold * max(many, held._CHANCE * classes / (classes - 1))
        everyone = (loss.contradicted / loss.doubt).clamp(max=1) ** held._STEEP
        settled = (slack * loss.settled / loss.steady.clamp_min(1e-6)).clamp(max=1) ** (power * many)
        if lasting and loss.training:
            loss.highest.copy_(torch.maximum(loss.highest, settled))
        settled = loss.highest if lasting else settled
        firmer = 1 + held._FIRMER * (loss.contradicted * share.to(v)) ** 4
        result: Tensor = hold * settled * firmer * (1 - (1 - everyone) * torch.sigmoid(v))
        return result

    return weight


THIRD_VISIT, FIFTH_VISIT = evenly(2), evenly(4)
DOUBTED = by_doubted()
DOUBTED_STEEPER = by_doubted(16)
DOUBTED_FOR_GOOD = by_doubted(16, 1.01, lasting=True)
