"""The recorder on CUDA: the same rows as on a CPU, and no step that waits for the device."""

import warnings
from contextlib import contextmanager

import pandas as pd
import pytest
import torch

from icelens import FlightRecorder, ICELoss
from icelens.errors import IndexRangeError, InputError, TrainingError

pytestmark = pytest.mark.gpu
EXAMPLES, CLASSES = 3000, 10


def batches(epochs=3):
    draw = torch.Generator().manual_seed(0)
    labels = torch.randint(CLASSES, (EXAMPLES,), generator=draw)
    for _ in range(epochs):
        for index in torch.randperm(EXAMPLES, generator=draw).split(128):
            yield torch.randn(len(index), CLASSES, generator=draw), labels[index], index


def rows(folder):
    return pd.read_parquet(folder).sort_values("step", kind="stable").reset_index(drop=True)


@contextmanager
def waits_are_errors():
    """The mode is one of the process: left on, it would fail the tests that come after."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Synchronization debug mode is a prototype")
        try:
            torch.cuda.set_sync_debug_mode("error")
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("index_device", ["cpu", "cuda"])
@pytest.mark.parametrize("buffer", [300, 1 << 20])
def test_rows_are_those_of_a_cpu(tmp_path, index_device, buffer):
    losses = ICELoss(EXAMPLES), ICELoss(EXAMPLES)
    with (
        FlightRecorder(tmp_path / "cpu", EXAMPLES) as here,
        FlightRecorder(tmp_path / "cuda", EXAMPLES, buffer=buffer) as there,
    ):
        for logits, labels, index in batches():
            losses[0](logits.requires_grad_(), labels, index)
            here.log(logits, labels, index, confidence=losses[0])
            given = logits.detach().cuda().requires_grad_(), labels.cuda(), index.to(index_device)
            losses[1](*given)
            there.log(*given, confidence=losses[1])
    pd.testing.assert_frame_equal(rows(tmp_path / "cuda"), rows(tmp_path / "cpu"), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("index_device", ["cpu", "cuda"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_step_does_not_wait_for_the_device(tmp_path, monkeypatch, index_device, dtype):
    monkeypatch.setattr("icelens.dynamics.buffer.STAGED_BYTES", 1 << 14)  # logits of three or six steps
    loss_fn = ICELoss(EXAMPLES, device="cuda")
    given = [
        (logits.cuda().to(dtype), labels.cuda(), index.to(index_device))
        for logits, labels, index in batches()
    ]
    with FlightRecorder(tmp_path, EXAMPLES) as recorder:
        recorder.log(*given[0])
        torch.cuda.synchronize()
        with waits_are_errors():
            for batch in given[1:]:
                recorder.log(*batch, loss=batch[0][:, 0], confidence=loss_fn)
    assert len(rows(tmp_path)) == 3 * EXAMPLES


def test_memory_of_a_captured_graph_may_be_written_again_at_once(tmp_path):
    given = [batch for batch in batches() if len(batch[1]) == 128]
    static = [tensor.cuda() for tensor in given[0]]
    with FlightRecorder(tmp_path / "static", EXAMPLES) as recorder:
        for batch in given:
            for held, values in zip(static, batch, strict=True):
                held.copy_(values)
            recorder.log(*static)
    with FlightRecorder(tmp_path / "plain", EXAMPLES) as recorder:
        for batch in given:
            recorder.log(*batch)
    pd.testing.assert_frame_equal(rows(tmp_path / "static"), rows(tmp_path / "plain"), rtol=1e-4, atol=1e-5)


def test_inside_of_a_graph_it_is_refused(tmp_path):
    given = [tensor.cuda() for tensor in next(batches())]
    with FlightRecorder(tmp_path, EXAMPLES) as recorder:
        recorder.log(*given)
        with pytest.raises(TrainingError, match="CUDA graph"), torch.cuda.graph(torch.cuda.CUDAGraph()):
            recorder.log(given[0] + 1, *given[1:])  # an empty graph would be warned of


@pytest.mark.parametrize(
    ("place", "value", "error", "message"),
    [
        (2, 3000, IndexRangeError, "index 3000 is not a row of the data set, which has 3,000 rows"),
        (2, 2**33, IndexRangeError, "index 8589934592 is not a row"),
        (1, 10, InputError, "label 10 is not a class of logits with 10 columns"),
    ],
)
def test_what_is_wrong_is_told_when_it_is_written(tmp_path, place, value, error, message):
    recorder = FlightRecorder(tmp_path, EXAMPLES)
    for step, batch in enumerate(batches(1)):
        given = [tensor.cuda() for tensor in batch]
        if step == 2:
            given[place][5] = value
        recorder.log(*given)
    with pytest.raises(error, match=f"{message}.* step 2"):
        recorder.close()
    torch.cuda.synchronize()  # no assertion of the device


def test_rows_to_ignore_are_left_out(tmp_path):
    with FlightRecorder(tmp_path, EXAMPLES) as recorder:
        for logits, labels, index in batches(1):
            labels[0], index[0] = -100, -5
            recorder.log(logits.cuda(), labels.cuda(), index.cuda())
    assert len(rows(tmp_path)) == EXAMPLES - 24
