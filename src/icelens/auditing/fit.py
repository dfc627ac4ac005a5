"""One training run on some of the rows, and what the network then says of them or of others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from icelens import progress
from icelens.auditing.inputs import Inputs, Plan, SparseLinear
from icelens.errors import TrainingError, unknown
from icelens.losses import ChannelLoss, HeldLoss
from icelens.train.capture import CapturedStep, in_place, side_stream
from icelens.train.loop import epoch_order
from icelens.train.predict import mixed_precision

LOSSES = ("channel", "cross_entropy")
KEPT = 0.9  # share of the labels that a channel takes to be right at first
SNAPSHOTS = 12
SAMPLE = 4000  # examples whose confidences are followed during training
BATCH = 8192  # of predictions

Watch = Callable[[int, NDArray[np.float32]], None]


@dataclass(frozen=True, eq=False)
class Fit:
    """What a run gave.

    Args:
        log_p: (rows, classes), float32, log-probabilities of the rows that were asked for.
        confidence: (N,), C of each example, or what ICE-HELD calls so; those not trained on keep the start.
            None with cross entropy.
        iteration: (snapshots,), when confidences were recorded.
        history: (snapshots, sample), the confidences of a sample of the examples.
        visited: (N, classes), log p of each example in the steps that it was part of, its mean over all but
            the first quarter of the run; where it was asked for and the network is not held. Rows that were
            not trained on are even.
        weights: of the network, on the CPU, where they were asked for.
    """

    log_p: NDArray[np.float32]
    confidence: NDArray[np.float32] | None
    iteration: NDArray[np.int64]
    history: NDArray[np.float32]
    visited: NDArray[np.float32] | None = None
    weights: dict[str, Tensor] | None = None


def fit(  # noqa: PLR0913 - what to train on, what to read, and how
    inputs: Inputs,
    labels: Tensor,
    classes: int,
    *,
    rows: Tensor | None = None,
    read: Tensor | None = None,
    plan: Plan | None = None,
    loss: str = "channel",
    kept: float = KEPT,
    seed: int = 0,
    title: str = "training",
    watch: Watch | None = None,
    keep: bool = False,
) -> Fit:
    """Train a new network on `rows` and predict the rows `read`.

    Args:
        inputs: what to learn from.
        labels: (N,), the given classes, where the inputs are.
        classes: K.
        rows: what to train on; None is all.
        read: what to predict; None is all.
        plan: epochs and steps; None is what the inputs ask for.
        loss: "channel", of the form that fits the network, or "cross_entropy", which other tools train with.
        kept: the share of the labels that the channel takes to be right at first.
        seed: of the network, the order and dropout.
        title: for the progress bar.
        watch: called after each epoch with its number and the log-probabilities of all rows.
        keep: whether to hand out `visited` and the weights of the network too.
    """
    if loss not in LOSSES:
        raise unknown("loss", loss, LOSSES)
    everything = torch.arange(len(labels))
    rows = everything if rows is None else rows.cpu()
    torch.manual_seed(seed)
    network = inputs.network(classes).to(labels.device)
    channel = _channel(inputs, len(labels), classes, kept).to(labels.device) if loss == "channel" else None
    # A network that is held says at the end what it said before.
    followed = keep and not isinstance(channel, HeldLoss)
    visits = torch.zeros(len(labels), classes, device=labels.device) if followed else None
    run = _Run(inputs, labels, network, channel, plan or inputs.plan(), visits=visits)
    history = _History(channel, rows, seed)
    with side_stream(labels.device) if run.recorded else nullcontext():
        for epoch in run.epochs(rows, seed, title, history):
            if watch is not None:
                watch(epoch, log_probabilities(inputs, network, everything))
        log_p = log_probabilities(inputs, network, everything if read is None else read)
    return Fit(
        log_p,
        None if channel is None else channel.confidence().cpu().numpy(),
        np.array(history.iteration, dtype=np.int64),
        np.array(history.confidence, dtype=np.float32).reshape(len(history.iteration), len(history.sample)),
        None if visits is None else F.log_softmax(visits / run.counted_epochs, -1).cpu().numpy(),
        {name: value.cpu() for name, value in network.state_dict().items()} if keep else None,
    )


def _channel(inputs: Inputs, examples: int, classes: int, kept: float) -> ChannelLoss:
    """The loss of a run that finds wrong labels, of the form that fits the network."""
    return HeldLoss(examples, classes) if inputs.memorises else ChannelLoss(examples, classes, kept=kept)


class _Run:
    """A network on its way: what a step reads and writes."""

    def __init__(
        self,
        inputs: Inputs,
        labels: Tensor,
        network: nn.Module,
        channel: ChannelLoss | None,
        plan: Plan,
        *,
        visits: Tensor | None,
    ) -> None:
        self.inputs, self.labels, self.network, self.channel = inputs, labels, network, channel
        self.visits, self.counted_epochs = visits, plan.epochs - plan.epochs // 4
        self.recorded = labels.device.type == "cuda" and inputs.recordable
        self.plan, self.optimizers = plan, _optimizers(network, plan, recorded=self.recorded)
        self.total = torch.zeros((), device=labels.device)

    def epochs(self, rows: Tensor, seed: int, title: str, history: _History) -> Iterator[int]:
        """Train on the rows; yields the number of each epoch at its end."""
        plan, done = self.plan, 0
        steps = plan.epochs * len(_batches(rows, plan.batch_size))
        marks = {round(steps * number / SNAPSHOTS) for number in range(SNAPSHOTS)}
        train_on = CapturedStep(self.step) if self.recorded else self.step
        with progress.bar(title, steps) as tick:
            for epoch in range(plan.epochs):
                self.network.train()
                self.total.zero_()
                if self.visits is not None and epoch == plan.epochs - self.counted_epochs:
                    self.visits.zero_()
                order = epoch_order(rows, seed, epoch).to(self.labels.device)
                for index in _batches(order, plan.batch_size):
                    if done in marks:
                        history.record(done)
                    self.set_rate(done / steps)
                    train_on(index)
                    done += 1
                    tick(1)
                if not math.isfinite(total := float(self.total)):
                    raise TrainingError(f"the loss is {total} in epoch {epoch + 1}; are inputs finite?")
                yield epoch
        history.record(done)

    def set_rate(self, share: float) -> None:
        """Set the learning rate at this share of the run: half a cosine."""
        rate = self.plan.learning_rate * (1 + math.cos(math.pi * share)) / 2
        place = partial(in_place, self.labels.device) if self.recorded else lambda _, value: value
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = place(group["lr"], rate)

    def step(self, index: Tensor) -> None:
        """One step of the optimizers on a batch."""
        batch, given = self.inputs.batch(index, training=True), self.labels[index]
        with mixed_precision(index.device, self.inputs.precision, captured=self.recorded):
            logits = self.network(batch)
        loss = F.cross_entropy(logits, given) if self.channel is None else self.channel(logits, given, index)
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in self.optimizers:
            optimizer.step()
        self.total.add_(loss.detach())
        if self.visits is not None:
            self.visits.index_add_(0, index, F.log_softmax(logits.detach().float(), -1))


class _History:
    """Confidences of a sample of the rows, recorded now and then."""

    def __init__(self, channel: ChannelLoss | None, rows: Tensor, seed: int) -> None:
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
        self.channel, self.sample = channel, rows[order[:SAMPLE]].sort().values
        self.iteration: list[int] = []
        self.confidence: list[NDArray[np.float32]] = []

    def record(self, iteration: int) -> None:
        if self.channel is not None:
            self.iteration.append(iteration)
            self.confidence.append(self.channel.confidence().cpu()[self.sample].numpy())


def _batches(order: Tensor, size: int) -> list[Tensor]:
    """The rows in batches; a single one left over joins the last: BatchNorm cannot take it alone."""
    batches = list(torch.split(order, size))
    if len(batches) > 1 and len(batches[-1]) == 1:
        batches[-2:] = [torch.cat(batches[-2:])]
    return batches


def _optimizers(network: nn.Module, plan: Plan, *, recorded: bool) -> list[torch.optim.Optimizer]:
    if isinstance(network, SparseLinear):
        sparse = torch.optim.SparseAdam(list(network.weight.parameters()), plan.learning_rate)
        return [sparse, torch.optim.Adam([network.bias], plan.learning_rate)]
    settings: dict[str, Any] = {"capturable": recorded, "fused": recorded or None}
    adam = torch.optim.AdamW(
        network.parameters(), plan.learning_rate, weight_decay=plan.weight_decay, **settings
    )
    return [adam]


@torch.no_grad()
def log_probabilities(inputs: Inputs, network: nn.Module, rows: Tensor) -> NDArray[np.float32]:
    """log p of these rows, (rows, classes)."""
    network.eval()
    device = next(network.parameters()).device
    with mixed_precision(device, inputs.precision, captured=False):
        logits = (network(inputs.batch(part.to(device), training=False)) for part in torch.split(rows, BATCH))
        parts = [F.log_softmax(part.float(), -1).cpu() for part in logits]
    return torch.cat(parts).numpy()
