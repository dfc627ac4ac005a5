"""ICE with a noise channel: a label that is not the model's own went from its class to another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from icelens import ranks
from icelens.confidence import Confidence, as_read
from icelens.errors import TrainingError
from icelens.losses.ranges import AT_LEAST_0, INSIDE, SHARE, Range, check_settings, check_sizes
from icelens.losses.reduction import check_batch, is_learning, without_index
from icelens.losses.state import FineState

IMAGINED = 1e-5  # flips of each kind beside those that were counted, as shares of all labels
BLOCK = 1 << 18  # numbers that are worked on at a time


class ChannelLoss(FineState):
    """−log q_y,  q_y = B·p_y + (1 − B)·Σ_a p_a F[a, y]:  a belief B per example, one matrix F for all.

    ICE-LIN measures a label against a uniform guess. A wrong label that is plausible (cat for dog) has
    more than 1/K of the model's belief, so to ICE-LIN it looks supported. Here it is measured against what a
    flip would give: F[a, y] is the share of the flipped labels of class a that became y, with F[a, a] = 0.

    Each example has a confidence C as in ICE: with r(C) = C·p_y / [C·p_y + (1 − C)·Σ_a p_a F[a, y]], the
    probability that its label was not flipped, a visit moves the logit of C by step_size · [r(C) − C]. The
    loss itself believes C in part only, logit B = belief · logit C + (1 − belief) · logit kept_y: with all of
    it, a hard example that falls behind is given up, which on data that is hard to learn costs more than the
    wrong labels do. F and `kept`, the share of a class that is not flipped, follow r(B) (EM over batches).
    Several processes would each learn a channel of their own, so it is for one.

    Args:
        examples: the number of training examples.
        classes: K, at least 2.
        kept: the share of labels that are right, at the start.
        belief: how far the loss follows the confidence of the single example.
        step_size: how far one visit moves a confidence logit.
        memory: share of a batch in the moving counts that F and `kept` are read from.
        dtype: of the confidence logits.
    """

    RANGES: ClassVar[Mapping[str, Range]] = {
        "kept": INSIDE, "belief": SHARE, "step_size": AT_LEAST_0, "memory": SHARE,
    }  # fmt: skip

    flipped: Tensor
    stayed: Tensor
    steps: Tensor

    def __init__(
        self,
        examples: int,
        classes: int,
        *,
        kept: float = 0.9,
        belief: float = 0.15,
        step_size: float = 1.0,
        memory: float = 0.02,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        check_sizes(examples, classes)
        check_settings(ChannelLoss.RANGES, kept=kept, belief=belief, step_size=step_size, memory=memory)
        self.belief, self.step_size, self.memory = belief, step_size, memory
        self.table = Confidence(examples, start=float(torch.logit(torch.tensor(kept))), dtype=dtype)
        elsewhere = 1 - torch.eye(classes)
        # Shares of all labels, by the class they belong to and the one they were given.
        self.register_buffer("flipped", elsewhere * (1 - kept) / (classes - 1) / classes)
        self.register_buffer("stayed", torch.full((classes,), kept / classes))
        self.register_buffer("steps", torch.zeros(()))  # a tensor, which a recorded step can count on

    @property
    def channel(self) -> Tensor:
        """F, (classes, classes): rows sum to one, the diagonal is zero."""
        counts = _flips(self.flipped)
        return counts / counts.sum(1, keepdim=True)

    def channel_to(self, labels: Tensor) -> Tensor:
        """F[:, y] of each label y, (labels, classes): `channel.T[labels]` to the bit, in less time."""
        # Some rows at a time: to get K × K numbers from the system and give them back takes most of a step.
        some = max(1, BLOCK // len(self.stayed))
        blocks = enumerate(torch.split(self.flipped, some))
        whole = torch.cat([_flips(block, number * some).sum(1) for number, block in blocks])
        counts = (self.flipped.T[labels] + IMAGINED).scatter(1, labels[:, None], 0.0)
        return counts / whole

    @property
    def kept(self) -> Tensor:
        """The share of the labels of each class that are right, (classes,)."""
        # A few imagined examples of all classes together keep a rare class from 0 and 1.
        stayed, moved = self.stayed, self.flipped.sum(1)
        whole = stayed.sum() / (stayed.sum() + moved.sum())
        imagined = 0.02 / len(stayed)
        return (stayed + imagined * whole) / (stayed + moved + imagined)

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        """The mean loss of a batch; without `index`, for other data, cross entropy."""
        labels = check_batch(logits, labels, columns=len(self.stayed), index=index)
        if index is None:
            return without_index(self, logits, labels, "mean")
        learning = is_learning(self)
        if learning and ranks.count() > 1:
            raise TrainingError(
                f"ChannelLoss is for one process, and there are {ranks.count()}, each of which would learn a "
                "channel of its own; take HeldLoss, or train in each by itself, inside icelens.ranks.alone()"
            )
        self.table.follow(logits.device)
        rows, movable = self.table.rows(index)
        v = self.table.read(rows, once=learning)
        kept = as_read(self.kept[labels], once=learning)
        channel = as_read(self.channel_to(labels), once=learning)
        p = F.softmax(logits.float(), -1)
        p_y = p.gather(1, labels[:, None]).squeeze(1)
        from_class = p * channel  # (batch, classes): given a flip, from class a to the label
        by_flip = from_class.sum(1)
        believed = torch.sigmoid(self.belief * v + (1 - self.belief) * torch.logit(kept))
        q = believed * p_y + (1 - believed) * by_flip + 1e-12
        if learning:
            confidence = torch.sigmoid(v)
            stayed = (confidence * p_y).detach()
            r = stayed / (stayed + (1 - confidence) * by_flip.detach() + 1e-12)
            usable = movable & (p_y >= 0)  # one row of NaN would stay in F for good
            self.table.update(rows, self.step_size * (r - confidence), usable)
            stayed = (believed * p_y / q).detach().masked_fill(~usable, 0.0)
            moved = (((1 - believed) / q)[:, None] * from_class).detach()
            self._count(labels, stayed, moved.masked_fill(~usable[:, None], 0.0))
        return -q.log().mean()

    def _count(self, labels: Tensor, stayed: Tensor, moved: Tensor) -> None:
        """Let the counts follow the probabilities of a batch: a mean at first, then a moving average."""
        if not len(labels):
            return
        self.steps += 1
        share = (1 / (self.steps + 1)).clamp_min(self.memory)
        moved, stayed = moved.T.to(self.flipped), stayed.to(self.stayed)
        flipped, kept = self._by_label(labels, moved, stayed)
        self.flipped.lerp_(flipped.div_(len(labels)), share)
        self.stayed.lerp_(kept.div_(len(labels)), share)

    def _by_label(self, labels: Tensor, *values: Tensor) -> list[Tensor]:
        """Sums over the rows of a batch with the same label, (..., classes), of values (..., batch)."""
        sums = (value.new_zeros(*value.shape[:-1], len(self.stayed)) for value in values)
        return [into.index_add_(-1, labels, value) for into, value in zip(sums, values, strict=True)]

    def confidence(self) -> Tensor:
        """The confidence C of every example, (examples,)."""
        confidence: Tensor = self.table()
        return confidence


def _flips(flipped: Tensor, first: int = 0) -> Tensor:
    """What F is a share of, by rows from the class `first` on: flips as counted, and a few imagined ones."""
    counts = flipped + IMAGINED
    # The diagonal; torch's compiler warns of `diagonal` itself.
    counts.view(-1)[first :: counts.shape[1] + 1].zero_()
    return counts
