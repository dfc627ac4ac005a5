"""FlightRecorder: rows are what a direct computation gives, memory is bounded, wrong use is told."""

import os

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F

from icelens import FlightRecorder, ICELoss, read_dynamics
from icelens.dynamics import parts
from icelens.dynamics.buffer import Buffer
from icelens.errors import IndexRangeError, InputError, TrainingError
from icelens.losses import HeldLoss

EXAMPLES, CLASSES = 50, 4


def batches(epochs=3, batch=16, dtype=torch.float32, seed=0):
    """(logits, labels, index) of some epochs, each example once in each."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (EXAMPLES,), generator=draw)
    for _ in range(epochs):
        for index in torch.randperm(EXAMPLES, generator=draw).split(batch):
            yield torch.randn(len(index), CLASSES, generator=draw).to(dtype) * 3, labels[index], index


def record(folder, given=None, log=lambda recorder, batch: recorder.log(*batch), **settings):
    with FlightRecorder(folder, EXAMPLES, **settings) as recorder:
        for batch in given or batches():
            log(recorder, batch)
    return pd.read_parquet(folder).sort_values("step", kind="stable").reset_index(drop=True)


def directly(logits, labels):
    """Loss, margin, probability and guess in float64, written as they are defined."""
    z, rows = logits.double(), range(len(labels))
    p = z.exp() / z.exp().sum(1, keepdim=True)
    others = [max(float(z[i, k]) for k in range(z.shape[1]) if k != int(labels[i])) for i in rows]
    margin = [float(z[i, labels[i]]) - other for i, other in zip(rows, others, strict=True)]
    return [
        (-p[i, labels[i]].log().item(), margin[i], p[i, labels[i]].item(), z[i].argmax().item()) for i in rows
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_rows_are_what_a_direct_computation_gives(tmp_path, dtype):
    given = list(batches(dtype=dtype))
    table = record(tmp_path, given)
    assert list(table.columns) == list(parts.COLUMNS)
    assert {name: str(kind) for name, kind in table.dtypes.items()} == parts.COLUMNS
    assert table["index"].tolist() == torch.cat([index for *_, index in given]).tolist()
    assert table["label"].tolist() == torch.cat([labels for _, labels, _ in given]).tolist()
    assert table["step"].tolist() == [step for step, batch in enumerate(given) for _ in batch[1]]
    expected = np.array([row for logits, labels, _ in given for row in directly(logits, labels)])
    np.testing.assert_allclose(table[["loss", "margin", "p_label"]], expected[:, :3], rtol=1e-5, atol=1e-5)
    assert table["guess"].tolist() == expected[:, 3].astype(int).tolist()
    assert table["correct"].tolist() == (table["guess"] == table["label"]).tolist()
    assert table["confidence"].isna().all()


def test_values_far_from_zero_keep_their_digits(tmp_path):
    logits = torch.tensor([[100.0, -100.0, 99.0, 0.0], [-100.0, 100.0, 0.0, 0.0]])
    table = record(tmp_path, [(logits, torch.tensor([0, 0]), torch.tensor([0, 1]))])
    assert table["margin"].tolist() == pytest.approx([1.0, -200.0], abs=1e-5)
    assert table["loss"].tolist() == pytest.approx([np.log1p(np.exp(-1)), 200.0], rel=1e-5)


def test_a_loss_of_ones_own_is_kept_beside_what_follows_from_the_logits(tmp_path):
    given = list(batches())
    own = [torch.rand(len(labels)).double() for _, labels, _ in given]
    for loss in own:
        loss.requires_grad_()
    pairs = iter(own)

    def every_second(recorder, batch):
        loss = next(pairs)
        recorder.log(*batch, loss=loss if recorder.step % 2 else None)

    table, plain = record(tmp_path / "a", given, every_second), record(tmp_path / "b", given)
    odd = table["step"] % 2 == 1
    assert table["loss"][odd].tolist() == torch.cat(own).detach().float().numpy()[odd].tolist()
    pd.testing.assert_series_equal(table["loss"][~odd], plain["loss"][~odd])
    pd.testing.assert_frame_equal(table.drop(columns="loss"), plain.drop(columns="loss"))


@pytest.mark.parametrize("make", [ICELoss, lambda rows: HeldLoss(rows, CLASSES)], ids=["ice", "held"])
def test_confidence_is_that_of_the_loss_after_its_call(tmp_path, make):
    loss_fn, after = make(EXAMPLES), []

    def log(recorder, batch):
        logits, labels, index = batch
        loss_fn(logits.requires_grad_(), labels, index).backward()
        recorder.log(*batch, confidence=loss_fn)
        after.append(loss_fn.confidence()[index])

    table = record(tmp_path, log=log)
    # torch's sigmoid of a few values and that of many differ in the last digit.
    np.testing.assert_allclose(table["confidence"], torch.cat(after), rtol=1e-6)
    assert table["confidence"].nunique() > EXAMPLES
    last = read_dynamics(tmp_path).examples["confidence"].to_numpy()
    visited = {row: float(value) for row, value in zip(table["index"], torch.cat(after), strict=True)}
    np.testing.assert_allclose(last, [visited[row] for row in range(EXAMPLES)], rtol=1e-6)
    if isinstance(loss_fn, ICELoss):  # ICE-HELD reads from other examples, too, how much a visit tells
        np.testing.assert_allclose(last, loss_fn.confidence(), rtol=1e-6)


def test_confidence_may_be_any_tensor_and_be_left_out(tmp_path):
    given = list(batches())

    def log(recorder, batch):
        recorder.log(*batch, confidence=torch.full((len(batch[1]),), 0.25) if recorder.step else None)

    table = record(tmp_path, given, log)
    assert table["confidence"][table["step"] == 0].isna().all()
    assert (table["confidence"][table["step"] > 0] == 0.25).all()


class TestEpochs:
    def test_an_example_that_comes_again_begins_the_next(self, tmp_path):
        table = record(tmp_path, buffer=20)
        assert table["epoch"].tolist() == [epoch for epoch in range(3) for _ in range(EXAMPLES)]

    def test_a_last_batch_that_is_dropped_changes_nothing(self, tmp_path):
        given = [batch for batch in batches() if len(batch[1]) == 16]
        assert record(tmp_path, given)["epoch"].tolist() == [epoch for epoch in range(3) for _ in range(48)]

    def test_an_example_twice_in_a_batch_does_not(self, tmp_path):
        logits, labels = torch.randn(3, CLASSES), torch.zeros(3, dtype=torch.int64)
        given = [(logits, labels, torch.tensor(index)) for index in ([1, 1, 2], [3, 3, 3], [4, 2, 5])]
        assert record(tmp_path, given)["epoch"].tolist() == [0] * 6 + [1] * 3

    def test_the_user_may_say_it(self, tmp_path):
        numbers = iter([7, None, 3])

        def log(recorder, batch):
            if recorder.step % 4 == 0:
                recorder.epoch(next(numbers))
            recorder.log(*batch)

        table = record(tmp_path, log=log)
        assert table["epoch"].tolist() == [epoch for epoch in (7, 8, 3) for _ in range(EXAMPLES)]

    def test_without_a_number_it_is_the_next_of_those_counted_so_far(self, tmp_path):
        def log(recorder, batch):
            if recorder.step in (0, 9):
                recorder.epoch() if recorder.step else None
            recorder.log(*batch)

        # Nine batches are two epochs and a quarter of the third, which is number 2.
        table = record(tmp_path, log=log)
        assert table.groupby("step")["epoch"].first().tolist() == [0] * 4 + [1] * 4 + [2] + [3] * 3

    def test_the_first_that_is_said_without_a_number_is_0(self, tmp_path):
        def log(recorder, batch):
            if recorder.step % 4 == 0:
                recorder.epoch()
            recorder.log(*batch)

        assert (
            record(tmp_path, log=log).groupby("step")["epoch"].first().tolist() == [0] * 4 + [1] * 4 + [2] * 4
        )


class TestMemory:
    def test_parts_are_as_long_as_the_buffer_at_most_and_break_between_steps(self, tmp_path):
        record(tmp_path, buffer=40)
        found = parts.find_parts(tmp_path)
        # Each epoch has batches of 16, 16, 16 and 2; 16 + 16 + 2 fit, a third of 16 does not.
        assert [part.rows for part in found] == [32, 34, 34, 32, 18]
        assert [part.steps.start for part in found] == [0, 2, 5, 8, 10]

    def test_there_are_two_buffers_however_long_it_runs(self, tmp_path, monkeypatch):
        made = []
        monkeypatch.setattr(
            "icelens.dynamics.recorder.Buffer", lambda *given: made.append(given) or Buffer(*given)
        )
        record(tmp_path, batches(epochs=12), buffer=40)
        assert [rows for rows, *_ in made] == [40, 40]

    def test_a_batch_larger_than_the_buffer_is_taken_whole(self, tmp_path):
        table = record(tmp_path, batches(batch=30), buffer=8)
        assert len(table) == 150
        assert [part.rows for part in parts.find_parts(tmp_path)] == [30, 20] * 3

    def test_the_same_rows_whatever_the_buffer(self, tmp_path):
        tables = [record(tmp_path / str(buffer), buffer=buffer) for buffer in (1, 17, 100, 10_000)]
        for table in tables[1:]:
            pd.testing.assert_frame_equal(table, tables[0])

    def test_what_was_logged_may_be_changed_at_once(self, tmp_path):
        # As the memory of a captured graph is, which the next step writes to.
        static = [
            torch.empty(16, CLASSES),
            torch.empty(16, dtype=torch.int64),
            torch.empty(16, dtype=torch.int64),
        ]
        given = [batch for batch in batches() if len(batch[1]) == 16]

        def log(recorder, batch):
            for held, values in zip(static, batch, strict=True):
                held.copy_(values)
            recorder.log(*static)
            for held in static:
                held.zero_()

        pd.testing.assert_frame_equal(record(tmp_path / "a", given, log), record(tmp_path / "b", given))


def test_training_is_the_same_with_it_under_autocast_and_compile(tmp_path):
    def trained(folder=None):
        torch.manual_seed(0)
        model = torch.nn.Linear(CLASSES, CLASSES)
        run = torch.compile(model, backend="eager")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        recorder = FlightRecorder(folder, EXAMPLES) if folder else None
        for number, (x, labels, index) in enumerate(batches()):
            with torch.autocast("cpu", torch.bfloat16):
                logits = run(x)
                if recorder:
                    recorder.log(logits, labels, index)
                F.cross_entropy(logits, labels).backward()
            if number % 2:  # gradient accumulation
                optimizer.step()
                optimizer.zero_grad()
        if recorder:
            assert logits.dtype == torch.bfloat16
            recorder.close()
        return model.weight.detach()

    assert torch.equal(trained(tmp_path), trained())
    assert len(pd.read_parquet(tmp_path)) == 150


def test_it_can_be_opened_and_used_under_inference_mode(tmp_path):
    with FlightRecorder(tmp_path, EXAMPLES) as recorder:
        for number, batch in enumerate(batches()):
            with torch.inference_mode(number < 2):
                recorder.log(*(tensor.clone() for tensor in batch))
    assert len(pd.read_parquet(tmp_path)) == 150


def test_rows_to_ignore_are_left_out_whatever_their_index(tmp_path):
    def log(recorder, batch):
        logits, labels, index = (tensor.clone() for tensor in batch)
        labels[0], index[0] = -100, 10**9
        recorder.log(logits, labels, index)

    table = record(tmp_path, log=log)
    assert len(table) == 150 - 12
    assert (table["label"] >= 0).all()


def test_an_empty_batch_is_a_step_without_rows(tmp_path):
    empty = torch.empty(0, CLASSES), torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64)
    given = [empty, *batches(epochs=1), empty]
    assert sorted(record(tmp_path, given)["step"].unique()) == [1, 2, 3, 4]
    with FlightRecorder(tmp_path, EXAMPLES, resume_at=6) as recorder:  # no gap that would have to be told
        assert recorder.flush() == 6


def fails_at_step_6(recorder, batch):
    1 / (6 - recorder.step)
    recorder.log(*batch)


class TestEnds:
    def test_rows_of_a_run_that_fails_are_written(self, tmp_path):
        with pytest.raises(ZeroDivisionError):
            record(tmp_path, log=fails_at_step_6)
        assert pd.read_parquet(tmp_path)["step"].max() == 5

    def test_what_stopped_the_run_is_told_though_the_recorder_fails_too(self, tmp_path, monkeypatch):
        fail = OSError(28, "No space left on device")
        monkeypatch.setattr(
            "icelens.dynamics.writer.write_part", lambda *_, **__: (_ for _ in ()).throw(fail)
        )
        with pytest.raises(ZeroDivisionError) as found:
            record(tmp_path, log=fails_at_step_6)
        assert "could not write its last rows" in found.value.__notes__[0]

    def test_a_full_disk_is_told_with_the_file(self, tmp_path, monkeypatch):
        def fail(table, where, **_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("pyarrow.parquet.write_table", fail)
        recorder = FlightRecorder(tmp_path, EXAMPLES, buffer=16)
        given = batches()
        recorder.log(*next(given))
        recorder.log(*next(given))
        with pytest.raises(OSError, match="No space left") as found:
            recorder.log(*next(given))  # the first part has failed meanwhile
        assert found.value.filename.endswith("rank0000-step000000000.parquet")
        with pytest.raises(OSError, match="No space left"):
            recorder.close()
        assert not list(tmp_path.iterdir())

    def test_after_close_nothing_is_taken(self, tmp_path):
        with FlightRecorder(tmp_path, EXAMPLES) as recorder:
            pass
        recorder.close()
        with pytest.raises(TrainingError, match="closed"):
            recorder.log(*next(batches()))

    def test_rows_that_nobody_wrote_are_not_lost_in_silence(self, tmp_path):
        recorders = [FlightRecorder(tmp_path, EXAMPLES)]
        recorders[0].log(*next(batches()))
        with pytest.warns(UserWarning, match="not closed: 16 rows are lost"):
            recorders.clear()

    def test_two_writers_of_one_rank_are_told_apart(self, tmp_path):
        first, second = (FlightRecorder(tmp_path, EXAMPLES) for _ in range(2))
        first.log(*next(batches()))
        first.close()
        second.log(*next(batches()))
        with pytest.raises(TrainingError, match="another recorder writes to this folder as rank 0"):
            second.close()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
@pytest.mark.parametrize("examples", [EXAMPLES, 300])
def test_an_index_of_any_integers_names_rows_as_int64_does(tmp_path, dtype, examples):
    loss_fn, (logits, labels, index) = ICELoss(examples), next(batches())
    loss_fn(logits.requires_grad_(), labels, index)
    with FlightRecorder(tmp_path, examples) as recorder:
        recorder.log(logits, labels, index.to(dtype), confidence=loss_fn)
        if dtype == torch.int8:
            with pytest.raises(IndexRangeError, match=r"^index -3 is not a row"):
                recorder.log(logits, labels, torch.where(index == index[5], -3, index).to(dtype))
    table = pd.read_parquet(tmp_path)
    assert table["index"].tolist() == index.tolist()
    assert table["confidence"].tolist() == loss_fn.confidence()[index].tolist()


LOGITS, LABELS, INDEX = torch.zeros(3, CLASSES), torch.zeros(3, dtype=torch.int64), torch.arange(3)


@pytest.mark.parametrize(
    ("given", "named", "message"),
    [
        ((LOGITS[0], LABELS, INDEX), {}, r"logits must be \(batch, classes\) floats"),
        ((LOGITS[:, :1], LABELS, INDEX), {}, "logits have one column; where z is the logit of a sigmoid"),
        ((LOGITS, LABELS[:2], INDEX), {}, "logits hold 3 rows but labels 2"),
        ((LOGITS, LABELS + 4, INDEX), {}, "labels hold class 4 but there are 4 classes"),
        ((LOGITS, F.one_hot(LABELS, 4), INDEX), {}, "if they are one-hot"),
        ((LOGITS, LABELS, INDEX[:2]), {}, r"index must be \(batch,\)"),
        ((LOGITS, LABELS, None), {}, "needs the index"),
        ((LOGITS, LABELS, [0, 1, 2]), {}, "index must be a tensor of integers, got list"),
        ((LOGITS, LABELS, INDEX), {"loss": torch.tensor(0.3)}, r'loss must hold a float .* reduction="none"'),
        ((LOGITS, LABELS, INDEX), {"loss": INDEX}, "got torch.int64"),
        (
            (LOGITS, LABELS, INDEX),
            {"confidence": torch.rand(2)},
            "confidence must hold a float for each of 3",
        ),
        ((LOGITS, LABELS, INDEX), {"confidence": 0.5}, "confidence must be a tensor, got float"),
        ((LOGITS, LABELS, INDEX), {"confidence": ICELoss(49)}, "has 50 examples, but the loss 49"),
    ],
)
def test_wrong_input_is_told_at_once(tmp_path, given, named, message):
    with FlightRecorder(tmp_path, EXAMPLES) as recorder:
        with pytest.raises(InputError, match=message):
            recorder.log(*given, **named)
        assert recorder.step == 0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("wrong", [50, -1, 2**40])
def test_an_index_that_is_no_row_is_told_at_once(tmp_path, wrong):
    with (
        FlightRecorder(tmp_path, EXAMPLES) as recorder,
        pytest.raises(IndexRangeError, match=f"index {wrong} is"),
    ):
        recorder.log(LOGITS, LABELS, torch.tensor([0, wrong, 1]))


def test_a_confidence_out_of_range_is_told_when_it_is_written(tmp_path):
    recorder = FlightRecorder(tmp_path, EXAMPLES)
    recorder.log(LOGITS, LABELS, INDEX, confidence=torch.tensor([0.0, 1.5, 1.0]))
    with pytest.raises(InputError, match=r"got 1.5 \(index 1, recorded in step 0\)"):
        recorder.close()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"examples": 0}, "examples must be a whole number of at least 1, got 0"),
        ({"examples": [1, 2]}, "examples must be a whole number"),
        ({"examples": 2**31}, r"examples must be below 2\^31"),
        ({"examples": 5, "buffer": 0}, "buffer must be a whole number of at least 1"),
        ({"examples": 5, "resume_at": -1}, "resume_at must be a whole number of at least 0"),
    ],
)
def test_wrong_settings_are_told(tmp_path, settings, message):
    with pytest.raises(InputError, match=message):
        FlightRecorder(tmp_path / "new", **settings)
    assert not (tmp_path / "new").exists()


class TestFolders:
    def test_one_that_holds_something_else_is_left_alone(self, tmp_path):
        (tmp_path / "thesis.tex").write_text("years of work")
        with pytest.raises(InputError, match=r"is not the folder of a recording, it holds thesis\.tex"):
            FlightRecorder(tmp_path, EXAMPLES, resume_at=0)
        assert os.listdir(tmp_path) == ["thesis.tex"]

    def test_a_file_is_no_folder(self, tmp_path):
        (tmp_path / "file").write_text("")
        for place in (tmp_path / "file", tmp_path / "file" / "below"):
            with pytest.raises(InputError, match="cannot be a folder for a recording"):
                FlightRecorder(place, EXAMPLES)

    def test_one_with_a_recording_is_not_added_to_unasked(self, tmp_path):
        record(tmp_path)
        with pytest.raises(InputError, match=r"holds a recording of 12 steps; .* resume_at=12 to go on"):
            FlightRecorder(tmp_path, EXAMPLES)

    def test_leftovers_of_a_killed_process_do_not_disturb(self, tmp_path):
        (tmp_path / ".rank0000-step000000000.parquet.123.part").write_bytes(b"PAR1")
        assert len(record(tmp_path)) == 150
        assert [path.name for path in tmp_path.iterdir()] == ["rank0000-step000000000.parquet"]
