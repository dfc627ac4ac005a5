"""ICE with a noise channel: a label that is not the model's own went from its class to another one."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from icelens.confidence import Confidence


class ChannelLoss(nn.Module):
    """−log q_y,  q_y = C·p_y + (1 − C)·Σ_a p_a F[a, y]:  a confidence C per example, one matrix F for all.

    ICE-LIN measures a label against a uniform guess. A wrong label that is plausible (cat for dog) has
    more than 1/K of the model's belief, so to ICE-LIN it looks supported. Here it is measured against what a
    flip would give: F[a, y] is the share of the flipped labels of class a that became y, with F[a, a] = 0.

    r = C·p_y / q_y is the probability that the label was not flipped. A visit moves the confidence logit by
    step_size · [(r − C) + (kept_y − C)]: the slope of log q_y, and a pull towards the share of its class that
    is kept, without which a hard example could only fall. F and `kept` follow the same r (a step of EM over a
    moving window of batches).

    Args:
        examples: the number of training examples.
        classes: K, at least 2.
        kept: the share of labels that are right, at the start.
        step_size: how far one visit moves a confidence logit.
        memory: share of a batch in the moving counts that F and `kept` are read from.
    """

    flipped: Tensor
    stayed: Tensor

    def __init__(
        self,
        examples: int,
        classes: int,
        *,
        kept: float = 0.9,
        step_size: float = 0.1,
        memory: float = 0.02,
    ) -> None:
        super().__init__()
        self.step_size, self.memory, self.steps = step_size, memory, 0
        self.table = Confidence(examples, start=float(torch.logit(torch.tensor(kept))))
        elsewhere = 1 - torch.eye(classes)
        # Shares of all labels, by the class they belong to and the one they were given.
        self.register_buffer("flipped", elsewhere * (1 - kept) / (classes - 1) / classes)
        self.register_buffer("stayed", torch.full((classes,), kept / classes))

    @property
    def channel(self) -> Tensor:
        """F, (classes, classes): rows sum to one, the diagonal is zero."""
        counts = self.flipped + 1e-5 * (1 - torch.eye(len(self.stayed), device=self.flipped.device))
        return counts / counts.sum(1, keepdim=True)

    @property
    def kept(self) -> Tensor:
        """The share of the labels of each class that are right, (classes,)."""
        # A few imagined examples of all classes together keep a rare class from 0 and 1.
        stayed, moved = self.stayed, self.flipped.sum(1)
        whole = stayed.sum() / (stayed.sum() + moved.sum())
        imagined = 0.02 / len(stayed)
        return (stayed + imagined * whole) / (stayed + moved + imagined)

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """The mean loss of a batch."""
        self.table.follow(logits.device)
        rows, movable = self.table.rows(index, torch.ones_like(labels, dtype=torch.bool))
        p = F.softmax(logits.float(), -1)
        confidence = torch.sigmoid(self.table.read(rows))
        own = confidence * p.gather(1, labels[:, None]).squeeze(1)
        # (batch, classes): that the label came from class a by a flip.
        from_class = p * ((1 - confidence)[:, None] * self.channel.T[labels])
        q = own + from_class.sum(1) + 1e-12
        if self.training and torch.is_grad_enabled():
            r = (own / q).detach()
            step = self.step_size * (r + self.kept[labels] - 2 * confidence)
            self.table.update(rows, step, movable)
            self._count(labels, r, (from_class / q[:, None]).detach())
        return -q.log().mean()

    def _count(self, labels: Tensor, stayed: Tensor, moved: Tensor) -> None:
        """Let the counts follow the probabilities of a batch: a mean at first, then a moving average."""
        self.steps += 1
        share = max(self.memory, 1 / (self.steps + 1))
        flipped = torch.zeros_like(self.flipped).index_add_(1, labels, moved.T) / len(labels)
        kept = torch.zeros_like(self.stayed).index_add_(0, labels, stayed) / len(labels)
        self.flipped.lerp_(flipped, share)
        self.stayed.lerp_(kept, share)

    def confidence(self) -> Tensor:
        """The confidence C of every example, (examples,)."""
        confidence: Tensor = self.table()
        return confidence
