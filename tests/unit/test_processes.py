"""Work in other processes: its results, and Ctrl-C, as a terminal sends it and as `kill` does."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from icelens.processes import process_pool

JOBS = """
import pathlib, signal, sys, time
from icelens.processes import process_pool

def work(folder, number):
    mark = pathlib.Path(folder) / f"job{number}"
    try:
        mark.touch()
        time.sleep(60)
    except KeyboardInterrupt:
        tidying = mark.rename(mark.with_suffix(".tidying"))
        time.sleep(1)
        tidying.rename(mark.with_suffix(".tidied"))
        raise

if __name__ == "__main__":
    # A shell that starts pytest in the background lets its children ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with process_pool(2) as submit:
            jobs = [submit(work, sys.argv[1], number) for number in range(6)]
            if sys.argv[2:] == ["fail"]:
                while len(list(pathlib.Path(sys.argv[1]).iterdir())) < 2:
                    time.sleep(0.02)
                raise ValueError
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


def jobs_that_run(folder, *words):
    """A program of its own, with two jobs begun that only Ctrl-C ends; with "fail" it does, beside them."""
    (folder / "jobs.py").write_text(JOBS)
    (folder / "out").mkdir()
    process = subprocess.Popen(
        [sys.executable, folder / "jobs.py", folder / "out", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_for_two(folder / "out", "job*")
    return process


def wait_for_two(folder, names):
    until = time.monotonic() + 30
    while len(list(folder.glob(names))) < 2 and time.monotonic() < until:
        time.sleep(0.02)


def check_end(process, folder):
    try:
        out, err = process.communicate(timeout=30)
    finally:
        with suppress(ProcessLookupError):  # what hangs would outlive the tests
            os.killpg(process.pid, signal.SIGKILL)
    assert (process.returncode, out, err) == (130, "told once\n", "")
    assert sorted(path.name for path in folder.iterdir()) == ["job0.tidied", "job1.tidied"]


@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["one process", "all processes"])
def test_ctrl_c_ends_all_jobs_and_lets_them_tidy_up(send, tmp_path):
    process = jobs_that_run(tmp_path)
    send(process.pid, signal.SIGINT)
    check_end(process, tmp_path / "out")


def test_ctrl_c_again_does_not_break_into_the_wait_for_what_tidies_up(tmp_path):
    process = jobs_that_run(tmp_path)
    os.killpg(process.pid, signal.SIGINT)
    wait_for_two(tmp_path / "out", "*.tidying")
    for _ in range(3):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.1)
    check_end(process, tmp_path / "out")


def test_ctrl_c_ends_the_jobs_that_an_error_waits_for(tmp_path):
    process = jobs_that_run(tmp_path, "fail")
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)
    check_end(process, tmp_path / "out")


def test_after_an_error_jobs_that_run_are_through_and_others_not_begun():
    def fail(submit):
        jobs.extend(submit(time.sleep, 0.2) for _ in range(20))
        jobs[0].result()
        raise ZeroDivisionError

    jobs = []
    with pytest.raises(ZeroDivisionError), process_pool(1) as submit:
        fail(submit)
    assert all(job.done() for job in jobs)
    assert sum(job.cancelled() for job in jobs) > 10
