"""A run that was killed and goes on, alone or with other ranks, records each step once."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from recorder_batches import EPOCHS, EXAMPLES, STEPS, given

from icelens import FlightRecorder, read_dynamics
from icelens.dynamics import parts
from icelens.errors import FileError, InputError, TrainingError

LINUX = sys.platform == "linux"


def as_rank(monkeypatch, rank, ranks):
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("WORLD_SIZE", str(ranks))


def run(folder, start=0, stop=STEPS, *, share=lambda tensor: tensor, **settings):
    """Record the steps from `start` to `stop`."""
    with FlightRecorder(folder, EXAMPLES, resume_at=start, **settings) as recorder:
        for step in range(start, stop):
            recorder.log(*(share(tensor) for tensor in given(step)))


def as_ranks(folder, monkeypatch, ranks, start=0, stop=STEPS):
    """The same by several ranks, each with every second, third, … row of the same global batches."""
    for rank in range(ranks):
        as_rank(monkeypatch, rank, ranks)
        run(folder, start, stop, share=lambda tensor, rank=rank: tensor[rank::ranks], buffer=40)


def rows(folder):
    return pd.read_parquet(folder).sort_values(["step", "index"]).reset_index(drop=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What one process records that nobody interrupts."""
    folder = tmp_path_factory.mktemp("whole")
    run(folder)
    return rows(folder)


@pytest.mark.parametrize("killed_at", [3, 8, 17, 31])
@pytest.mark.parametrize("buffer", [10, 10_000])
def test_it_goes_on_from_an_earlier_checkpoint(tmp_path, whole, killed_at, buffer):
    run(tmp_path, 0, killed_at, buffer=buffer)
    checkpoint = killed_at // 5 * 5
    run(tmp_path, checkpoint, buffer=buffer)
    pd.testing.assert_frame_equal(rows(tmp_path), whole)


def test_it_goes_on_where_it_ended_and_starts_anew(tmp_path, whole):
    run(tmp_path, 0, 13)
    run(tmp_path, 13)
    pd.testing.assert_frame_equal(rows(tmp_path), whole)
    run(tmp_path, 0)
    pd.testing.assert_frame_equal(rows(tmp_path), whole)


KILLED = """
import os, signal, sys
from datetime import timedelta
sys.path.insert(0, sys.argv[1])
import torch.distributed as dist
from recorder_batches import EXAMPLES, given
from icelens import FlightRecorder

folder, rank = sys.argv[2], int(sys.argv[3])
dist.init_process_group("gloo", f"file://{folder}-store", timedelta(seconds=60), 2, rank)
recorder = FlightRecorder(folder, EXAMPLES, buffer=20)
for step in range(22):
    recorder.log(*(tensor[rank::2] for tensor in given(step)))
    if step % 5 == 4:
        print(recorder.flush(), flush=True)
        dist.barrier()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_two_ranks_that_are_killed_go_on_from_their_checkpoint(tmp_path, monkeypatch, whole):
    here, folder = os.path.dirname(__file__), tmp_path / "flight"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"} | ({"GLOO_SOCKET_IFNAME": "lo"} if LINUX else {})
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment}
    commands = [[sys.executable, "-c", KILLED, here, str(folder), str(rank)] for rank in range(2)]
    processes = [subprocess.Popen(command, **pipes) for command in commands]
    for process in processes:
        said, wrong = process.communicate()
        assert process.returncode == -signal.SIGKILL, wrong
        assert said.split() == ["5", "10", "15", "20"]
    found = rows(folder)
    assert {path.name[:8] for path in folder.iterdir() if path.name[0] != "."} == {"rank0000", "rank0001"}
    assert found["step"].max() >= 19
    (folder / ".rank0001-step000000099.parquet.1.part").write_bytes(b"PAR1 cut off")
    as_ranks(folder, monkeypatch, 2, start=15)
    pd.testing.assert_frame_equal(rows(folder).drop(columns="epoch"), whole.drop(columns="epoch"))
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_epochs_go_on_within_one(tmp_path):
    run(tmp_path, 0, 12)
    with FlightRecorder(tmp_path, EXAMPLES, resume_at=10) as recorder:
        recorder.log(*given(10))
        recorder.epoch()
        recorder.log(*given(11))
    assert rows(tmp_path).groupby("step")["epoch"].first().tolist() == [0] * 8 + [1] * 3 + [2]


def test_rows_that_were_not_written_before_a_kill_are_told(tmp_path):
    run(tmp_path, 0, 6)
    with pytest.warns(UserWarning, match="rows of the steps 6 to 9 are missing"):
        run(tmp_path, 10, 12)
    assert sorted(rows(tmp_path)["step"].unique()) == [*range(6), 10, 11]


def test_another_data_set_is_refused(tmp_path):
    run(tmp_path, 0, 6)
    with pytest.raises(InputError, match="holds a recording of 60 examples, not 61"):
        FlightRecorder(tmp_path, 61, resume_at=3)
    assert rows(tmp_path)["step"].max() == 5


class TestRanks:
    @pytest.mark.parametrize("ranks", [2, 3])
    def test_reading_merges_them_to_what_one_process_gives(self, tmp_path, monkeypatch, whole, ranks):
        as_ranks(tmp_path / "many", monkeypatch, ranks)
        found = rows(tmp_path / "many")
        pd.testing.assert_frame_equal(found.drop(columns="epoch"), whole.drop(columns="epoch"))
        as_rank(monkeypatch, 0, 1)
        run(tmp_path / "one")
        one, many = read_dynamics(tmp_path / "one"), read_dynamics(tmp_path / "many")
        pd.testing.assert_frame_equal(many.examples, one.examples)
        assert one.examples["forgotten"].sum() > 0

    def test_fewer_ranks_go_on_after_a_kill(self, tmp_path, monkeypatch, whole):
        as_ranks(tmp_path, monkeypatch, 3, 0, 20)
        as_ranks(tmp_path, monkeypatch, 2, 11)
        found = rows(tmp_path)
        pd.testing.assert_frame_equal(found.drop(columns="epoch"), whole.drop(columns="epoch"))

    def test_more_ranks_go_on_after_a_kill(self, tmp_path, monkeypatch, whole):
        as_ranks(tmp_path, monkeypatch, 1, 0, 20)
        as_ranks(tmp_path, monkeypatch, 2, 11)
        found = rows(tmp_path)
        pd.testing.assert_frame_equal(found.drop(columns="epoch"), whole.drop(columns="epoch"))

    @pytest.mark.parametrize("told", [False, True])
    @pytest.mark.parametrize("counts", [(1, 2), (2, 1, 2), (3, 1, 2), (2, 3)])
    def test_epochs_go_on_whatever_the_number_of_ranks(self, tmp_path, monkeypatch, counts, told):
        at = 0
        for done, ranks in enumerate(counts, 1):
            for rank in range(ranks):
                as_rank(monkeypatch, rank, ranks)
                with FlightRecorder(tmp_path, 12, resume_at=at) as recorder:
                    for _ in range(2):
                        if told:
                            recorder.epoch()
                        for index in torch.arange(12).chunk(ranks)[-1 - rank].split(2):
                            recorder.log(torch.eye(2)[index % 2], index % 2, index)
            at = recorder.step
            visits = rows(tmp_path).groupby(["epoch", "index"]).size()
            assert len(visits) == 2 * done * 12
            assert (visits == 1).all()

    @pytest.mark.parametrize("said", [True, False])
    @pytest.mark.parametrize("buffer", [2, 100])
    def test_epochs_go_on_in_the_midst_of_one(self, tmp_path, monkeypatch, said, buffer):
        for ranks, start, stop in [(1, 0, 6), (2, 5, 9), (2, 8, 12), (1, 10, 13), (3, 13, 17)]:
            for rank in reversed(range(ranks)):  # a rank that joins finds the others' files as they were
                as_rank(monkeypatch, rank, ranks)
                with FlightRecorder(tmp_path, 12, resume_at=start, buffer=buffer) as recorder:
                    for step in range(start, stop):  # three steps an epoch
                        index = torch.arange(12)[step % 3 :: 3][rank::ranks]
                        recorder.log(torch.eye(2)[index % 2], index % 2, index)
            if not said:
                forget_how_many_ranks_there_were(tmp_path)
        found = rows(tmp_path)
        assert len(found) == 17 * 4
        assert (found["epoch"] == found["step"] // 3).all()

    def test_rows_that_one_rank_lost_are_told_though_the_other_has_its_own(self, tmp_path, monkeypatch):
        for rank, written in ((0, 10), (1, 6)):
            as_rank(monkeypatch, rank, 2)
            run(tmp_path, 0, written, share=lambda tensor, rank=rank: tensor[rank::2])
        with pytest.warns(UserWarning, match="rows of the steps 6 to 9 are missing"):
            FlightRecorder(tmp_path, EXAMPLES, resume_at=10)
        as_rank(monkeypatch, 0, 2)
        FlightRecorder(tmp_path, EXAMPLES, resume_at=10)

    def test_a_file_that_another_rank_removes_meanwhile_is_passed_over(self, tmp_path, monkeypatch):
        as_ranks(tmp_path, monkeypatch, 1, 0, 9)
        names, gone = parts._names, "rank0002-step000000000.parquet"
        monkeypatch.setattr(
            parts, "_names", lambda folder: [*names(folder), (folder / gone, parts.NAME.fullmatch(gone))]
        )
        as_rank(monkeypatch, 1, 2)
        run(tmp_path, 9, 10)
        assert rows_of(tmp_path, "rank0001")["epoch"].tolist() == [1] * 8
        vanished, *_ = parts.parts_before(tmp_path, 9)
        vanished.path.unlink()
        assert list(parts.rows_before(vanished, 9, ["epoch"])) == []
        (tmp_path / gone).write_bytes(b"PAR1")
        with pytest.raises(FileError, match=f"{gone}: not a readable Parquet file"):
            FlightRecorder(tmp_path, EXAMPLES, resume_at=9)

    def test_a_rank_that_joins_with_another_data_set_is_refused(self, tmp_path, monkeypatch):
        as_ranks(tmp_path, monkeypatch, 1, 0, 9)
        as_rank(monkeypatch, 1, 2)
        with pytest.raises(InputError, match="holds a recording of 60 examples, not 50"):
            FlightRecorder(tmp_path, 50, resume_at=9)

    def test_a_rank_that_joins_in_a_folder_of_its_own_machine_misses_nothing(self, tmp_path, monkeypatch):
        as_rank(monkeypatch, 1, 2)
        run(tmp_path, 9, 10)
        assert rows(tmp_path)["epoch"].unique() == [0]

    def test_a_rank_leaves_the_files_of_others_alone(self, tmp_path, monkeypatch):
        as_ranks(tmp_path, monkeypatch, 2, 0, 9)
        as_rank(monkeypatch, 1, 2)
        run(tmp_path, 4, 5)
        names = [path.name[:8] for path in sorted(tmp_path.iterdir())]
        assert names.count("rank0000") > 0
        steps = {name: rows_of(tmp_path, name)["step"].max() for name in set(names)}
        assert steps == {"rank0000": 8, "rank0001": 4}

    def test_a_recorder_that_was_made_before_the_ranks_were_known_says_so(self, tmp_path, monkeypatch):
        recorder = FlightRecorder(tmp_path, EXAMPLES)
        as_rank(monkeypatch, 1, 2)
        with pytest.raises(TrainingError, match="made before init_process_group"):
            recorder.log(*given(0))


def forget_how_many_ranks_there_were(folder):
    """As in parts that do not say."""
    for path in folder.iterdir():
        table = pq.read_table(path)
        said = json.loads(table.schema.metadata[parts.HEADER])
        said.pop("ranks", None)
        pq.write_table(table.replace_schema_metadata({parts.HEADER: json.dumps(said)}), path)


def rows_of(folder, rank):
    return pd.concat([pd.read_parquet(path) for path in sorted(folder.glob(f"{rank}-*"))])


def test_the_batches_of_these_tests_are_epochs():
    for epoch in range(EPOCHS):
        index = torch.cat([given(step)[2] for step in range(8 * epoch, 8 * epoch + 8)])
        np.testing.assert_array_equal(index.sort()[0], np.arange(EXAMPLES))
