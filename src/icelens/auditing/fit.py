"""One training run on some of the rows, and what the network then says of them or of others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from icelens import progress
from icelens.auditing.channel import ChannelLoss
from icelens.auditing.inputs import Inputs, Plan, SparseLinear
from icelens.errors import TrainingError, unknown
from icelens.train.loop import epoch_order

LOSSES = ("channel", "cross_entropy")
SNAPSHOTS = 12
SAMPLE = 4000  # examples whose confidences are followed during training
BATCH = 8192  # of predictions

Watch = Callable[[int, NDArray[np.float32]], None]


@dataclass(frozen=True, eq=False)
class Fit:
    """What a run gave.

    Args:
        log_p: (rows, classes), float32, log-probabilities of the rows that were asked for.
        confidence: (N,), C of each example; those not trained on keep the start. None with cross entropy.
        iteration: (snapshots,), when confidences were recorded.
        history: (snapshots, sample), the confidences of a sample of the examples.
    """

    log_p: NDArray[np.float32]
    confidence: NDArray[np.float32] | None
    iteration: NDArray[np.int64]
    history: NDArray[np.float32]


def fit(  # noqa: PLR0913 - what to train on, what to read, and how
    inputs: Inputs,
    labels: Tensor,
    classes: int,
    *,
    rows: Tensor | None = None,
    read: Tensor | None = None,
    plan: Plan | None = None,
    loss: str = "channel",
    seed: int = 0,
    title: str = "training",
    watch: Watch | None = None,
) -> Fit:
    """Train a new network on `rows` and predict the rows `read`.

    Args:
        inputs: what to learn from.
        labels: (N,), the given classes, where the inputs are.
        classes: K.
        rows: what to train on; None is all.
        read: what to predict; None is all.
        plan: epochs and steps; None is what the inputs ask for.
        loss: "channel", or "cross_entropy", which other tools train with.
        seed: of the network, the order and dropout.
        title: for the progress bar.
        watch: called after each epoch with its number and the log-probabilities of all rows.
    """
    if loss not in LOSSES:
        raise unknown("loss", loss, LOSSES)
    everything = torch.arange(len(labels))
    rows = everything if rows is None else rows.cpu()
    torch.manual_seed(seed)
    network = inputs.network(classes).to(labels.device)
    channel = ChannelLoss(len(labels), classes).to(labels.device) if loss == "channel" else None
    run = _Run(inputs, labels, network, channel, plan or inputs.plan())
    history = _History(channel, rows, seed)
    for epoch in run.epochs(rows, seed, title, history):
        if watch is not None:
            watch(epoch, log_probabilities(inputs, network, everything))
    return Fit(
        log_probabilities(inputs, network, everything if read is None else read),
        None if channel is None else channel.confidence().cpu().numpy(),
        np.array(history.iteration, dtype=np.int64),
        np.array(history.confidence, dtype=np.float32).reshape(len(history.iteration), len(history.sample)),
    )


class _Run:
    """A network on its way: what a step reads and writes."""

    def __init__(
        self, inputs: Inputs, labels: Tensor, network: nn.Module, channel: ChannelLoss | None, plan: Plan
    ) -> None:
        self.inputs, self.labels, self.network, self.channel = inputs, labels, network, channel
        self.plan, self.optimizers = plan, _optimizers(network, plan)

    def epochs(self, rows: Tensor, seed: int, title: str, history: _History) -> Iterator[int]:
        """Train on the rows; yields the number of each epoch at its end."""
        plan, done = self.plan, 0
        steps = plan.epochs * len(_batches(rows, plan.batch_size))
        marks = {round(steps * number / SNAPSHOTS) for number in range(SNAPSHOTS)}
        with progress.bar(title, steps) as tick:
            for epoch in range(plan.epochs):
                self.network.train()
                order = epoch_order(rows, seed, epoch).to(self.labels.device)
                total = torch.zeros((), device=self.labels.device)
                for index in _batches(order, plan.batch_size):
                    if done in marks:
                        history.record(done)
                    total += self.step(index, done / steps)
                    done += 1
                    tick(1)
                if not math.isfinite(float(total)):
                    raise TrainingError(
                        f"the loss is {float(total)} in epoch {epoch + 1}; are inputs finite?"
                    )
                yield epoch
        history.record(done)

    def step(self, index: Tensor, share: float) -> Tensor:
        """One step of the optimizers on a batch, at this share of the run; the loss."""
        rate = self.plan.learning_rate * (1 + math.cos(math.pi * share)) / 2
        logits, given = self.network(self.inputs.batch(index, training=True)), self.labels[index]
        loss = F.cross_entropy(logits, given) if self.channel is None else self.channel(logits, given, index)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.zero_grad()
        loss.backward()
        for optimizer in self.optimizers:
            optimizer.step()
        return loss.detach()


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


def _optimizers(network: nn.Module, plan: Plan) -> list[torch.optim.Optimizer]:
    if isinstance(network, SparseLinear):
        sparse = torch.optim.SparseAdam(list(network.weight.parameters()), plan.learning_rate)
        return [sparse, torch.optim.Adam([network.bias], plan.learning_rate)]
    return [torch.optim.AdamW(network.parameters(), plan.learning_rate, weight_decay=plan.weight_decay)]


@torch.no_grad()
def log_probabilities(inputs: Inputs, network: nn.Module, rows: Tensor) -> NDArray[np.float32]:
    """log p of these rows, (rows, classes)."""
    network.eval()
    device = next(network.parameters()).device
    parts = [
        F.log_softmax(network(inputs.batch(part.to(device), training=False)).float(), -1).cpu()
        for part in torch.split(rows, BATCH)
    ]
    return torch.cat(parts).numpy()
