"""The loop: one flat pass over the iterations of a recipe, each batch on one device or shared by ranks."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from icelens import progress
from icelens.errors import InputError, TrainingError
from icelens.losses import (
    LOSSES,
    WITH_CONFIDENCES,
    Method,
    Problem,
    find_method,
    make_loss,
    start_adaptation,
)
from icelens.models import Classifier, network
from icelens.ranks import ALONE, Ranks
from icelens.train.averaging import move_average, start_average
from icelens.train.capture import CapturedStep, in_place, side_stream
from icelens.train.distributed import check_loss, distribute, part_of, seed_step, share_of_mean
from icelens.train.mixup import draw_share, mixed, mixed_loss
from icelens.train.predict import accuracy, as_input, is_captured, log_probabilities, mixed_precision
from icelens.train.recipe import Recipe
from icelens.train.refine import Refinement, check_refine, refine_factor
from icelens.train.schedules import confidence_factor, rate_factor
from icelens.train.shared_norm import share_statistics
from icelens.train.task import Task

# The order of the epoch that a task is in; weak, so that the data of a run goes with it.
_orders: WeakKeyDictionary[Task, tuple[tuple[int, int], Tensor]] = WeakKeyDictionary()


@dataclass
class State:
    """All that changes while a run goes on.

    `forward` is the model as training calls it, perhaps compiled or under DDP, and `measure` the loss as
    training calls it; `average` the moving average of the weights, where the recipe asks for one; `first` the
    iterations before a second stage, 0 where there is none; `running` the sum of the losses since the last
    evaluation; `share` the λ of mixup; `ranks` the processes that share each batch.
    """

    model: nn.Module
    forward: Callable[[Tensor], Tensor]
    loss: nn.Module
    measure: Callable[..., Tensor]
    optimizer: torch.optim.Optimizer
    iterations: int
    running: Tensor
    share: Tensor
    ranks: Ranks = ALONE
    average: nn.Module | None = None
    first: int = 0
    iteration: int = 0
    seconds: float = 0.0
    metrics: list[dict[str, Any]] = field(default_factory=list)
    snapshots: list[tuple[int, Tensor]] = field(default_factory=list)

    def is_second(self, iteration: int) -> bool:
        """Whether an iteration belongs to a second stage."""
        return bool(self.first) and iteration >= self.first

    @property
    def predictor(self) -> nn.Module:
        """The model that is evaluated and saved: the average, where there is one by now."""
        return self.model if self.average is None or self.iteration <= self.first else self.average


def begin(recipe: Recipe, task: Task, transition: Tensor | None = None) -> State:
    """A model, a loss and an optimizer at their start, seeded."""
    torch.manual_seed(recipe.seed)
    if task.train.generator is not None:
        task.train.generator.manual_seed(recipe.seed)  # a run before this one may have drawn from it
    method = find_method(recipe.loss)
    _check_fit(recipe, task, method)
    classes = len(task.classes)
    per_epoch = batches_per_epoch(recipe, task)
    first = recipe.iterations or max(1, round(recipe.epochs * per_epoch))
    iterations = first + math.ceil(recipe.refine * per_epoch)
    if recipe.warmup >= first:
        raise InputError(f"warmup={recipe.warmup} leaves nothing of a run of {first} iterations")
    problem = Problem(len(task.train), classes, first, transition)
    loss, ranks = make_loss(recipe.loss, problem, **recipe.loss_settings), Ranks.here()
    check_loss(recipe.loss, loss, ranks)
    shape = tuple(task.train.inputs.shape[1:])
    model = network(recipe.model, shape, method.outputs(classes), **recipe.model_settings)
    _check_last_batch(recipe, task, model, iterations)
    if transition is not None and method.pretrain == "confusion":
        start_adaptation(model.get_submodule("head"), transition)  # type: ignore[arg-type]
    memory = torch.channels_last if recipe.channels_last else torch.contiguous_format
    dtype = torch.float64 if recipe.precision == "float64" else torch.float32
    model = model.to(task.device, dtype, memory_format=memory)  # type: ignore[call-overload]
    if ranks.count > 1:
        share_statistics(model)
    loss = loss.to(task.device)
    return State(
        model=model,
        forward=(
            _training_forward(recipe, model)
            if ranks.count == 1
            else distribute(loss, model, recipe.batch_size, ranks)
        ),
        loss=loss,
        measure=_training_loss(recipe, method, loss),
        optimizer=make_optimizer(recipe, model),
        iterations=iterations,
        running=torch.zeros((), device=task.device),
        share=torch.ones((), device=task.device),
        ranks=ranks,
        average=start_average(model) if recipe.averaging or recipe.refine else None,
        first=first if recipe.refine else 0,
    )


def advance(
    recipe: Recipe,
    task: Task,
    state: State,
    *,
    title: str,
    evaluated: Callable[[State], None] = lambda _: None,
) -> State:
    """Train from where the state is to the end; `evaluated` is called after each evaluation."""
    marks, records = _spread(recipe.evaluations, state), _spread(recipe.snapshots, state)
    if state.iteration == 0 and recipe.snapshots:
        record(state)
    base_step = getattr(state.loss, "step_size", 1.0)
    since, started = 0, time.perf_counter() - state.seconds
    state.model.train()
    train_on = _recorded(recipe, task, partial(step, recipe, task, state))
    second = Refinement(recipe, task, state, _training_forward) if recipe.refine else None
    refine_on = _recorded(recipe, task, second.step) if second else train_on
    stream = side_stream(task.device) if is_captured(recipe, task.device) else nullcontext()
    with stream, progress.bar(title, state.iterations, done=state.iteration) as tick:
        for iteration in range(state.iteration, state.iterations):
            set_rates(recipe, state, iteration, base_step)
            seed_step(recipe.seed, iteration, state.ranks)
            if second and state.is_second(iteration):
                second.set(iteration)
                refine_on(batch_rows(recipe, task, iteration))
            else:
                train_on(batch_rows(recipe, task, iteration))
            state.iteration, since = iteration + 1, since + 1
            if state.iteration in records:
                record(state)
            if state.iteration in marks:
                mean_loss, since = float(state.ranks.mean(state.running)) / since, 0
                state.running.zero_()
                state.seconds = time.perf_counter() - started
                tick(0, note="testing")
                evaluate(recipe, task, state, mean_loss)
                evaluated(state)
                tick(0, note=f"loss {mean_loss:.3f}  test {state.metrics[-1]['test_accuracy']:.1%}")
            tick(1)
    if isinstance(state.loss, WITH_CONFIDENCES):
        state.loss.step_size = base_step
    return state


def _recorded(recipe: Recipe, task: Task, train_on: Callable[[Tensor], None]) -> Callable[[Tensor], None]:
    """The step as a CUDA graph, where the recipe wants it."""
    return CapturedStep(train_on, task.train.generator) if is_captured(recipe, task.device) else train_on


def step(recipe: Recipe, task: Task, state: State, rows: Tensor) -> None:
    """One step of the optimizer on the batch of these rows; its loss is added to the running sum."""
    led = bool(recipe.mixup) and state.ranks.count > 1
    part = part_of(len(rows), state.ranks, led=led, device=rows.device)
    x, labels, index = task.train.batch(rows, part)
    loss_of = state.measure
    if recipe.mixup:
        x = mixed(x, state.share, led=led)
        loss_of = partial(mixed_loss, state.loss, share=state.share, led=led)
    with mixed_precision(x.device, recipe.precision, captured=is_captured(recipe, x.device)):
        loss: Tensor = loss_of(state.forward(as_input(recipe, x)), labels, index)
    loss = share_of_mean(loss, len(rows), state.ranks)
    state.optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    state.optimizer.step()
    if state.average is not None and recipe.averaging:
        move_average(state.average, state.model, recipe.averaging)
    state.running.add_(loss.detach())


def evaluate(recipe: Recipe, task: Task, state: State, mean_loss: float) -> None:
    """Add a row to the metrics: losses and accuracies of this moment."""
    if not math.isfinite(mean_loss):
        raise TrainingError(
            f"the loss is {mean_loss} before iteration {state.iteration}; try a lower learning_rate "
            f"than {recipe.learning_rate}"
        )
    row = {
        "iteration": state.iteration,
        "epoch": round(state.iteration / batches_per_epoch(recipe, task), 3),
        "loss": mean_loss,
        "learning_rate": float(state.optimizer.param_groups[0]["lr"]),
        "test_accuracy": accuracy(_predictions(recipe, task, state), task.test.labels),
        "seconds": round(state.seconds, 3),
    }
    if len(task.valid_rows):
        log_p = _predictions(recipe, task, state, task.valid_rows)
        row["valid_accuracy"] = accuracy(log_p, task.train.labels[task.valid_rows.to(task.device)])
    state.metrics.append(row)


def _predictions(recipe: Recipe, task: Task, state: State, rows: Tensor | None = None) -> Tensor:
    """log p of the test set, or of rows of the training set. Without NaN, which argmax takes for class 0."""
    data, method = (task.test if rows is None else task.train), find_method(recipe.loss)
    log_p = log_probabilities(recipe, state.predictor, data, method, len(task.classes), rows=rows)
    wrong = int(log_p.isnan().any(-1).sum())
    if wrong:
        raise TrainingError(
            f"{wrong} of {len(log_p)} predictions are NaN at iteration {state.iteration}; if all inputs are "
            f"finite, try a lower learning_rate than {recipe.learning_rate}"
        )
    return log_p


def record(state: State) -> None:
    """Keep the confidences of this moment, where the loss has any, on the rank that writes them."""
    if isinstance(state.loss, WITH_CONFIDENCES) and state.ranks.is_first:
        state.snapshots.append((state.iteration, state.loss.confidence().cpu()))


def set_rates(recipe: Recipe, state: State, iteration: int, base_step: float) -> None:
    """Set the learning rate, for ICE the step of the confidences, and the share of mixup."""
    device = state.running.device
    place = partial(in_place, device) if is_captured(recipe, device) else lambda _, value: value
    rate = recipe.learning_rate * _factor(recipe, state, iteration)
    for group in state.optimizer.param_groups:
        group["lr"] = place(group["lr"], rate)
    if isinstance(state.loss, WITH_CONFIDENCES) and not state.is_second(iteration):
        size = base_step * confidence_factor(recipe, iteration, state.first or state.iterations)
        state.loss.step_size = place(state.loss.step_size, size)
    if recipe.mixup:
        state.share.fill_(draw_share(recipe, iteration))


def _factor(recipe: Recipe, state: State, iteration: int) -> float:
    """The factor on the learning rate, in the first stage or in the second."""
    if state.is_second(iteration):
        return refine_factor(iteration - state.first, state.iterations - state.first)
    return rate_factor(recipe, iteration, state.first or state.iterations)


def batch_rows(recipe: Recipe, task: Task, iteration: int) -> Tensor:
    """The rows of a batch: a function of the seed and the iteration alone, so that a run can be resumed."""
    epoch, number = divmod(iteration, batches_per_epoch(recipe, task))
    rows = _epoch_rows(task, recipe.seed, epoch)
    return rows[number * recipe.batch_size :][: recipe.batch_size]


def _epoch_rows(task: Task, seed: int, epoch: int) -> Tensor:
    """The rows to train on in the order of an epoch, on the device."""
    if task not in _orders or _orders[task][0] != (seed, epoch):
        _orders[task] = (seed, epoch), epoch_order(task.train_rows, seed, epoch).to(task.device)
    return _orders[task][1]


def epoch_order(rows: Tensor, seed: int, epoch: int) -> Tensor:
    """The rows in the order of an epoch: a function of the seed and the epoch alone."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    return rows[torch.randperm(len(rows), generator=generator)]


def batches_per_epoch(recipe: Recipe, task: Task) -> int:
    """How many batches it takes to see each training row once."""
    return math.ceil(len(task.train_rows) / recipe.batch_size)


def make_optimizer(recipe: Recipe, model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer of a recipe over the parameters of the model."""
    device = next(model.parameters()).device
    captured = is_captured(recipe, device)
    settings: dict[str, Any] = {"weight_decay": recipe.weight_decay, "fused": captured or None}
    # A recorded step reads its rate from a tensor.
    rate = torch.tensor(recipe.learning_rate, device=device) if captured else recipe.learning_rate
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(model.parameters(), rate, momentum=recipe.momentum, **settings)
    kind = torch.optim.Adam if recipe.optimizer == "adam" else torch.optim.AdamW
    return kind(model.parameters(), rate, capturable=captured, **settings)


def _training_forward(recipe: Recipe, model: nn.Module) -> Callable[[Tensor], Tensor]:
    """The model, with its features compiled where the recipe says so."""
    if not recipe.compiled:
        return model
    classifier = cast(Classifier, model)
    compiled = torch.compile(classifier.features, dynamic=False)

    def forward(x: Tensor) -> Tensor:
        # The smaller last batch of an epoch is not worth compiling for.
        features = compiled if len(x) == recipe.batch_size else classifier.features
        return cast(Tensor, classifier.norm(classifier.head(features(x))))

    return forward


def _training_loss(recipe: Recipe, method: Method, loss: nn.Module) -> Callable[..., Tensor]:
    """The loss, compiled where the network is and it is worth it."""
    if not (recipe.compiled and method.compiles):
        return loss
    compiled = compile_loss(loss)

    def measure(logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        chosen = compiled if len(labels) == recipe.batch_size else loss
        return cast(Tensor, chosen(logits, labels, index))

    return measure


def compile_loss(loss: nn.Module) -> Callable[..., Tensor]:
    """The loss as one graph of few kernels."""
    # The compiler would find by trials which shape of a kernel is fast. Each trial copies the state that the
    # kernel writes, and where the kernel takes microseconds it is the copies that are timed: one that takes
    # 40 times as long was chosen.
    return torch.compile(loss, dynamic=False, options={"triton.autotune_pointwise": False})


def _check_fit(recipe: Recipe, task: Task, method: Method) -> None:
    """Raise for settings that are right alone but not together, or not with this data."""
    if recipe.channels_last and task.train.inputs.dim() != 4:
        raise InputError(
            f"channels_last is for images, but an example here is {tuple(task.train.inputs.shape[1:])}"
        )
    if not recipe.loss.startswith("ice_"):
        for setting, unset in (("confidence_schedule", "constant"), ("snapshots", 0)):
            if getattr(recipe, setting) != unset:
                raise InputError(f"{setting} is for ICE; loss '{recipe.loss}' has no confidences")
    if recipe.mixup and not method.mixes:
        possible = ", ".join(name for name, other in LOSSES.items() if other.mixes)
        raise InputError(
            f"mixup calls the loss twice in a step, and '{recipe.loss}' would count each call; "
            f"set mixup=0 or choose one of {possible}"
        )
    check_refine(recipe, task)
    if recipe.model_settings.get("logit_norm") and method.pretrain == "confusion":
        raise InputError(f"model_settings.logit_norm would undo the matrix that '{recipe.loss}' starts from")


def _check_last_batch(recipe: Recipe, task: Task, model: nn.Module, iterations: int) -> None:
    """Raise if the run comes to a batch of one example, of which BatchNorm has one value per channel."""
    size, rows = recipe.batch_size, len(task.train_rows)
    if size > 1 and (rows % size != 1 or iterations < batches_per_epoch(recipe, task)):
        return
    example = torch.empty(1, *task.train.inputs.shape[1:], device="meta")
    try:
        copy.deepcopy(model).to("meta")(example)  # shapes alone: nothing is computed or drawn
    except ValueError:
        norms = [name for name in ("logit_norm", "feature_norm") if recipe.model_settings.get(name)]
        what = f"model_settings.{norms[0]}" if norms else f"BatchNorm in model '{recipe.model}'"
        raise InputError(
            f"batch_size={size} leaves a batch of one example of {rows}, which {what} cannot normalise; "
            "choose another batch_size"
        ) from None


def _spread(times: int, state: State) -> set[int]:
    """Iterations spread evenly over the run, the last one among them."""
    return {round(state.iterations * (number + 1) / times) for number in range(times)}
