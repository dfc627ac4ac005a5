"""read_dynamics: what it says of each example, from folders that are sound and from others."""

import shutil

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from icelens import FlightRecorder, read_dynamics
from icelens.dynamics import history, stream
from icelens.dynamics.statistics import Statistics
from icelens.errors import FileError, InputError, MissingFileError

COLUMNS = ["index", "label", "guess", "visits", "aum", "p_label", "variability", "correctness", "forgotten",
           "loss", "confidence"]  # fmt: skip


def record(folder, guesses, *, labels=None, examples=None, confidence=None):
    """A recording of these guesses, (epochs, examples), each 2 above the other classes; −1 is no visit."""
    guesses = np.array(guesses)
    labels = torch.zeros(guesses.shape, dtype=torch.int64) if labels is None else torch.tensor(labels)
    with FlightRecorder(folder, examples or guesses.shape[1]) as recorder:
        for epoch, row in enumerate(guesses):
            index = torch.tensor(np.flatnonzero(row >= 0))
            logits = 2 * torch.nn.functional.one_hot(torch.tensor(row[row >= 0]), 3).float()
            given = None if confidence is None else torch.tensor(confidence[epoch])[index]
            recorder.epoch(epoch)
            recorder.log(logits, labels[epoch, index], index, confidence=given)
    return folder


def test_statistics_of_a_recording_that_can_be_followed_by_hand(tmp_path):
    folder = record(tmp_path / "a", [[0, 1, 0, -1], [0, 1, 1, -1], [0, 1, 0, -1], [0, 0, 1, -1]])
    found = read_dynamics(folder)
    table = found.examples
    assert list(table.columns) == COLUMNS
    assert table["index"].tolist() == [0, 1, 2, 3]
    assert table["aum"].tolist()[:3] == pytest.approx([2, (-2 * 3 + 2) / 4, 0])
    assert table["correctness"].tolist()[:3] == [1, 0.25, 0.5]
    assert table["forgotten"].tolist() == [0, 0, 2, 0]
    assert table["visits"].tolist() == [4, 4, 4, 0]
    assert table["guess"].tolist() == [0, 0, 1, -1]
    right, wrong = np.exp(2) / (np.exp(2) + 2), 1 / (np.exp(2) + 2)
    assert table["p_label"].tolist()[:3] == pytest.approx(
        [right, (3 * wrong + right) / 4, (wrong + right) / 2]
    )
    assert table["variability"].tolist()[2] == pytest.approx((right - wrong) / 2, rel=1e-6)
    assert table["variability"].tolist()[0] == pytest.approx(0, abs=1e-7)
    assert table.loc[3, ["aum", "p_label", "variability", "correctness", "loss", "confidence"]].isna().all()
    assert (found.rows, found.epochs, found.relabelled, found.skipped) == (12, range(4), 0, 0)


def test_the_most_suspicious_are_the_lowest_that_were_visited(tmp_path):
    found = read_dynamics(record(tmp_path / "a", [[0, 1, 0, -1], [0, 1, 1, -1]]))
    assert found.suspects(2)["index"].tolist() == [1, 2]
    assert found.suspects()["index"].tolist() == [1, 2, 0]
    assert found.suspects(1, by="correctness")["index"].tolist() == [1]
    with pytest.raises(InputError, match="unknown score 'auc'; did you mean 'aum'"):
        found.suspects(by="auc")
    with pytest.raises(InputError, match=r"no confidence was recorded; hand it to log\(\)"):
        found.suspects(by="confidence")


def test_until_leaves_later_epochs_out(tmp_path):
    early = [[0, 1, 0], [0, 1, 1]]
    folder = record(
        tmp_path / "a", [*early, [1, 1, 1], [2, 0, 1]], confidence=np.full((4, 3), 0.5, np.float32)
    )
    found, expected = read_dynamics(folder, until=2), read_dynamics(record(tmp_path / "b", early))
    pd.testing.assert_frame_equal(
        found.examples.drop(columns="confidence"), expected.examples.drop(columns="confidence")
    )
    assert (found.rows, found.epochs, found.snapshots.tolist()) == (6, range(2), [0, 1])
    with pytest.raises(InputError, match="until must be above 0"):
        read_dynamics(folder, until=0)


def test_the_table_comes_back_from_its_file(tmp_path):
    found = read_dynamics(record(tmp_path / "a", [[0, 1, 0, -1]]))
    found.to_parquet(tmp_path / "out" / "dynamics.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out" / "dynamics.parquet"), found.examples)


def test_examples_with_more_than_one_label_are_counted(tmp_path):
    labels = [[0, 0, 1], [0, 1, 1], [0, 0, 1]]
    assert read_dynamics(record(tmp_path / "a", np.zeros((3, 3), int), labels=labels)).relabelled == 1


def test_rows_that_are_not_finite_count_for_nothing(tmp_path):
    with FlightRecorder(tmp_path, 2) as recorder:
        for value in (1.0, float("nan"), 3.0):
            recorder.log(torch.tensor([[value, 0.0], [0.0, 1.0]]), torch.tensor([0, 0]), torch.arange(2))
    found = read_dynamics(tmp_path)
    assert found.skipped == 1
    assert found.examples["visits"].tolist() == [2, 3]
    assert found.examples["aum"].tolist() == pytest.approx([2, -1])


class TestHistory:
    def test_a_confidence_stays_until_the_next_visit(self, tmp_path):
        values = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6], [0.7, 0.8, 0.9]], np.float32)
        found = read_dynamics(record(tmp_path, [[0, 0, -1], [0, -1, 0], [-1, 0, 0]], confidence=values))
        assert found.sample.tolist() == [0, 1]  # the third has none at the first snapshot
        np.testing.assert_array_equal(found.history, np.float32([[0.1, 0.2], [0.4, 0.2], [0.4, 0.8]]))
        np.testing.assert_array_equal(found.examples["confidence"], np.float32([0.4, 0.8, 0.9]))

    def test_many_epochs_and_examples_are_sampled_and_the_last_epoch_is_there(self, tmp_path, monkeypatch):
        monkeypatch.setattr(history, "SNAPSHOTS", 3)
        monkeypatch.setattr(history, "SAMPLE", 5)
        values = np.linspace(0, 1, 77).reshape(7, 11).astype(np.float32)
        found = read_dynamics(record(tmp_path, np.zeros((7, 11), int), confidence=values))
        assert found.snapshots.tolist() == [0, 3, 6]
        assert len(found.sample) == 5
        np.testing.assert_array_equal(found.history, values[[0, 3, 6]][:, found.sample])

    def test_without_confidences_it_is_empty(self, tmp_path):
        assert read_dynamics(record(tmp_path, [[0, 1]])).history.size == 0


def test_few_rows_are_in_memory_at_a_time(tmp_path, monkeypatch):
    with FlightRecorder(tmp_path, 4000) as recorder:
        for _ in range(3):
            for index in torch.randperm(4000).split(500):
                recorder.log(torch.randn(500, 3), index % 3, index)
    whole, most, plain = read_dynamics(tmp_path), [], Statistics.add
    monkeypatch.setattr(stream, "AT_ONCE", 1024)
    monkeypatch.setattr(
        Statistics, "add", lambda self, rows: most.append(len(rows["step"])) or plain(self, rows)
    )
    pd.testing.assert_frame_equal(read_dynamics(tmp_path).examples, whole.examples)
    assert sum(most) == 12_000
    assert max(most) <= 1024


class TestHostileFolders:
    @pytest.fixture
    def folder(self, tmp_path):
        return record(tmp_path / "flight", [[0, 1, 0], [0, 1, 1]])

    @staticmethod
    def part(folder):
        return folder / "rank0000-step000000000.parquet"

    def refused(self, folder, error, message):
        with pytest.raises(error, match=message):
            read_dynamics(folder)

    def test_nothing_there(self, tmp_path):
        self.refused(tmp_path / "absent", MissingFileError, "absent: no such folder")
        self.refused(tmp_path, MissingFileError, "holds no rows of a recording yet")

    def test_a_file(self, tmp_path):
        (tmp_path / "file").write_text("")
        self.refused(tmp_path / "file", InputError, "is a file; a recording is a folder")

    def test_something_else(self, folder):
        (folder / "notes.txt").write_text("")
        self.refused(folder, InputError, r"is not the folder of a recording, it holds notes\.txt")

    @pytest.mark.parametrize("kept", [0, 4, 100, -1])
    def test_a_part_that_is_cut_off(self, folder, kept):
        content = self.part(folder).read_bytes()
        self.part(folder).write_bytes(content[:kept])
        self.refused(folder, FileError, r"step000000000\.parquet: not a readable Parquet file")

    def test_a_part_that_is_damaged_within(self, folder):
        content = bytearray(self.part(folder).read_bytes())
        content[8:200] = b"\xff" * 192
        self.part(folder).write_bytes(content)
        self.refused(folder, FileError, "not a readable Parquet file")

    def test_the_table_of_another_tool(self, folder):
        pd.DataFrame({"text": ["a"], "label": [0]}).to_parquet(self.part(folder))
        self.refused(folder, FileError, "not a part of a recording; columns are text, label")

    @pytest.mark.parametrize(
        "said",
        [
            None,
            b"{",
            b"[]",
            b'{"rank": 0, "steps": [0, 2], "epochs": [0, 2]}',
            b'{"rank": 0, "steps": [0, 2], "epochs": [0, 2], "examples": "many"}',
            b'{"rank": 0, "steps": [0, 2], "epochs": [0, 2], "examples": 99999999999}',
        ],
    )
    def test_a_header_that_does_not_say_whose_it_is(self, folder, said):
        table = pq.read_table(self.part(folder))
        header = None if said is None else {b"icelens.dynamics": said}
        pq.write_table(table.replace_schema_metadata(header), self.part(folder))
        self.refused(folder, FileError, "its header does not say whose it is")

    @pytest.mark.parametrize(
        ("index", "message"), [([0, 1, 7], "an index beyond 2"), ([0, None, 1], "'index' has gaps")]
    )
    def test_rows_that_cannot_be(self, folder, index, message):
        table = pq.read_table(self.part(folder)).slice(0, 3)
        table = table.set_column(2, table.schema.field("index"), pa.array(index, pa.int32()))
        pq.write_table(table, self.part(folder))
        self.refused(folder, FileError, f"damaged, .*{message}")

    def test_parts_of_two_runs(self, folder, tmp_path):
        shutil.copy(self.part(folder), folder / "rank0000-step000000001.parquet")
        self.refused(folder, FileError, "has steps that rank0000-step000000000.parquet has too")
        (folder / "rank0000-step000000001.parquet").unlink()
        record(tmp_path / "more", [[0, 1]])
        table = pq.read_table(self.part(tmp_path / "more"))
        said = table.schema.metadata[b"icelens.dynamics"].replace(b'"rank": 0', b'"rank": 1')
        pq.write_table(
            table.replace_schema_metadata({b"icelens.dynamics": said}),
            folder / "rank0001-step000000000.parquet",
        )
        self.refused(
            folder, FileError, "of a data set of 2 examples, .* of one of 3; they are not of one run"
        )
