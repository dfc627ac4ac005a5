"""ICE that is held to its beliefs: for networks that would learn wrong labels by heart."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from icelens import ranks
from icelens.confidence import as_read
from icelens.errors import check_count
from icelens.losses.channel import ChannelLoss
from icelens.losses.ranges import AT_LEAST_0, BELOW_ONE, SHARE, Range, check_settings
from icelens.losses.reduction import check_batch, check_reduction, is_learning, reduced, without_index
from icelens.transforms import wide

_EDGE = 1e-4  # log(1 − ⟨t, p⟩) would be infinite at 1
_SURE = 1e-6  # the support of a label stays so far from 0 and 1; nearer to 1 float32 is too coarse
_STEEP = 8  # nearly switches, since flips are learned while a hold comes or goes by and by
_VISITS = 2.0  # of every example, over which the share of beliefs that last is averaged
_SLACK = 1.03  # how far above its average that share may be and still count as settled
_CHANCE = 0.9  # (K − 1) / K of ten classes, which so have the hold as it is given
_FIRMER = 2.0  # what is added to a hold of 1 for a firm belief where all labels are contradicted
_LASTING = 0.02  # of the confidence at least, what is read from all visits
_MOSTLY = 0.5  # the same where all labels are contradicted
_FLOOR = 0.001  # a support below this says no more than that
_LATER = 0.1  # how far a visit in a second stage moves what is believed and trusted


class _Notes(NamedTuple):
    """What was kept before a visit.

    By row the leading class, its share of t and whether there was one; and how many visits all had.
    """

    leader: Tensor
    share: Tensor
    known: Tensor
    visits: Tensor


class _Batch(NamedTuple):
    """What a step learns from.

    `seen` are predictions, away from 0 and 1, and `p_y` those of the labels as they are; `believed` is t
    after the step, `v` the logits of C; `usable` says which rows count.
    """

    seen: Tensor
    p_y: Tensor
    labels: Tensor
    rows: Tensor
    usable: Tensor
    notes: _Notes
    believed: Tensor
    v: Tensor


class HeldLoss(ChannelLoss):
    """−log p_y + w·log(1 − ⟨t, p⟩):  t is what the model has been believing of the example.

    t is the moving average of the model's predictions of an example over its visits, as in early-learning
    regularisation (Liu et al., 2020). A network learns right labels first; the second term then holds it to
    what it believed, while cross entropy alone would go on to the wrong labels. Of t, which has K entries, an
    example keeps two numbers, its leading class and the share of that; the rest is spread as the model
    spreads it now.

    C, `kept` and F are those of `ChannelLoss` with t in the place of p: the label of an example is measured
    against what was believed of it. C remembers all visits and knows where flips go. Late, when the model
    knows most, its recent predictions of the label tell more, but for those below a thousandth: of these the
    least is no more likely wrong than the others. So `confidence` is (1 − κ)·max(e, 0.001) + κ·C with e the
    moving average of p_y, which starts as a mean; `support` keeps its logit. κ is 0.02, or d⁴/2 if that is
    more, with d as below: where most labels are wrong, what a model says of one changes from visit to visit.
    All of it is 8 bytes an example, and a cast of the module makes none of it coarser. A batch that holds an
    example twice remembers one of the two visits. Several ranks hand each other their predictions, so that
    each remembers the whole batch.

    The data says how much holding it needs, by two shares over the last batches: s, of the examples of which
    the model says what it believed before, and d, of the labels that are not what is believed. With s̄ the
    average of s over two visits of every example or so, and k = max(1, log10 K), the weight is
    w = h · min[1, 1.03 s̄ / s]^(8k) · (1 + 2 (d t_m)⁴) · [g + (1 − g)·(1 − C)], g = min[1, d / doubt]⁸.
    h is `hold` with ten classes, and hold · max(k, 0.9 K / (K − 1)) else, 1.8 times as much with two: of
    ⟨t, p⟩ a share of 1/K is there by chance, and a belief of 0.6 in one of two classes hardly holds.
    A model that is held to beliefs that still change cannot learn better ones, so the hold waits until s
    hardly grows. Where most labels are contradicted, firm beliefs, those with a large share t_m of the
    leading class before this visit, are held harder: so many wrong labels would outweigh them. And where few
    labels are contradicted, only the doubtful ones are held back; the loss of the others is cross entropy. d
    counts what is hard to learn too, so it errs towards holding, which costs less than wrong labels that are
    learned.

    Args:
        examples: the number of training examples.
        classes: K, at least 2.
        hold: weight of the second term with ten classes. 3 is that of Liu et al. for CIFAR-10. From 2 on it
            outweighs the pull of a wrong label on a model that is sure of another class.
        decay: of the averages t and e over visits; 0.7 is theirs.
        doubt: the share of contradicted labels from which on all are held; 0 holds all by h from the
            first visit on, whatever the data says: for comparison.
        step_size: how far one visit moves a confidence logit.
        reduction: "mean", "sum" or "none".
        capacity: with several ranks, the largest batch of one rank. None: that of the first step.
    """

    RANGES: ClassVar[Mapping[str, Range]] = {
        "hold": AT_LEAST_0, "decay": BELOW_ONE, "doubt": SHARE, "step_size": AT_LEAST_0,
    }  # fmt: skip

    leader: Tensor
    share: Tensor
    support: Tensor
    rows_seen: Tensor
    examples_seen: Tensor
    contradicted: Tensor
    steady: Tensor
    settled: Tensor

    def __init__(
        self,
        examples: int,
        classes: int,
        *,
        hold: float = 3.0,
        decay: float = 0.7,
        doubt: float = 0.05,
        step_size: float = 1.0,
        reduction: str = "mean",
        capacity: int | None = None,
    ) -> None:
        check_settings(self.RANGES, hold=hold, decay=decay, doubt=doubt)
        super().__init__(examples, classes, belief=0.0, step_size=step_size, dtype=torch.float16)
        self.hold, self.decay, self.doubt = hold, decay, doubt
        self.reduction = check_reduction(reduction)
        self.table.capacity = None if capacity is None else check_count("capacity", capacity, least=1)
        code = torch.int16 if classes < 2**15 else torch.int32
        self.register_buffer("leader", torch.zeros(examples, dtype=code))
        self.register_buffer("share", torch.zeros(examples, dtype=torch.float16))
        # As a logit: near 1 the numbers of 16 bits lie too far apart to tell labels, or to follow a visit.
        self.register_buffer("support", torch.zeros(examples, dtype=torch.float16))
        self.register_buffer("rows_seen", torch.zeros((), dtype=torch.int64))
        self.register_buffer("examples_seen", torch.zeros((), dtype=torch.int64))
        self.register_buffer("contradicted", torch.ones(()))  # d: at first nothing is known
        self.register_buffer("steady", torch.zeros(()))  # s
        self.register_buffer("settled", torch.zeros(()))  # s̄

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        """The loss of a batch; while training it also remembers what is believed of it."""
        labels = check_batch(logits, labels, columns=len(self.stayed), index=index)
        if index is None:
            return without_index(self, logits, labels, self.reduction)
        learning = is_learning(self)
        if self.share.device != logits.device:
            self.to(logits.device)
        rows, movable = self.table.rows(index)
        v = self.table.read(rows, once=learning).float()
        whole = wide(logits).softmax(-1)
        p = whole.clamp(_EDGE, 1 - _EDGE)
        with torch.no_grad():
            p_y = whole.gather(1, labels[:, None]).squeeze(1)
            usable = (p_y >= 0) & movable  # of NaN nothing is remembered
            seen = p.masked_fill(~usable[:, None], 1 / p.shape[1])
            notes = self._notes(rows)
            believed = as_read(self._recalled(seen, notes), once=learning)
            weight = as_read(self._weight(v, notes.share), once=learning)
            if learning:
                believed = self._moved(believed, seen)
                self._learn(_Batch(seen, p_y, labels, rows, usable, notes, believed, v))
        held = torch.log1p(-(believed * p).sum(1).clamp(max=1 - _EDGE))
        losses = F.cross_entropy(wide(logits), labels, reduction="none") + weight * held
        return reduced(losses, self.reduction)

    @torch.no_grad()
    def confidence(self) -> Tensor:
        """How far the label of every example is confirmed, (examples,): by all visits and by the last few."""
        self.table.raise_if_out_of_range()
        return self.confidence_of(torch.arange(self.table.examples, device=self.share.device))

    @torch.no_grad()
    def confidence_of(self, rows: Tensor) -> Tensor:
        """The same of these rows, (rows,); what was never visited has the confidence that all start with."""
        steps = torch.sigmoid(self.table.read(rows).float())
        recent = torch.sigmoid(self.support[rows].float()).clamp_min(_FLOOR)
        lasting = (_MOSTLY * self.contradicted**4).clamp_min(_LASTING).to(steps)
        return torch.where(self.share[rows] == 0, steps, torch.lerp(recent, steps, lasting))

    @torch.no_grad()
    def targets(self, p: Tensor, labels: Tensor, index: Tensor, *, live: Tensor) -> Tensor:
        """What to teach of a batch in a second stage, (batch, classes): C·y + (1 − C)·t²/Σt².

        The label as far as it is trusted, else what is believed, made sharper. t follows the predictions p of
        a slower network, t ← t + 0.1·(p − t), and C how far the label is what is believed,
        C ← C + 0.1·(r − C), r = t_y² / (t_y² + t_a²), a the leading one of the other classes. That the label
        was given is no evidence any more: a network that was taught it for an epoch believes it a little, and
        taken for evidence of its own that belief would grow from visit to visit.

        Args:
            p: (batch, classes), predictions.
            labels: (batch,), as given.
            index: (batch,), the rows of the data set.
            live: 1, or 0 where all of these stay as they are; a tensor, which a recorded step reads anew.
        """
        if not len(labels):
            return p
        rows, movable = self.table.rows(index)
        p_y = p.gather(1, labels[:, None]).squeeze(1)
        usable = (p_y >= 0) & movable & (live > 0)
        notes = self._notes(rows)
        support = self._followed(p_y, rows, usable, torch.where(notes.known, live * _LATER, 1.0))
        p = p.nan_to_num(1 / p.shape[1]).clamp(_EDGE, 1 - _EDGE)
        p = p / p.sum(1, keepdim=True)
        t = self._recalled(p, notes)
        t = t + (1 - t.sum(1, keepdim=True)).clamp_min(0) * p  # what early visits left open
        t = torch.lerp(t, p, live * _LATER)
        t = t / t.sum(1, keepdim=True)
        self._write(rows, usable, notes, t.max(1), support)
        sharp = t.square() / t.square().sum(1, keepdim=True)
        own = sharp.gather(1, labels[:, None]).squeeze(1)
        r = own / (own + sharp.scatter(1, labels[:, None], 0.0).amax(1))
        v = self.table.read(rows).float()
        confidence = torch.lerp(torch.sigmoid(v), r.to(v), live * _LATER)
        self.table.update(rows, torch.logit(confidence, 1e-6) - v, usable)
        return torch.lerp(sharp, F.one_hot(labels, t.shape[1]).to(t), confidence[:, None].to(t))

    def _learn(self, batch: _Batch) -> None:
        """Let all that is kept follow a batch, and those of other ranks."""
        if ranks.count() > 1:
            batch = self._of_all_ranks(batch)
        if len(batch.labels):
            self._remember(batch)
            self._measure(batch)

    def _of_all_ranks(self, batch: _Batch) -> _Batch:
        """The batches of all ranks as one."""
        rest = [batch.p_y, batch.labels, batch.rows, batch.usable, torch.ones_like(batch.labels)]
        packed = torch.cat([batch.seen.double(), torch.stack([one.double() for one in rest], 1)], 1)
        packed = self.table.of_all_ranks(packed, packed.device)
        packed = _once(packed[packed[:, -1] > 0])
        seen, p_y = packed[:, :-5].to(batch.seen), packed[:, -5].to(batch.p_y)
        labels, rows, usable, _ = packed[:, -4:].long().unbind(1)
        notes = self._notes(rows)
        believed = self._moved(self._recalled(seen, notes), seen)
        v = self.table.read(rows).float()
        return _Batch(seen, p_y, labels, rows, usable.bool(), notes, believed, v)

    def _notes(self, rows: Tensor) -> _Notes:
        """What is kept of these rows."""
        share = self.share[rows]
        return _Notes(self.leader[rows].long(), share, share > 0, self._visits())

    def _moved(self, believed: Tensor, seen: Tensor) -> Tensor:
        """t after a visit."""
        return torch.lerp(believed, seen / seen.sum(1, keepdim=True), 1 - self.decay)

    def _recalled(self, p: Tensor, notes: _Notes) -> Tensor:
        """t as it was left, (batch, classes); it sums to less than one in the first visits."""
        leader, share = notes.leader[:, None], notes.share.to(p)[:, None]
        whole = notes.known[:, None] * (1 - self.decay**notes.visits).to(p)
        rest = (whole - share).clamp_min(0) / (1 - p.gather(1, leader))
        return (rest * p).scatter(1, leader, share)

    def _visits(self) -> Tensor:
        """How often an example was visited, on average over those that were."""
        visits: Tensor = self.rows_seen // self.examples_seen.clamp_min(1)
        return visits.double()

    def _weight(self, v: Tensor, share: Tensor) -> Tensor:
        """w of examples with these confidence logits and shares of the leading class."""
        classes = len(self.stayed)
        many = max(1.0, math.log10(classes))
        hold = self.hold * max(many, _CHANCE * classes / (classes - 1))
        if not self.doubt:
            return torch.full_like(v, hold)
        everyone = (self.contradicted / self.doubt).clamp(max=1) ** _STEEP
        settled = (_SLACK * self.settled / self.steady.clamp_min(1e-6)).clamp(max=1) ** (_STEEP * many)
        firmer = 1 + _FIRMER * (self.contradicted * share.to(v)) ** 4
        return hold * settled * firmer * (1 - (1 - everyone) * torch.sigmoid(v))

    def _remember(self, batch: _Batch) -> None:
        """Let beliefs, the support of labels and what is counted of both follow a batch."""
        usable, notes = batch.usable, batch.notes
        known = usable & notes.known
        share, leader = batch.believed.max(1)
        wrong, lasting = usable & (leader != batch.labels), known & (batch.seen.argmax(1) == notes.leader)
        counts = torch.stack([usable, known, wrong, lasting]).sum(1)
        used, again = counts[:2].unbind()
        rate = (1 / (self.steps + 1)).clamp_min(self.memory)
        shares = (counts[2:] / counts[:2].clamp_min(1)).to(rate)
        rates = rate * (counts[:2] > 0)
        self.contradicted.lerp_(shares[0], rates[0])
        self._average(counts, shares[1], rates[1])
        newer = (1 / (notes.visits + 1)).clamp_min(1 - self.decay).float()
        support = self._followed(batch.p_y, batch.rows, usable, torch.where(notes.known, newer, 1.0))
        self.examples_seen += used - again
        self.rows_seen += used
        self._write(batch.rows, usable, notes, (share, leader), support)

    def _average(self, counts: Tensor, lasting: Tensor, rate: Tensor) -> None:
        """Let s and s̄ follow a batch.

        Args:
            counts: its rows, those known before, those contradicted, and those of a belief that lasts.
            lasting: the share of the last among those known.
            rate: how far s follows it.
        """
        self.steady.lerp_(lasting, rate)
        visits = counts[0] / (_VISITS * self.examples_seen).clamp_min(1)
        self.settled.lerp_(self.steady, visits.clamp(max=1).to(rate))

    def _followed(self, p_y: Tensor, rows: Tensor, usable: Tensor, rate: Tensor) -> Tensor:
        """The support of the labels after it has followed their probabilities, where it may."""
        before = self.support[rows]
        after = torch.logit(torch.lerp(torch.sigmoid(before.float()), p_y.float(), rate.float()), _SURE)
        return torch.where(usable, after.to(before), before)

    def _write(
        self, rows: Tensor, usable: Tensor, notes: _Notes, top: tuple[Tensor, Tensor], support: Tensor
    ) -> None:
        """Keep the leading share and class of the rows that may change, and how far labels are supported."""
        share = torch.where(usable, top[0].to(self.share), notes.share)
        leader = torch.where(usable, top[1], notes.leader).to(self.leader)
        writer = _writer(usable)
        rows = rows[writer]
        self.leader[rows], self.share[rows] = leader[writer], share[writer]
        self.support[rows] = support[writer]

    def _measure(self, batch: _Batch) -> None:
        """Let the confidences of the batch, F and `kept` follow the labels as seen from the beliefs."""
        labels, kept, confidence = batch.labels, self.kept[batch.labels], torch.sigmoid(batch.v)
        t = batch.believed / batch.believed.sum(1, keepdim=True)
        t_y = t.gather(1, labels[:, None]).squeeze(1)
        from_class = t * self.channel_to(labels)
        by_flip = from_class.sum(1)
        stayed = confidence * t_y
        r = stayed / (stayed + (1 - confidence) * by_flip + 1e-12)
        self.table.add(batch.rows, self.step_size * (r - confidence), batch.usable)
        counted = batch.usable / (kept * t_y + (1 - kept) * by_flip + 1e-12)
        self._count(labels, kept * t_y * counted, ((1 - kept) * counted)[:, None] * from_class)

    def _by_label(self, labels: Tensor, *values: Tensor) -> list[Tensor]:
        if ranks.count() == 1:
            return super()._by_label(labels, *values)
        # On a GPU index_add_ adds in any order, another one on each rank.
        whose = F.one_hot(labels, len(self.stayed)).to(values[0])
        with torch.autocast(whose.device.type, enabled=False):  # which would round all to bfloat16
            return [value @ whose for value in values]


def _writer(usable: Tensor) -> Tensor:
    """Whose numbers each visit of a batch writes: its own or, if it is not usable, those of the last that is.

    If it wrote back what was there before, it would undo another visit of the same row. It cannot be left
    out: a recorded step has as many rows each time.
    """
    place = torch.arange(len(usable), device=usable.device)
    return torch.where(usable, place, (place * usable).amax())


def _once(packed: Tensor) -> Tensor:
    """Of the visits of all ranks one of each row, that counts if any does.

    Which of two visits a GPU remembers is chance, on each rank another one.
    """
    rows, usable = packed[:, -3], packed[:, -2]
    places, order = (2 * rows + (1 - usable)).sort(stable=True)
    first = torch.ones_like(order, dtype=torch.bool)
    first[1:] = (places[1:] / 2).floor() != (places[:-1] / 2).floor()
    return packed[order[first].sort().values]
