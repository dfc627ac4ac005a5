"""The recorder's buffer: logits that wait give the rows that they give at once, in bounded memory."""

from collections import Counter

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from icelens.dynamics import buffer
from icelens.dynamics.buffer import Buffer

CPU = torch.device("cpu")


def batch(rows, classes=4, dtype=torch.float32):
    """Logits, labels of which some are no class, and index."""
    logits, labels = 3 * torch.randn(rows, classes), torch.randint(-1, classes + 1, (rows,))
    return logits.to(dtype).requires_grad_(), labels, torch.arange(rows)


def add(kept, given):
    kept.add(*given, epoch=None, loss=None, confidence=None)


class Operations(TorchDispatchMode):
    """Counts what would be a launch on CUDA: all operations but views."""

    def __init__(self):
        super().__init__()
        self.names = Counter()

    def __torch_dispatch__(self, function, types, given=(), named=None):
        if not function.is_view:
            self.names[function.overloadpacket.__name__] += 1
        return function(*given, **(named or {}))


@pytest.mark.parametrize(
    "shapes",
    [
        [(16, 4)] * 20,
        [(16, 4), (16, 4), (2, 4)] * 4,
        [(1, 4), (19, 4), (40, 4), (0, 4), (3, 4)] * 3,  # some are too large to wait behind others
        [(5, 4), (5, 3), (5, 3), (5, 100), (5, 4)] * 3,
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_logits_that_wait_give_the_same_rows(monkeypatch, shapes, dtype):
    def rows(staged_bytes):
        monkeypatch.setattr(buffer, "STAGED_BYTES", staged_bytes)
        torch.manual_seed(0)
        kept = Buffer(1000, CPU, CPU)
        for number, shape in enumerate(shapes):
            add(kept, batch(*shape, torch.float16 if number == 7 else dtype))
        kept.settle()
        return kept.on_host()

    at_once = rows(0)
    for staged_bytes in (160, 600, 10_000):
        waited = rows(staged_bytes)
        for name in ("log_p", "rival_log_p", "rival", "label", "index"):
            np.testing.assert_array_equal(waited[name], at_once[name])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_step_is_a_copy_for_each_tensor(dtype):
    kept, given = Buffer(1000, CPU, CPU), batch(16, dtype=dtype)
    add(kept, given)
    with Operations() as found:
        for _ in range(10):
            add(kept, given)
    assert found.names == {"copy_": 30}


def test_logits_that_wait_take_4_mebibytes_at_most():
    kept = Buffer(1 << 20, CPU, CPU)
    for rows, classes in ((100, 1000), (100, 10_000), (20, 50_000), (100, 2)):
        for _ in range(15):
            add(kept, batch(rows, classes))
            assert kept.staged.nbytes <= 4 << 20
            waiting = kept.count - kept.settled
            assert waiting <= len(kept.staged)
    assert waiting == 1500  # narrow ones wait for long


def test_a_buffer_that_is_used_again_gives_the_rows_of_one_that_is_fresh():
    used, fresh, given = Buffer(100, CPU, CPU), Buffer(100, CPU, CPU), batch(16)
    for waiting in (False, True):
        add(used, batch(20))
        if not waiting:
            used.settle()
        used.clear(1)
    for kept in (used, fresh):
        add(kept, given)
        kept.settle()
    np.testing.assert_array_equal(used.on_host()["log_p"], fresh.on_host()["log_p"])
