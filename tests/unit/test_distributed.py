"""Several processes with gloo: every rank holds the same table, and it is that of one process."""

import copy
import gc
import os
import sys
import warnings
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from processes import preload
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from icelens.errors import TrainingError
from icelens.losses import HeldLoss, ICELoss

EXAMPLES, CLASSES, GLOBAL_BATCH = 40, 4, 24


@pytest.fixture(scope="module", autouse=True)
def one_import():
    preload("icelens.losses", "torch._dynamo")  # which an optimizer else imports at its first step


def run(worker, ranks, folder, *args):
    """What the worker returns in each rank."""
    torch.multiprocessing.start_processes(
        in_group, (worker, ranks, folder, args), nprocs=ranks, start_method="forkserver"
    )
    return [torch.load(folder / f"{worker.__name__}-{ranks}-{rank}.pt") for rank in range(ranks)]


def in_group(rank, worker, ranks, folder, args):
    torch.set_num_threads(1)
    warnings.simplefilter("error")
    group = f"{worker.__name__}-{ranks}"
    if sys.platform == "linux":
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", f"file://{folder}/{group}", timedelta(seconds=60), ranks, rank)
    result = worker(rank, ranks, *args)
    dist.barrier()
    gc.collect()  # a DDP model that outlives its group can wait for ever
    dist.destroy_process_group()
    torch.save(result, folder / f"{group}-{rank}.pt")


def share(rank, ranks, step):
    """An uneven part of the global batch, another one in every step, now and then nothing."""
    cuts = (
        torch.rand(ranks - 1, generator=torch.Generator().manual_seed(step))
        .mul(GLOBAL_BATCH)
        .long()
        .sort()[0]
    )
    bounds = [0, *cuts.tolist(), GLOBAL_BATCH]
    return slice(bounds[rank], bounds[rank + 1])


def trained(rank, ranks, steps, name):
    """A float64 network and its table after some steps on the same global batches, whatever the ranks."""
    data = torch.Generator().manual_seed(0)
    x = torch.randn(EXAMPLES, 3, dtype=torch.float64, generator=data)
    labels = torch.randint(CLASSES, (EXAMPLES,), generator=data)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, CLASSES)).double()
    wrapped = DistributedDataParallel(model) if dist.is_initialized() else model
    if name == "held":
        loss_fn = HeldLoss(EXAMPLES, CLASSES, reduction="sum", capacity=GLOBAL_BATCH)
    else:
        loss_fn = ICELoss(EXAMPLES, transform=name, reduction="sum", capacity=GLOBAL_BATCH)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(steps):
        # Of an example that comes twice in a batch ICE-HELD remembers one visit.
        drawn = torch.randperm(EXAMPLES, generator=data) if name == "held" else None
        drawn = torch.randint(EXAMPLES, (GLOBAL_BATCH,), generator=data) if drawn is None else drawn
        index = drawn[:GLOBAL_BATCH][share(rank, ranks, step)]
        optimizer.zero_grad()
        # DDP takes the mean over ranks.
        (loss_fn(wrapped(x[index]), labels[index], index) * ranks / GLOBAL_BATCH).backward()
        optimizer.step()
    return {"v": loss_fn.table.v, **loss_fn.state_dict(), **model.state_dict()}


def check_ranks_against_one_process(folder, steps, name):
    single = trained(0, 1, steps, name)
    assert single["v"].std() > 0.5
    for ranks in (1, 2, 4):
        results = run(trained, ranks, folder, steps, name)
        for result in results:
            assert all(torch.equal(value, results[0][key]) for key, value in result.items())
            for key, expected in single.items():
                torch.testing.assert_close(result[key], expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["linear", "held"])
def test_every_rank_holds_the_table_of_one_process(tmp_path, name):
    check_ranks_against_one_process(tmp_path, 50, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["linear", "power", "held"])
def test_every_rank_holds_the_table_of_one_process_after_200_steps(tmp_path, name):
    check_ranks_against_one_process(tmp_path, 200, name)


def with_an_example_on_both(rank, ranks):
    loss_fn, index = HeldLoss(EXAMPLES, CLASSES), torch.tensor([3, 5 + rank])
    for step in range(3):
        logits = torch.randn(2, CLASSES, generator=torch.Generator().manual_seed(10 * step + rank))
        loss_fn(logits.requires_grad_(), torch.tensor([1, 2]), index)
    return loss_fn.state_dict()


def test_ranks_agree_on_an_example_that_two_of_them_visited(tmp_path):
    first, second = run(with_an_example_on_both, 2, tmp_path)
    assert all(torch.equal(value, second[key]) for key, value in first.items())
    assert (first["rows_seen"], first["examples_seen"]) == (9, 3)  # three examples, three times
    assert (first["share"][[3, 5, 6]] > 0).all()
    assert (first["support"][[3, 5, 6]] != 0).all()


class WithLoss(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.body, self.loss_fn = nn.Linear(3, CLASSES), ICELoss(EXAMPLES, weight=torch.ones(CLASSES))

    def forward(self, x, labels, index):
        return self.loss_fn(self.body(x), labels, index)


def with_loss_inside(rank, ranks):
    module = WithLoss()
    module.loss_fn.table.v.fill_(float(rank))  # a broadcast would make them all 0
    wrapped = DistributedDataParallel(module)
    index = torch.arange(10) + 5 * rank
    for _ in range(2):
        wrapped(torch.randn(10, 3), index % CLASSES, index).backward()
    return {
        "v": module.loss_fn.table.v,
        "seen": [name for name, _ in [*wrapped.named_parameters(), *wrapped.named_buffers()]],
        "gradient": module.body.weight.grad,
    }


def beyond_capacity(rank, ranks):
    """Every rank agrees on the largest first batch, 7 rows, and then hands in 8."""
    loss_fn, said = ICELoss(EXAMPLES), []
    for rows in (6 + rank, 3, 8):
        logits, index = torch.randn(rows, CLASSES, requires_grad=True), torch.arange(rows)
        before = copy.deepcopy(loss_fn.table.v)
        try:
            loss_fn(logits, index % CLASSES, index)
        except TrainingError as error:
            said.append(str(error))
            assert torch.equal(loss_fn.table.v, before)
    return {"said": said, "capacity": loss_fn.table.capacity}


def test_a_loss_inside_the_wrapped_module_is_not_broadcast(tmp_path):
    results = run(with_loss_inside, 2, tmp_path)
    for rank, result in enumerate(results):
        assert not [name for name in result["seen"] if "table" in name]
        assert (result["v"][15:] == rank).all()
        assert (result["v"][:15] != rank).all()  # rows 0–9 of rank 0 and 5–14 of rank 1, on both
    assert torch.equal(results[0]["gradient"], results[1]["gradient"])


def test_a_batch_beyond_the_agreed_capacity_is_a_clear_error(tmp_path):
    for result in run(beyond_capacity, 2, tmp_path):
        assert result["capacity"] == 7
        assert result["said"] == [
            "a batch of 8 rows is larger than the 7 that the ranks agreed on at the first step; "
            "pass capacity=8 or the largest batch there is"
        ]
