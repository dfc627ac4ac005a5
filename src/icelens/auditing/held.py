"""For networks that would learn wrong labels by heart: cross entropy that may not unlearn a belief."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from icelens.auditing.channel import ChannelLoss

_EDGE = 1e-4  # log(1 − ⟨t, p⟩) would be infinite at 1


class HeldLoss(ChannelLoss):
    """−log p_y + hold · log(1 − ⟨t, p⟩):  t is what the model has been believing of the example.

    t is the moving average of the model's predictions of an example over its visits, as in early-learning
    regularisation (Liu et al., 2020). A network learns right labels first; the second term then holds it to
    what it believed, while cross entropy alone would go on to the wrong labels. Of t, which has K entries, an
    example keeps two numbers, its leading class and the share of that; the rest is spread as the model
    spreads it now.

    C, `kept` and F are those of `ChannelLoss` with t in the place of p: the label of an example is measured
    against what was believed of it. They do not enter the loss.

    Args:
        examples: the number of training examples.
        classes: K, at least 2.
        hold: weight of the second term. 3 is the original's for CIFAR-10.
        decay: of the average t over visits, likewise.
    """

    leader: Tensor
    share: Tensor
    visits: Tensor

    def __init__(self, examples: int, classes: int, *, hold: float = 3.0, decay: float = 0.7) -> None:
        super().__init__(examples, classes, belief=0.0)
        self.hold, self.decay = hold, decay
        code = torch.int16 if classes < 2**15 else torch.int32
        self.register_buffer("leader", torch.zeros(examples, dtype=code))
        self.register_buffer("share", torch.zeros(examples, dtype=torch.float16))
        self.register_buffer("visits", torch.zeros((), dtype=torch.float64))  # of an example, on average

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """The mean loss of a batch."""
        p = F.softmax(logits.float(), -1).clamp(_EDGE, 1 - _EDGE)
        learning = self.training and torch.is_grad_enabled()
        with torch.no_grad():
            believed = self._average(p, index)
            if learning:
                self._remember(believed, index)
                self._measure(believed / believed.sum(1, keepdim=True), labels, index)
        held = torch.log1p(-(believed * p).sum(1).clamp(max=1 - _EDGE)).mean()
        return F.cross_entropy(logits.float(), labels) + self.hold * held

    def _average(self, p: Tensor, index: Tensor) -> Tensor:
        """t with this visit in it, (batch, classes); it sums to less than one in the first visits."""
        leader, share = self.leader[index].long()[:, None], self.share[index].float()[:, None]
        whole = (1 - self.decay ** self.visits.floor()).float()
        rest = (whole - share).clamp_min(0) / (1 - p.gather(1, leader))
        before = (rest * p).scatter(1, leader, share)
        return self.decay * before + (1 - self.decay) * p / p.sum(1, keepdim=True)

    def _remember(self, believed: Tensor, index: Tensor) -> None:
        share, leader = believed.max(1)
        self.leader[index], self.share[index] = leader.to(self.leader), share.to(self.share)
        self.visits += len(index) / len(self.leader)

    def _measure(self, believed: Tensor, labels: Tensor, index: Tensor) -> None:
        """Let the confidences of the batch, F and `kept` follow the labels as seen from the beliefs."""
        self.table.follow(believed.device)
        rows, movable = self.table.rows(index, torch.ones_like(labels, dtype=torch.bool))
        confidence = torch.sigmoid(self.table.read(rows))
        own = believed.gather(1, labels[:, None]).squeeze(1)
        from_class = believed * self.channel.T[labels]
        by_flip = from_class.sum(1)
        stayed = confidence * own
        r = stayed / (stayed + (1 - confidence) * by_flip + 1e-12)
        self.table.update(rows, self.step_size * (r - confidence), movable)
        kept = self.kept[labels]
        q = kept * own + (1 - kept) * by_flip + 1e-12
        self._count(labels, kept * own / q, ((1 - kept) / q)[:, None] * from_class)
