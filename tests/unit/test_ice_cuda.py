"""The main laws of ICELoss again, on CUDA, where a wrong index must be neither an assert nor a wait."""

import warnings

import pytest
import torch
from torch import nn

from icelens.errors import IndexRangeError
from icelens.losses import ICELoss

pytestmark = pytest.mark.gpu
every_transform = pytest.mark.parametrize("transform", ["linear", "power"])


def batch(rows=64, classes=10, examples=40):
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(rows, classes, generator=generator)
    labels = torch.randint(classes, (rows,), generator=generator)
    return logits, labels, torch.randint(examples, (rows,), generator=generator)


def on_cuda(*tensors):
    return [tensor.cuda() for tensor in tensors]


@every_transform
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cuda_is_the_cpu_with_repeated_indices_and_the_table_follows_the_logits(transform, smoothing):
    here, there = (ICELoss(40, transform=transform, label_smoothing=smoothing) for _ in range(2))
    logits, labels, index = batch()
    labels[0] = -100
    for _ in range(3):
        cpu, gpu = logits.clone().requires_grad_(), logits.cuda().requires_grad_()
        expected, loss = here(cpu, labels, index), there(gpu, labels.cuda(), index.cuda())
        expected.backward()
        loss.backward()
        torch.testing.assert_close(loss.cpu(), expected)
        torch.testing.assert_close(gpu.grad.cpu(), cpu.grad)
    assert there.table.v.is_cuda
    torch.testing.assert_close(there.table.v.cpu(), here.table.v, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("index_device", ["cpu", "cuda"])
def test_a_table_given_a_place_stays_there(index_device):
    here, there = ICELoss(40), ICELoss(40, device="cpu")
    logits, labels, index = batch()
    here(logits.requires_grad_(), labels, index)
    there(logits.detach().cuda().requires_grad_(), labels.cuda(), index.to(index_device))
    assert there.table.v.device.type == "cpu"
    torch.testing.assert_close(there.table.v, here.table.v, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("wrong", [-1, 40, 2**40])
@pytest.mark.parametrize("read", [ICELoss.confidence, ICELoss.state_dict])
def test_an_index_out_of_range_is_no_assert_moves_no_row_and_is_an_error_when_the_table_is_read(wrong, read):
    loss_fn, expected = ICELoss(40), ICELoss(40)
    logits, labels, index = on_cuda(*batch())
    logits.requires_grad_()
    expected(logits[1:], labels[1:], index[1:])
    index[0] = wrong
    loss_fn(logits, labels, index).backward()
    torch.cuda.synchronize()
    torch.testing.assert_close(loss_fn.table.v, expected.table.v, rtol=1e-5, atol=1e-5)
    with pytest.raises(IndexRangeError, match=f"^index {wrong} is not a row"):
        read(loss_fn)
    read(loss_fn)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_step_never_waits_for_the_device(smoothing):
    loss_fn = ICELoss(40, label_smoothing=smoothing)
    logits, labels, index = on_cuda(*batch())
    loss_fn(logits.requires_grad_(), labels, index).backward()
    torch.cuda.synchronize()
    try:
        with warnings.catch_warnings(action="ignore"):  # torch warns that this mode is a prototype
            torch.cuda.set_sync_debug_mode("error")
        loss_fn(logits, labels, index).backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_ignored_rows_and_infinite_logits():
    loss_fn = ICELoss(40)
    logits, labels, _ = on_cuda(*batch(rows=4))
    labels[1], logits[2, 0] = -100, torch.inf
    loss_fn(logits.requires_grad_(), labels, torch.tensor([3, 10**9, 5, 7]).cuda())
    assert loss_fn.confidence().ne(0.5).nonzero().flatten().tolist() == [3, 7]


@every_transform
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_and_a_loss_scale(transform, dtype):
    torch.manual_seed(0)
    model = nn.Linear(6, 10).cuda()
    plain, scaled = ICELoss(40, transform=transform), ICELoss(40, transform=transform)
    _, labels, index = on_cuda(*batch())
    with torch.autocast("cuda", dtype):
        logits = model(torch.randn(64, 6, device="cuda"))
        assert logits.dtype == dtype
        loss = scaled(logits, labels, index)
    assert loss.dtype == torch.float32
    (loss * 65536).backward()
    plain(logits.detach().float(), labels, index)
    torch.testing.assert_close(scaled.table.v, plain.table.v, rtol=1e-5, atol=1e-5)
    assert model.weight.grad.isfinite().all()


def test_half_never_shortens_the_table():
    loss_fn = ICELoss(40).cuda().half()
    assert loss_fn.table.v.dtype == torch.float32
    assert loss_fn.table.v.is_cuda


def test_a_table_moved_during_validation_can_still_be_trained():
    loss_fn = ICELoss(40)
    logits, labels, index = on_cuda(*batch())
    with torch.inference_mode():
        loss_fn(logits, labels, index)
    loss_fn(logits.requires_grad_(), labels, index)
    assert (loss_fn.confidence() != 0.5).any()


@pytest.mark.filterwarnings("ignore")  # what torch says of itself while it compiles
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled_it_is_the_same(mode):
    eager, twin = ICELoss(40), ICELoss(40)
    torch._dynamo.reset()
    graph = torch.compile(twin, fullgraph=True, mode=mode)
    logits, labels, index = on_cuda(*batch())
    eager.table.follow(logits.device)
    twin.table.follow(logits.device)
    logits.requires_grad_()
    for step_size in (1.0, 1.0, 0.5, 0.25):
        eager.step_size = twin.step_size = step_size
        torch.compiler.cudagraph_mark_step_begin()
        got = torch.autograd.grad(graph(logits, labels, index), logits)[0].clone()
        torch.testing.assert_close(got, torch.autograd.grad(eager(logits, labels, index), logits)[0])
        torch.testing.assert_close(twin.table.v, eager.table.v, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_captured_graph_can_be_replayed(smoothing):
    eager, captured = (ICELoss(40, step_size=0.1, label_smoothing=smoothing) for _ in range(2))
    logits, labels, index = on_cuda(*batch())
    logits.requires_grad_()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.autograd.grad(captured(logits, labels, index), logits)
    torch.cuda.current_stream().wait_stream(side)
    captured.table.v.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = captured(logits, labels, index)
    for _ in range(3):
        graph.replay()
        torch.testing.assert_close(loss, eager(logits, labels, index))
    torch.testing.assert_close(captured.table.v, eager.table.v, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("rows", "classes"), [(2, 2), (64, 10), (3000, 10), (200, 1000), (16, 10_000)])
@every_transform
def test_the_kernels_are_the_plain_operations_to_the_second_derivative(
    rows, classes, dtype, reduction, transform
):
    start = 5 * torch.randn(40, device="cuda")
    logits, labels, index = on_cuda(*batch(rows=rows, classes=classes))
    logits = logits.to(dtype)
    labels[-1], index[-1] = -100, 10**9
    found = []
    for way in (ICELoss._fused, ICELoss._plain):
        loss_fn = ICELoss(40, transform=transform, reduction=reduction, step_size=0.7)
        z = logits.clone().requires_grad_()
        loss_fn.table.follow(z.device)
        loss_fn.table.v.copy_(start)
        loss = way(loss_fn, z, labels, index, True)
        weight = torch.linspace(0.5, 2, loss.numel(), device="cuda").view(loss.shape)
        (plain,) = torch.autograd.grad((loss * weight).sum(), z, retain_graph=True)
        (first,) = torch.autograd.grad((loss * weight).sum(), z, create_graph=True)
        (second,) = torch.autograd.grad((first.float() ** 2).sum(), z)
        found.append((loss, loss_fn.confidence(), plain, first, second))
    close = {} if dtype != torch.float32 else {"rtol": 1e-4, "atol": 1e-5}
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, **close)


@every_transform
@pytest.mark.parametrize("step_size", [1.0, torch.tensor(1.0)])
def test_the_kernels_are_what_runs(monkeypatch, transform, step_size):
    logits, labels, index = on_cuda(*batch())
    monkeypatch.setattr(ICELoss, "_plain", None)
    loss_fn = ICELoss(40, transform=transform, step_size=step_size)
    loss_fn.step_size = step_size.cuda() if isinstance(step_size, torch.Tensor) else step_size
    loss_fn(logits.requires_grad_(), labels, index).backward()


@every_transform
def test_a_step_that_is_a_tensor_is_that_step(transform):
    logits, labels, index = on_cuda(*batch())
    one, two = ICELoss(40, transform=transform), ICELoss(40, transform=transform, step_size=0.3)
    one.step_size = torch.tensor(0.3, device="cuda")
    for loss_fn in (one, two):
        loss_fn(logits.requires_grad_(), labels, index)
    torch.testing.assert_close(one.table.v, two.table.v, rtol=1e-5, atol=1e-5)
    one.step_size.fill_(0.0)
    before = one.table.v.clone()
    one(logits, labels, index)
    assert torch.equal(one.table.v, before)


def test_repeated_launches_skip_tritons_look_at_the_arguments_and_change_nothing():
    from icelens.fused import _launch

    logits, labels, index = on_cuda(*batch())
    loss_fn = ICELoss(40, step_size=0.0)
    losses = [loss_fn(logits.requires_grad_(), labels, index) for _ in range(3)]
    assert _launch.direct
    assert _launch.ready
    assert losses[0] == losses[1] == losses[2]
    # Labels that do not start at a multiple of 16 bytes.
    shifted = torch.cat([labels[:1], labels])[1:]
    assert shifted.data_ptr() % 16
    assert loss_fn(logits, shifted, index) == losses[0]


def test_logits_that_do_not_lie_together_and_a_label_that_is_no_class():
    logits, labels, index = on_cuda(*batch())
    apart = torch.randn(10, 128, device="cuda").t()[::2]
    apart.copy_(logits)
    one, two = ICELoss(40), ICELoss(40)
    torch.testing.assert_close(
        one(apart.requires_grad_(), labels, index), two(logits.requires_grad_(), labels, index)
    )
    labels[0] = 10
    assert one(logits, labels, index).isnan()
    assert one.confidence().isfinite().all()


def test_the_loss_can_be_scaled_in_place_as_people_do():
    logits, labels, index = on_cuda(*batch())
    for reduction in ("mean", "none"):
        loss = ICELoss(40, reduction=reduction)(logits.requires_grad_(), labels, index)
        loss /= 4
        loss.sum().backward()


def test_classes_ruled_out_in_the_first_block_of_many():
    logits = torch.full((2, 10_000), -torch.inf, device="cuda")
    logits[:, 9_000:] = torch.randn(2, 1000, device="cuda")
    labels, index = torch.tensor([9_500, 9_001]).cuda(), torch.tensor([0, 1]).cuda()
    fused, plain = ICELoss(2), ICELoss(2, device="cpu")
    torch.testing.assert_close(fused(logits.requires_grad_(), labels, index), plain(logits, labels, index))


def test_deterministic_algorithms_keep_the_plain_operations(monkeypatch):
    logits, labels, index = on_cuda(*batch())
    monkeypatch.setattr(ICELoss, "_fused", None)
    torch.use_deterministic_algorithms(True)
    try:
        ICELoss(40)(logits.requires_grad_(), labels, index).backward()
    finally:
        torch.use_deterministic_algorithms(False)
