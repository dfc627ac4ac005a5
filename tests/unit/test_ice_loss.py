import copy
import shutil

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from icelens.errors import InputError
from icelens.losses import ICELoss

every_transform = pytest.mark.parametrize("transform", ["linear", "power"])
every_reduction = pytest.mark.parametrize("reduction", ["none", "mean", "sum"])


def batch(rows=12, classes=5, examples=20, dtype=torch.float32):
    logits = 3 * torch.randn(rows, classes, dtype=dtype)
    return logits.requires_grad_(), torch.randint(classes, (rows,)), torch.randint(examples, (rows,))


def steps(loss_fn, logits, labels, index):
    """How far each row of the table moves in one call."""
    before = loss_fn.table.v.clone()
    loss_fn(logits, labels, index)
    return loss_fn.table.v - before


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 4)).double()


def by_the_authors(model, x, labels, transform, visits):
    """A sparse embedding of one number per example, the plain formulas, and an optimizer for each part."""
    examples = len(x)
    v = nn.Embedding(examples, 1, sparse=True, dtype=torch.float64)
    nn.init.zeros_(v.weight)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.5), torch.optim.SGD(v.parameters(), lr=examples)]
    for _ in range(visits):
        c, p = torch.sigmoid(v(torch.arange(examples))), torch.softmax(model(x), -1)
        q = c * p + (1 - c) / p.shape[-1] if transform == "linear" else p**c / (p**c).sum(-1, keepdim=True)
        loss = -q[torch.arange(examples), labels].log().mean()
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
    return torch.sigmoid(v.weight.detach()).squeeze(-1)


@every_transform
def test_two_hundred_steps_match_the_authors_way(transform):
    x, labels = torch.randn(60, 3, dtype=torch.float64), torch.randint(4, (60,))
    ours, theirs = network(), network()
    loss_fn = ICELoss(60, transform=transform)
    optimizer = torch.optim.SGD(ours.parameters(), lr=0.5)
    for _ in range(200):
        order = torch.randperm(60)
        optimizer.zero_grad()
        loss_fn(ours(x[order]), labels[order], order).backward()
        optimizer.step()
    confidence = by_the_authors(theirs, x, labels, transform, 200)
    assert confidence.std() > 0.1  # they have moved, and apart
    torch.testing.assert_close(loss_fn.confidence().double(), confidence, rtol=0, atol=1e-5)
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-5)


@every_transform
@every_reduction
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignored", [None, -100, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_at_full_confidence_it_is_cross_entropy(transform, reduction, weighted, ignored, dtype):
    logits, labels, index = batch(dtype=dtype)
    weight = torch.rand(5, dtype=dtype) + 0.5 if weighted else None
    settings = {"weight": weight, "reduction": reduction}
    if ignored is not None:
        labels[[0, 3, 4]] = ignored
        settings["ignore_index"] = ignored
    for settings["label_smoothing"] in (0.0, 0.1, 1.0):
        loss = ICELoss(20, transform=transform, start=80, **settings)(logits, labels, index)
        expected = nn.CrossEntropyLoss(**settings)(logits, labels)
        torch.testing.assert_close(loss, expected)
        cotangent = torch.rand_like(loss)
        gradients = [torch.autograd.grad(x, logits, cotangent)[0] for x in (loss, expected)]
        torch.testing.assert_close(*gradients)


@every_transform
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_at_any_confidence_it_is_the_plain_formula(transform, smoothing):
    logits, labels, index = batch(dtype=torch.float64)
    loss_fn = ICELoss(20, transform=transform, label_smoothing=smoothing, reduction="none")
    loss_fn.table.v.copy_(torch.linspace(-4, 4, 20))
    c, p = torch.sigmoid(loss_fn.table.v.double()[index])[:, None], torch.softmax(logits, -1)
    q = c * p + (1 - c) / 5 if transform == "linear" else p**c / (p**c).sum(-1, keepdim=True)
    target = (1 - smoothing) * F.one_hot(labels, 5) + smoothing / 5
    expected = -(target * q.log()).sum(-1)
    loss = loss_fn(logits, labels, index)
    torch.testing.assert_close(loss, expected)
    gradients = [torch.autograd.grad(x.sum(), logits, retain_graph=True)[0] for x in (loss, expected)]
    torch.testing.assert_close(*gradients)


@every_transform
def test_confidences_move_by_the_given_label_whatever_the_smoothing(transform):
    problem = batch()
    expected = steps(ICELoss(20, transform=transform), *problem)
    smoothed = steps(ICELoss(20, transform=transform, label_smoothing=0.4), *problem)
    assert torch.equal(smoothed, expected)


@every_transform
def test_smoothed_it_is_finite_with_finite_gradients_at_logits_of_100(transform):
    logits = torch.tensor([[100.0, -100.0, 0.0], [-100.0, -100.0, 100.0]], requires_grad=True)
    for start in (-80.0, 0.0, 80.0):
        loss_fn = ICELoss(2, transform=transform, label_smoothing=0.1, start=start)
        loss = loss_fn(logits, torch.tensor([1, 2]), torch.tensor([0, 1]))
        (gradient,) = torch.autograd.grad(loss, logits)
        assert loss.isfinite()
        assert gradient.isfinite().all()


def test_a_batch_of_ignored_rows_and_an_empty_batch_are_those_of_cross_entropy():
    logits, labels, index = batch()
    loss_fn = ICELoss(20, start=80)
    assert loss_fn(logits, torch.full_like(labels, -100), index).isnan()
    assert loss_fn(logits[:0], labels[:0], index[:0]).isnan()
    assert ICELoss(20, reduction="sum")(logits[:0], labels[:0], index[:0]) == 0


@every_transform
def test_a_step_is_the_same_for_every_batch_size_reduction_weight_and_loss_scale(transform):
    logits, labels, _ = batch(rows=20)
    index = torch.randperm(20)
    expected = steps(ICELoss(20, transform=transform), logits, labels, index)
    assert (expected != 0).all()
    for settings in ({"reduction": "sum"}, {"reduction": "none"}, {"weight": torch.rand(5) * 100}):
        assert torch.equal(
            steps(ICELoss(20, transform=transform, **settings), logits, labels, index), expected
        )
    one_by_one = ICELoss(20, transform=transform)
    for row in range(20):
        one_by_one(logits[row : row + 1], labels[row : row + 1], index[row : row + 1])
    torch.testing.assert_close(one_by_one.table.v, expected)
    scaled = ICELoss(20, transform=transform)
    (scaled(logits, labels, index) * 65536).backward()  # as a GradScaler does
    assert torch.equal(scaled.table.v, expected)


@pytest.mark.parametrize("step_size", [0.25, torch.tensor(0.25), torch.tensor(0.25, dtype=torch.float64)])
def test_the_step_size_scales_the_step_and_can_change(step_size):
    problem = batch()
    expected = steps(ICELoss(20), *problem)
    loss_fn = ICELoss(20, step_size=0.0)
    assert (steps(loss_fn, *problem) == 0).all()
    loss_fn.step_size = step_size
    torch.testing.assert_close(steps(loss_fn, *problem), 0.25 * expected)


@every_transform
def test_repeated_indices_each_count_from_the_confidence_before_the_batch(transform):
    logits, labels, _ = batch(rows=3)
    alone = [
        steps(ICELoss(20, transform=transform), logits[[i]], labels[[i]], torch.tensor([7])) for i in range(3)
    ]
    together = steps(ICELoss(20, transform=transform), logits, labels, torch.tensor([7, 7, 7]))
    torch.testing.assert_close(together, sum(alone))


def test_ignored_rows_do_not_move_and_their_index_may_be_anything():
    logits, labels, _ = batch(rows=4)
    labels[1:] = -100
    moved = steps(ICELoss(20), logits, labels, torch.tensor([3, -1, 10**9, 0]))
    assert moved.nonzero().tolist() == [[3]]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_nothing_moves_in_eval_or_without_gradients(mode):
    problem = batch()
    loss_fn = ICELoss(20)
    with mode():
        assert (steps(loss_fn, *problem) == 0).all()
    assert (steps(loss_fn.eval(), *problem) == 0).all()
    assert (steps(loss_fn.train(), *problem) != 0).any()


def test_in_eval_an_index_reads_the_confidence():
    logits, labels, index = batch()
    loss_fn = ICELoss(20, start=-80).eval()
    torch.testing.assert_close(loss_fn(logits, labels, index), torch.tensor(5.0).log())


@every_reduction
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_without_index_it_is_cross_entropy_outside_training(reduction, dtype):
    logits, labels, _ = batch()
    logits = logits.detach().to(dtype)
    labels[0] = -100
    settings = {"weight": torch.rand(5), "reduction": reduction, "label_smoothing": 0.1}
    expected = nn.CrossEntropyLoss(**settings)(logits.float(), labels)
    loss_fn = ICELoss(20, **settings)
    with torch.no_grad():
        torch.testing.assert_close(loss_fn(logits, labels), expected)
    torch.testing.assert_close(loss_fn.eval()(logits, labels), expected)


def test_without_index_training_is_refused():
    logits, labels, _ = batch()
    with pytest.raises(InputError, match="ICELoss needs the index of each training example"):
        ICELoss(20)(logits, labels)


def test_gradient_accumulation_moves_as_one_large_batch_does():
    logits, labels, _ = batch(rows=20)
    index, whole, parts = torch.randperm(20), ICELoss(20), ICELoss(20)
    gradient = torch.autograd.grad(whole(logits, labels, index), logits)[0]
    for part in torch.arange(20).split(5):
        (parts(logits[part], labels[part], index[part]) / 4).backward()
    torch.testing.assert_close(parts.table.v, whole.table.v)
    torch.testing.assert_close(logits.grad, gradient)


@every_transform
def test_autocast_to_bfloat16(transform):
    x, labels, index = torch.randn(12, 3), torch.randint(4, (12,)), torch.randint(20, (12,))
    model, plain, cast = network().float(), ICELoss(20, transform=transform), ICELoss(20, transform=transform)
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(x)
        assert logits.dtype == torch.bfloat16
        loss = cast(logits, labels, index)
    expected = plain(logits.float(), labels, index)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected)
    assert torch.equal(cast.table.v, plain.table.v)
    loss.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_a_cast_of_the_whole_model_leaves_the_table_and_small_steps():
    model = nn.ModuleDict({"body": nn.Linear(3, 4), "loss": ICELoss(20, start=4.0, weight=torch.ones(4))})
    model.to(torch.bfloat16)
    moved = steps(
        model["loss"], model["body"](torch.randn(20, 3).bfloat16()), torch.arange(20) % 4, torch.arange(20)
    )
    assert model["loss"].table.v.dtype == torch.float32
    assert ((moved != 0) & (moved.abs() < 4 * 2**-8)).any()  # a bfloat16 of 4 would have swallowed it


def test_state_dict_nested_copied_and_saved(tmp_path):
    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.loss = nn.Linear(3, 4), ICELoss(20, weight=torch.ones(4))

        def forward(self, x, labels, index):
            return self.loss(self.body(x), labels, index)

    model, other = Classifier(), Classifier()
    model(torch.randn(20, 3), torch.arange(20) % 4, torch.arange(20)).backward()
    assert sorted(model.state_dict()) == ["body.bias", "body.weight", "loss.table.v"]
    assert sorted(name for name, _ in model.named_parameters()) == ["body.bias", "body.weight"]
    torch.save(model.state_dict(), tmp_path / "model.pt")
    other.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    assert torch.equal(other.loss.confidence(), model.loss.confidence())
    twin = copy.deepcopy(model)
    twin(torch.randn(20, 3), torch.arange(20) % 4, torch.arange(20))
    assert torch.equal(other.loss.confidence(), model.loss.confidence())
    assert not torch.equal(twin.loss.confidence(), model.loss.confidence())


def test_strict_loading_says_what_is_wrong():
    state = ICELoss(20).state_dict()
    with pytest.raises(RuntimeError, match=r"Missing key.*table\.v"):
        ICELoss(20).load_state_dict({})
    with pytest.raises(RuntimeError, match=r"Unexpected key.*table\.extra"):
        ICELoss(20).load_state_dict(state | {"table.extra": torch.zeros(1)})
    with pytest.raises(RuntimeError, match="20 rows, but the data set has 21"):
        ICELoss(21).load_state_dict(state)


def test_a_resumed_run_goes_on_as_if_it_had_not_stopped():
    first, second = batch(), batch()
    straight, stopped = ICELoss(20), ICELoss(20)
    straight(*first)
    stopped(*first)
    resumed = ICELoss(20)
    resumed.load_state_dict(stopped.state_dict())
    assert torch.equal(resumed(*second), straight(*second))
    assert torch.equal(resumed.table.v, straight.table.v)


def compiled(loss_fn, backend="aot_eager"):
    torch._dynamo.reset()
    return torch.compile(loss_fn, fullgraph=True, backend=backend)


def agree_over_steps(
    backend, transform="linear", step_sizes=(1.0, 1.0, 1.0), dtype=torch.float32, **settings
):
    eager, twin = ICELoss(20, transform=transform, **settings), ICELoss(20, transform=transform, **settings)
    graph = compiled(twin, backend)
    for step_size in step_sizes:
        logits, labels, index = batch(rows=40)  # 40 draws of 20 rows: some repeat
        logits, labels[0] = logits.detach().to(dtype).requires_grad_(), -100
        eager.step_size = twin.step_size = step_size
        expected, got = eager(logits, labels, index), graph(logits, labels, index)
        torch.testing.assert_close(got, expected)
        gradients = [torch.autograd.grad(x.sum(), logits)[0] for x in (got, expected)]
        torch.testing.assert_close(*gradients)
        torch.testing.assert_close(twin.table.v, eager.table.v)


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="needs a C++ compiler")
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # torch's own, while it imports inductor
def test_compiled_by_inductor_it_is_the_same():
    agree_over_steps("inductor", step_sizes=[torch.tensor(1.0), torch.tensor(0.5), torch.tensor(2.0)])


@every_transform
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_compiled_it_is_the_same(transform, dtype):
    for smoothing in (0.0, 0.1):
        agree_over_steps("aot_eager", transform, dtype=dtype, weight=torch.rand(5), label_smoothing=smoothing)


@pytest.mark.parametrize("kind", [float, torch.tensor])
def test_compiled_a_schedule_of_the_step_size_does_not_run_into_the_recompile_limit(kind):
    agree_over_steps("aot_eager", step_sizes=[kind(1 / (1 + k)) for k in range(12)])


def test_compiled_evaluation_without_index():
    logits, labels, _ = batch()
    loss = compiled(ICELoss(20).eval())(logits, labels)
    torch.testing.assert_close(loss, F.cross_entropy(logits, labels))


def test_sizes_from_numpy_are_plain_numbers():
    loss_fn = ICELoss(np.int64(5), ignore_index=np.int64(-1))
    assert type(loss_fn.table.examples) is int
    assert type(loss_fn.ignore_index) is int
