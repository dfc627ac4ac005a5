"""Two processes that share a GPU by gloo: the table there or on the CPU, and a recipe."""

from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from processes import LATE, preload, run
from test_train_ranks import HARD, PLAIN, check, trained
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from icelens import ranks
from icelens.losses import ICELoss

pytestmark = pytest.mark.gpu
EXAMPLES, CLASSES, BATCH = 40, 4, 24


@pytest.fixture(scope="module", autouse=True)
def one_import():
    preload("icelens.train.driver", *LATE)


def table_after(steps, backend, place, via=None, index_on="cuda"):
    """The table after some steps of a float64 network on a GPU, with this rank's rows of each batch."""
    here = ranks.Ranks()
    if backend is not None:
        dist.init_process_group(backend)
        here = ranks.Ranks.here()
        torch.cuda.set_device(here.rank % torch.cuda.device_count())
    if via is not None:
        ranks.carrier = lambda device, other: other
    data = torch.Generator().manual_seed(0)
    x = torch.randn(EXAMPLES, 3, dtype=torch.float64, generator=data)
    labels = torch.randint(CLASSES, (EXAMPLES,), generator=data)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, CLASSES)).double().cuda()
    forward = model if backend is None else DistributedDataParallel(model)
    loss_fn = ICELoss(EXAMPLES, reduction="sum", device=place)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(steps):
        index = torch.randint(EXAMPLES, (BATCH,), generator=data)[here.part(BATCH)]
        loss = loss_fn(forward(x[index].cuda()), labels[index].cuda(), index.to(index_on))
        optimizer.zero_grad()
        (loss * here.count / BATCH).backward()
        optimizer.step()
    assert loss_fn.table.v.device.type == (place or "cuda")
    return loss_fn.confidence().cpu()


@pytest.mark.parametrize("index_on", ["cpu", "cuda"])
@pytest.mark.parametrize(("place", "via"), [(None, None), ("cpu", None), ("cpu", "the GPU")])
def test_the_table_of_two_ranks_is_that_of_one_process(place, via, index_on, tmp_path):
    expected = table_after(50, None, "cpu")
    results = run(table_after, 2, tmp_path, 50, "gloo", place, via, index_on)
    assert torch.equal(results[0], results[1])
    torch.testing.assert_close(results[0], expected, rtol=0, atol=1e-6)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="NCCL wants a GPU for each rank")
@pytest.mark.parametrize("place", [None, "cpu"])
def test_nccl_alone_carries_a_table_on_the_cpu(place, tmp_path):
    results = run(table_after, 2, tmp_path, 50, "nccl", place)
    assert torch.equal(results[0], results[1])
    torch.testing.assert_close(results[0], table_after(50, None, "cpu"), rtol=0, atol=1e-6)


HELD = replace(PLAIN, loss="ice_held", iterations=120)


@pytest.mark.parametrize(
    "recipe", [PLAIN, HELD, replace(HARD, eager=True)], ids=["recorded", "held", "eager"]
)
def test_a_recipe_over_two_ranks_is_that_of_one_process(recipe, tmp_path):
    """Over ranks no step is recorded, whatever one process does."""
    recipe = replace(recipe, device="cuda")
    expected = trained(tmp_path / "one", recipe)
    results = run(trained, 2, tmp_path, tmp_path / "two", recipe)
    # Over ranks a GPU adds in another order: what is kept in 16 bits may be rounded the other way.
    check(on_cpu(results), on_cpu([expected])[0], rounding=2**-10)


def on_cpu(results):
    return [{name: tensor.cpu() for name, tensor in result.items()} for result in results]
