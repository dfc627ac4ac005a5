"""What ranks hand each other, and BatchNorm over all of them: gloo, on one machine."""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from processes import preload, run
from torch import nn

from icelens.errors import InputError, TrainingError
from icelens.losses import ICELoss
from icelens.ranks import Ranks, alone, carrier, dealt_out
from icelens.train import joining
from icelens.train.joining import unused_part
from icelens.train.shared_norm import share_statistics


@pytest.fixture(scope="module", autouse=True)
def one_import():
    preload("icelens.train.driver")


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("size", [0, 1, 5, 7, 100])
def test_parts_are_the_whole_and_differ_by_one_row_at_most(size, count):
    parts = [range(size)[Ranks(rank, count).part(size)] for rank in range(count)]
    assert [row for part in parts for row in part] == list(range(size))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert max(map(len, parts)) == -(-size // count)


def handed_round():
    dist.init_process_group("gloo")
    ranks = Ranks.here()
    state = {
        "byte": torch.tensor([7], dtype=torch.uint8),
        "none": torch.empty(0, 3),
        "one": torch.tensor(1.5),
    }
    state["yes"], state["half"] = torch.tensor([True, False]), torch.ones(2, 2, dtype=torch.bfloat16)
    rows = torch.arange(10).reshape(5, 2)
    said = ""
    try:
        ranks.agree("data", ranks.rank)
    except InputError as error:
        said = str(error)
    jobs = list(dealt_out([1, 2, 3], lambda job: {"square": torch.tensor([job**2, ranks.rank])}, ranks))
    return {
        "told": ranks.told({"rank": ranks.rank}, 1),
        "tensors": ranks.tensors(state if ranks.rank == 1 else {}, source=1),
        "joined": ranks.joined(rows[ranks.part(5)], 5),
        "mean": ranks.mean(torch.tensor(float(ranks.rank))),
        "said": said,
        "jobs": [(job, made["square"].tolist()) for job, made in jobs],
        "alone": alone_on_one_rank(ranks),
    }


def alone_on_one_rank(ranks):
    """A loss that one rank uses by itself: it waits for nobody, and nobody hears of it."""
    loss_fn = ICELoss(3)
    if ranks.rank == 1:
        with alone():
            assert Ranks.here() == Ranks()
            loss_fn(torch.tensor([[2.0, 0.0]], requires_grad=True), torch.tensor([0]), torch.tensor([2]))
    ranks.wait()
    return loss_fn.confidence()


def test_what_a_rank_hands_to_the_others_arrives(tmp_path):
    results = run(handed_round, 2, tmp_path)
    for result in results:
        assert result["told"] == {"rank": 1}
        assert {name: tensor.tolist() for name, tensor in result["tensors"].items()} == {
            "byte": [7], "none": [], "one": 1.5, "yes": [True, False], "half": [[1, 1], [1, 1]],
        }  # fmt: skip
        assert result["tensors"]["none"].shape == (0, 3)
        assert result["tensors"]["half"].dtype == torch.bfloat16
        assert torch.equal(result["joined"], torch.arange(10).reshape(5, 2))
        assert result["mean"] == 0.5
        assert result["said"] == "data of process 1 are not those of process 0; start all with the same"
        assert result["jobs"] == [(1, [1, 0]), (2, [4, 1]), (3, [9, 0])]
    assert results[0]["alone"].tolist() == [0.5, 0.5, 0.5]
    assert results[1]["alone"][2] > 0.5


def test_one_process_hands_itself_everything():
    ranks, tensor = Ranks.here(), torch.arange(3)
    assert ranks == Ranks(0, 1)
    assert ranks.told("word", 0) == ranks.of_first(lambda: "word") == "word"
    assert ranks.tensors({"a": tensor})["a"] is ranks.joined(tensor, 3) is ranks.mean(tensor) is tensor
    ranks.agree("nothing", object())
    ranks.wait()


def network():
    torch.manual_seed(3)
    layers = [nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)]
    return nn.Sequential(*layers, nn.BatchNorm1d(3, affine=False, momentum=None)).double()


def normalised(cuts, dtype=torch.float64):
    """Two steps of a network with BatchNorm on this rank's rows; gradients are the sum over ranks."""
    ranks, model = Ranks(), network().to(dtype)
    if cuts:
        dist.init_process_group("gloo")
        ranks = Ranks.here()
        share_statistics(model)
    rows = slice(cuts[ranks.rank], cuts[ranks.rank + 1]) if cuts else slice(None)
    outputs = []
    for step in range(2):
        x = 5 + torch.randn(7, 2, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(step))
        x = x.to(dtype).requires_grad_()
        y = model(x[rows])
        (y**3).sum().backward()
        outputs += [y.detach(), x.grad[rows]]
    for parameter in model.parameters():
        parameter.grad = ranks.mean(parameter.grad) * ranks.count
    grads = [parameter.grad for parameter in model.parameters()]
    return {"rows": outputs, "grads": grads, "state": model.state_dict(), "eval": model.eval()(x).detach()}


@pytest.mark.parametrize("cuts", [(0, 4, 7), (0, 7, 7)])  # one rank may have no rows
def test_batchnorm_over_ranks_is_batchnorm_of_one_process(cuts, tmp_path):
    expected, results = normalised(None), run(normalised, 2, tmp_path, cuts)
    for name, tensors in expected.items():
        if name == "rows":
            for number, tensor in enumerate(tensors):
                found = torch.cat([result["rows"][number] for result in results])
                torch.testing.assert_close(found, tensor, rtol=0, atol=1e-12)
        else:
            for result in results:
                torch.testing.assert_close(result[name], tensors, rtol=1e-9, atol=1e-10)


def lone():
    """What BatchNorm remembers of a batch of one row, which one of the ranks has."""
    dist.init_process_group("gloo")
    model = nn.Sequential(nn.BatchNorm1d(2))
    share_statistics(model)
    y = model(torch.ones(Ranks.here().rank, 2))
    return {"y": y.detach(), **model.state_dict()}


def test_batchnorm_over_ranks_remembers_no_nan_of_a_lone_row(tmp_path):
    for result in run(lone, 2, tmp_path):
        assert all(tensor.isfinite().all() for tensor in result.values())


def test_batchnorm_over_ranks_in_half_precision_keeps_its_dtype(tmp_path):
    for result in run(normalised, 2, tmp_path, (0, 7, 7), torch.bfloat16):
        assert {tensor.dtype for tensor in [*result["rows"], *result["grads"]]} == {torch.bfloat16}
        assert all(tensor.isfinite().all() for tensor in [*result["rows"], *result["grads"]])


def attempt(store, first):
    """Three ranks, one of which comes before the others, and what each reads from its part of the store."""

    def come(rank):
        if rank != first:
            time.sleep(0.1)
        part = unused_part(store, rank, 3)
        part.add("came", 1)
        while int(part.add("came", 0)) < 3:
            time.sleep(0.01)
        seen = part.check(["left"])  # what an attempt before this one wrote
        if part.add("saw", 1) == 3:
            part.set("left", "something")
        return seen, int(part.add("came", 0))

    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(come, range(3)))


def test_a_restarted_group_reads_nothing_that_the_last_one_wrote():
    store = dist.HashStore()
    for first in (0, 2, 0, 1):
        assert attempt(store, first) == [(False, 3)] * 3


def test_a_rank_that_does_not_come_is_named(monkeypatch):
    monkeypatch.setattr(joining, "PATIENCE", timedelta(seconds=0.1))
    with pytest.raises(TrainingError, match=r"process 1 did not come within 0:00:00\.1"):
        unused_part(dist.HashStore(), 0, 2)


@pytest.mark.parametrize(
    ("backends", "expected"),
    [("cpu:gloo,cuda:nccl", "cpu"), ("cpu:gloo,cuda:gloo", "cpu"), ("cuda:nccl", "cuda")],
)
def test_a_table_on_the_cpu_is_exchanged_from_where_the_group_can_send(backends, expected, monkeypatch):
    monkeypatch.setattr(dist, "get_backend_config", lambda: backends)
    assert carrier(torch.device("cpu"), torch.device("cuda")).type == expected
