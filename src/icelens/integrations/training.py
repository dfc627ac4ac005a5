"""The training run of ICEClassifier: one network with ICELoss."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from icelens import progress
from icelens.auditing.inputs import Bags, Features, Plan, SparseLinear
from icelens.errors import TrainingError
from icelens.losses import ICELoss
from icelens.train.loop import epoch_order

STILL = 0.15  # share of the run before confidences start; chosen on made-up tables


@dataclass(frozen=True, eq=False)
class Trained:
    """What a run gave: each layer as (weight, bias), the weight (inputs, outputs), and each example's C."""

    layers: list[tuple[NDArray[np.float32], NDArray[np.float32]]]
    confidence: NDArray[np.float32]


def train(
    inputs: Features | Bags,
    labels: Tensor,
    classes: int,
    plan: Plan,
    *,
    seed: int,
    ice: bool = True,
) -> Trained:
    """Train a new network on all rows; torch's own random state is left as it was.

    Args:
        inputs: what to learn from.
        labels: (N,), the given classes, where the inputs are.
        classes: K.
        plan: epochs and steps.
        seed: of the network, the order and dropout.
        ice: whether with ICELoss; else with cross entropy, to compare with.
    """
    devices = [labels.device] if labels.device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        network = inputs.network(classes).to(labels.device)
        loss_fn = ICELoss(len(labels)).to(labels.device) if ice else None
        _run(network, loss_fn, inputs, labels, plan=plan, seed=seed)
    confidence = torch.ones(len(labels)) if loss_fn is None else loss_fn.confidence()
    return Trained(_layers(network), confidence.cpu().numpy())


def _run(
    network: nn.Module,
    loss_fn: ICELoss | None,
    inputs: Features | Bags,
    labels: Tensor,
    *,
    plan: Plan,
    seed: int,
) -> None:
    rows = torch.arange(len(labels))
    optimizers = _optimizers(network, plan)
    per_epoch = math.ceil(len(rows) / plan.batch_size)
    steps, done = plan.epochs * per_epoch, 0
    start = None if loss_fn is None else _Start(loss_fn, STILL * steps, per_epoch)
    network.train()
    with progress.bar("training", steps) as tick:
        for epoch in range(plan.epochs):
            total = torch.zeros((), device=labels.device)
            for index in torch.split(epoch_order(rows, seed, epoch).to(labels.device), plan.batch_size):
                _set_rate(optimizers, plan.learning_rate * (1 + math.cos(math.pi * done / steps)) / 2)
                logits, given = network(inputs.batch(index, training=True)), labels[index]
                if start is not None:
                    start.see(logits.detach(), given)
                loss = F.cross_entropy(logits, given) if loss_fn is None else loss_fn(logits, given, index)
                network.zero_grad()
                loss.backward()
                for optimizer in optimizers:
                    optimizer.step()
                total += loss.detach()
                done += 1
                tick(1)
            if not math.isfinite(float(total)):
                raise TrainingError(f"the loss is {float(total)} in epoch {epoch + 1}; lower learning_rate")


class _Start:
    """Lets confidences stand still at 1/2, then start from the share of labels that the network agrees with.

    Hard examples are so not given up before they could be learned, and where the network agrees with nearly
    all labels, few are doubted. Wrong labels are not yet known by heart then.

    Args:
        loss_fn: the loss that owns the confidences.
        still: how many steps they stand still.
        memory: how many of these, the last ones, the share is taken over.
    """

    def __init__(self, loss_fn: ICELoss, still: float, memory: int) -> None:
        loss_fn.step_size = 0.0
        self.loss_fn, self.still, self.step = loss_fn, still, 0
        self.agreed: deque[Tensor] = deque(maxlen=memory)

    def see(self, logits: Tensor, labels: Tensor) -> None:
        """Before each loss: count, and when the time has come, start."""
        if self.step < self.still:
            self.agreed.append(logits.argmax(1) == labels)
        elif self.loss_fn.step_size == 0:
            agreed = torch.cat([*self.agreed, torch.tensor([True, False], device=labels.device)])
            # Where it agrees with less than half it knows little, and that is no reason to doubt labels.
            self.loss_fn.table.v.fill_(torch.logit(agreed.float().mean().clamp_min(0.5)))
            self.loss_fn.step_size = 1.0
        self.step += 1


def _set_rate(optimizers: list[torch.optim.Optimizer], rate: float) -> None:
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate


def _optimizers(network: nn.Module, plan: Plan) -> list[torch.optim.Optimizer]:
    if isinstance(network, SparseLinear):
        sparse = torch.optim.SparseAdam(list(network.weight.parameters()), plan.learning_rate)
        return [sparse, torch.optim.Adam([network.bias], plan.learning_rate)]
    adam = torch.optim.AdamW(
        network.parameters(),
        plan.learning_rate,
        weight_decay=plan.weight_decay,
        fused=True,  # one call a step, not some per tensor
    )
    return [adam]


def _layers(network: nn.Module) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
    if isinstance(network, SparseLinear):
        return [(_array(network.weight.weight), _array(network.bias))]
    linear = [module for module in network.modules() if isinstance(module, nn.Linear)]
    return [(_array(layer.weight).T.copy(), _array(layer.bias)) for layer in linear]


def _array(tensor: Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = tensor.detach().cpu().numpy().copy()
    return array
