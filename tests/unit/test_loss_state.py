"""What a loss reads and then moves: compiled, the gradient is of what was read; run again, it is refused."""

import copy
import math

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from icelens.errors import InputError, TrainingError
from icelens.losses import (
    LOSSES,
    ChannelLoss,
    DACLoss,
    ELRLoss,
    ForwardLoss,
    HeldLoss,
    ICELoss,
    Pointwise,
    Problem,
    SOPLoss,
    cross_entropy,
    make_loss,
)

EXAMPLES, CLASSES, BATCH = 256, 50, 64
LARGE = {"sop": {"scale": 0.1, "step_u": 5.0, "step_v": 5.0}, "dac": {"warmup": 0.4}}


def is_moved(name):
    """Whether a step of training moves what the loss keeps."""
    loss = make_loss(name, Problem(3, 2, steps=9, transition=torch.eye(2)))
    columns, before = LOSSES[name].outputs(2), copy.deepcopy(loss.state_dict())
    loss(torch.randn(2, columns, requires_grad=True), torch.tensor([0, 1]), torch.tensor([0, 1]))
    return any(not torch.equal(value, before[key]) for key, value in loss.state_dict().items())


LEARNING = [*filter(is_moved, LOSSES), "channel"]
every_loss_that_learns = pytest.mark.parametrize("name", LEARNING)


def make(name, classes=CLASSES):
    torch.manual_seed(0)
    if name == "channel":
        return ChannelLoss(EXAMPLES, classes)
    return make_loss(name, Problem(EXAMPLES, classes, steps=8), **LARGE.get(name, {}))


def batches(name, classes=CLASSES, steps=8):
    columns = classes if name == "channel" else LOSSES[name].outputs(classes)
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        index = torch.randperm(EXAMPLES, generator=generator)[:BATCH]
        logits = 3 * torch.randn(BATCH, columns, generator=generator)
        yield logits.requires_grad_(), torch.randint(classes, (BATCH,), generator=generator), index


def test_the_losses_that_learn_are_found():
    assert set(LEARNING) == {"ice_linear", "ice_power", "ice_held", "elr", "sop", "dac", "channel"}


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated")  # torch's own
@every_loss_that_learns
@pytest.mark.parametrize("classes", [3, CLASSES])
def test_compiled_the_gradient_is_that_of_the_state_before_the_step(name, classes):
    """Left alone, inductor's partition reads again in backward(), when it has been moved."""
    torch._dynamo.reset()
    plain, loss = make(name, classes), make(name, classes)
    compiled = torch.compile(loss, backend="aot_eager_decomp_partition", dynamic=False)
    for logits, labels, index in batches(name, classes):
        values = [one(logits, labels, index) for one in (plain, compiled)]
        torch.testing.assert_close(values[1], values[0])
        wanted, seen = (torch.autograd.grad(value, logits)[0] for value in values)
        torch.testing.assert_close(seen, wanted, rtol=1e-3, atol=1e-6)
        loss.load_state_dict(plain.state_dict())  # which differ in the last digits


@every_loss_that_learns
@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpointing_around_a_loss_that_learns_is_refused_and_counts_once(name, use_reentrant):
    once, loss = make(name), make(name)
    logits, labels, index = next(batches(name))
    value = checkpoint(loss, logits, labels, index, use_reentrant=use_reentrant)
    if not use_reentrant:  # the other form runs without gradients first, which is no step
        once(logits, labels, index)
    with pytest.raises(TrainingError, match=r"^the loss ran again .* checkpoint the model alone$"):
        value.mean().backward()
    for key, wanted in once.state_dict().items():
        torch.testing.assert_close(loss.state_dict()[key], wanted, equal_nan=True, rtol=0, atol=0)


@every_loss_that_learns
def test_checkpointing_around_a_loss_is_fine_where_it_does_not_learn(name):
    loss = make(name)
    for batch in batches(name, steps=3):
        loss(*batch)
    logits, labels, index = next(batches(name))
    wanted = torch.autograd.grad(loss.eval()(logits, labels, index), logits)[0]
    checkpoint(loss, logits, labels, index, use_reentrant=False).backward()
    torch.testing.assert_close(logits.grad, wanted)


REFUSED = [
    (lambda: ELRLoss(3, 2, beta=1.5), "beta must lie in [0, 1], got 1.5"),
    (lambda: ELRLoss(3, 2, strength=-1), "strength must be finite and at least 0, got -1"),
    (lambda: ELRLoss(-3, 2), "examples must be a whole number of at least 1, got -3"),
    (lambda: ELRLoss(3, 2.0), "classes must be a whole number of at least 2, got 2.0"),
    (lambda: SOPLoss(3, 0), "classes must be a whole number of at least 2, got 0"),
    (lambda: SOPLoss(3, 2, floor=2), "floor must lie in [0, 1), got 2"),
    (lambda: SOPLoss(3, 2, scale=-1), "scale must be finite and at least 0, got -1"),
    (lambda: DACLoss(-5), "steps must be a whole number of at least 1, got -5"),
    (lambda: DACLoss(5, divisor=0), "divisor must be finite and more than 0, got 0"),
    (lambda: DACLoss(5, momentum="a"), "momentum must be a number, got 'a'"),
    (lambda: ICELoss(3, capacity=-2), "capacity must be a whole number of at least 1, got -2"),
    (lambda: HeldLoss(3, 2, capacity=0), "capacity must be a whole number of at least 1, got 0"),
    (lambda: HeldLoss(3, 2, step_size=-1), "step_size must be finite and at least 0, got -1"),
    (lambda: ChannelLoss(3, 1), "classes must be a whole number of at least 2, got 1"),
    (lambda: ChannelLoss(3, 2, kept=2.0), "kept must lie in [1e-7, 1 − 1e-7], got 2.0"),
    (lambda: ChannelLoss(3, 2, kept=1.0), "kept must lie in [1e-7, 1 − 1e-7], got 1.0"),
    (lambda: ChannelLoss(3, 2, belief=1.1), "belief must lie in [0, 1], got 1.1"),
    (lambda: ChannelLoss(3, 2, memory=math.nan), "memory must lie in [0, 1], got nan"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_a_setting_that_cannot_work_is_refused_when_the_loss_is_made(make, message):
    with pytest.raises(InputError) as error:
        make()
    assert str(error.value) == message


@pytest.mark.parametrize(
    "make",
    [
        lambda **settings: ELRLoss(3, 2, **settings),
        lambda **settings: SOPLoss(3, 2, **settings),
        lambda **settings: HeldLoss(3, 2, **settings),
        lambda **settings: ICELoss(3, **settings),
        lambda **settings: DACLoss(3, **settings),
        lambda **settings: ForwardLoss(torch.eye(2), **settings),
        lambda **settings: Pointwise(cross_entropy, **settings),
    ],
    ids=["elr", "sop", "ice_held", "ice", "dac", "forward", "pointwise"],
)
def test_a_reduction_that_there_is_not_is_refused_when_the_loss_is_made(make):
    with pytest.raises(InputError, match="unknown reduction 'avg'; known are mean, none, sum"):
        make(reduction="avg")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
def test_a_cast_of_all_that_a_module_holds_leaves_whole_numbers_whole(dtype):
    loss = HeldLoss(6, 3)
    before = {name: buffer.dtype for name, buffer in loss.named_buffers()}
    loss.type(dtype)
    for name, buffer in loss.named_buffers():
        assert buffer.dtype.is_floating_point == before[name].is_floating_point
