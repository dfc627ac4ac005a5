"""Work in other processes: its results, and Ctrl-C, as a terminal sends it and as `kill` does."""

import os
import signal
import subprocess
import sys
import time

import pytest

from icelens.processes import process_pool

JOBS = """
import pathlib, signal, sys, time
from icelens.processes import process_pool

def work(folder, number):
    mark = pathlib.Path(folder) / f"job{number}"
    mark.touch()
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        mark.rename(mark.with_suffix(".tidied"))
        raise

if __name__ == "__main__":
    # A shell that starts pytest in the background lets its children ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with process_pool(2) as submit:
            jobs = [submit(work, sys.argv[1], number) for number in range(6)]
            [job.result() for job in jobs]
    except KeyboardInterrupt:
        print("told once")
        sys.exit(130)
"""


def test_jobs_give_their_results_and_errors():
    with process_pool(2) as submit:
        jobs = [submit(divmod, 7, number) for number in (2, 3, 0)]
        assert [job.result() for job in jobs[:2]] == [(3, 1), (2, 1)]
        with pytest.raises(ZeroDivisionError):
            jobs[2].result()


@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["one process", "all processes"])
def test_ctrl_c_ends_all_jobs_and_lets_them_tidy_up(send, tmp_path):
    (tmp_path / "jobs.py").write_text(JOBS)
    (tmp_path / "out").mkdir()
    process = subprocess.Popen(
        [sys.executable, tmp_path / "jobs.py", tmp_path / "out"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until = time.monotonic() + 30
    while len(list((tmp_path / "out").iterdir())) < 2 and time.monotonic() < until:
        time.sleep(0.02)
    send(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "told once\n", "")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["job0.tidied", "job1.tidied"]
