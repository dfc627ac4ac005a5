"""`icelens train` and `icelens audit` under torchrun: as one process, after kills, and over two nodes."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from sklearn.datasets import load_iris

from icelens.train import Recipe, Run, run_recipe

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
ICELENS = ["-m", "icelens"]
RECIPE = {"noise_rate": 0.3, "evaluations": 8, "precision": "float64", "device": "cpu"}
SETTINGS = [f"{name}={value}" for name, value in RECIPE.items()]
# Ends itself as `kill -9` would, in the last rank, once, past the second checkpoint.
KILLS_ITSELF = """
import os, signal
from icelens.cli import main
from icelens.train import loop

rows = loop.batch_rows

def watched(recipe, task, iteration):
    if os.environ["RANK"] + os.environ["TORCHELASTIC_RESTART_COUNT"] == "10" and iteration == 12:
        os.kill(os.getpid(), signal.SIGKILL)
    return rows(recipe, task, iteration)

loop.batch_rows = watched
main()
"""


def environment(**more):
    # The command stands beside Python, also where the environment is not the shell's.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **more}


def finished(command, folder, **settings):
    return subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, check=False, **settings
    )


def said(answer):
    """What icelens itself said, of all that torchrun did."""
    return [line for line in answer.stderr.splitlines() if line.startswith("icelens:")]


def check(folder, expected):
    found = Run(folder).examples()
    for name in ("confidence", "p_label"):
        assert found[name].to_numpy() == pytest.approx(expected[name].to_numpy(), abs=1e-6)
    assert found["guess"].equals(expected["guess"])


def by_one_process(folder, iterations):
    return run_recipe(Recipe(**RECIPE, iterations=iterations), folder).examples()


@pytest.mark.slow
def test_a_dropped_rank_is_restarted_and_the_run_goes_on(tmp_path):
    (tmp_path / "script.py").write_text(KILLS_ITSELF)
    settings = ["train", *SETTINGS, "iterations=40", "--out", "run"]
    answer = finished([*TORCHRUN, "--max-restarts", "1", "script.py", *settings], tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.count("test accuracy") == 1
    assert len(said(answer)) <= 1  # the other rank may have been ended before it saw that one was lost
    check(tmp_path / "run", by_one_process(tmp_path / "one", 40))
    assert [row["iteration"] for row in Run(tmp_path / "run").metrics()] == list(range(5, 41, 5))


@pytest.mark.slow
def test_all_processes_killed_and_the_same_command_again(tmp_path):
    command = [*TORCHRUN, *ICELENS, "train", *SETTINGS, "iterations=1500", "--out", "run"]
    with started(command, tmp_path) as torchrun:
        wait_for(tmp_path / "run" / "checkpoint.safetensors")
        workers = children(torchrun.pid)
        assert len(workers) == 2
        for pid in (torchrun.pid, *workers):
            os.kill(pid, signal.SIGKILL)
    assert not Run(tmp_path / "run").finished
    answer = finished(command, tmp_path)
    assert answer.returncode == 0, answer.stderr
    check(tmp_path / "run", by_one_process(tmp_path / "one", 1500))


@pytest.mark.slow
@pytest.mark.parametrize("target", [ICELENS, ["--no-python", "icelens"]])
def test_an_error_is_said_once_and_nothing_hangs(target, tmp_path):
    for words, message in {
        ("train", "los=gce"): "icelens: unknown setting 'los'; did you mean 'loss'? (process ",
        ("train", "loss=sop"): "icelens: loss 'sop' would learn another state in each of 2 processes",
        ("audit", "missing.csv"): "icelens: missing.csv: no such file",
        (
            "demo",
        ): "icelens: icelens demo does not share its work between processes; start it without torchrun",
    }.items():
        answer = finished([*TORCHRUN, *target, *words], tmp_path, timeout=120)
        assert answer.returncode == 1
        (line,) = said(answer)
        assert line.startswith(message)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_an_audit_writes_the_files_of_one_process(tmp_path):
    table = load_iris(as_frame=True).frame
    table.loc[:4, "target"] = 2
    table.to_csv(tmp_path / "iris.csv", index=False)
    words = ["audit", "iris.csv", "--label", "target", "--device", "cpu", "--out"]
    one = finished([sys.executable, *ICELENS, *words, "one"], tmp_path)
    two = finished([*TORCHRUN, *ICELENS, *words, "two"], tmp_path)
    assert (one.returncode, two.returncode) == (0, 0), one.stderr + two.stderr
    assert two.stdout == one.stdout.replace("one/", "two/").replace("review one", "review two")
    for path in (tmp_path / "one").iterdir():
        if path.name not in ("audit.json", "report.html"):  # which tell how long it took
            assert (tmp_path / "two" / path.name).read_bytes() == path.read_bytes(), path.name
    told = [json.loads((tmp_path / name / "audit.json").read_text()) for name in ("one", "two")]
    assert {**told[0]["about"], "seconds": 0} == {**told[1]["about"], "seconds": 0}


@pytest.mark.slow
@pytest.mark.parametrize("places", ["two namespaces", "two addresses"])
def test_two_nodes_without_a_shared_folder_and_a_rank_that_is_killed_on_one(places, tmp_path):
    with ExitStack() as stack:
        nodes = stack.enter_context(namespaces() if places == "two namespaces" else addresses())
        agents = [
            stack.enter_context(started_on(node, number, nodes[0]["address"], tmp_path / f"node{number}"))
            for number, node in enumerate(nodes)
        ]
        wait_for(tmp_path / "node0" / "run" / "checkpoint.safetensors")
        os.kill(children(agents[1].pid)[-1], signal.SIGKILL)
        told = [agent.communicate(timeout=240) for agent in agents]
    assert [agent.returncode for agent in agents] == [0, 0], told
    assert [out.count("test accuracy") for out, _ in told] == [1, 0]
    assert not (tmp_path / "node1" / "run").exists()
    check(tmp_path / "node0" / "run", by_one_process(tmp_path / "one", 400))


def started_on(node, number, first, folder):
    """An agent of torchrun on a node, with two workers."""
    endpoint, host = f"{first}:{node['port']}", f"is_host={1 - number}"
    meet = ["--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint, "--rdzv-id", "test",
            "--rdzv-conf", host, "--local-addr", node["address"]]  # fmt: skip
    words = ["train", *SETTINGS, "iterations=400", "--out", "run"]
    folder.mkdir()
    return started(
        [*node["inside"], *TORCHRUN, "--max-restarts", "2", *meet, *ICELENS, *words],
        folder,
        GLOO_SOCKET_IFNAME=node["interface"],
    )


@contextmanager
def namespaces():
    """Two network namespaces with a cable between them, as two machines have."""
    names = [f"icelens{os.getpid()}{side}" for side in "ab"]
    made = []
    try:
        for name in names:
            if not shutil.which("ip") or subprocess.run(["ip", "netns", "add", name], check=False).returncode:
                pytest.skip("network namespaces need Linux, root and iproute2")
            made.append(name)
        ends = [f"ice{os.getpid()}{side}" for side in "ab"]
        ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        nodes = []
        for number, (name, end) in enumerate(zip(names, ends, strict=True), start=1):
            ip("link", "set", end, "netns", name)
            ip("-n", name, "addr", "add", f"10.99.0.{number}/24", "dev", end)
            for device in ("lo", end):
                ip("-n", name, "link", "set", device, "up")
            inside = ["ip", "netns", "exec", name]
            nodes.append({"inside": inside, "address": f"10.99.0.{number}", "interface": end, "port": 29400})
        yield nodes
    finally:
        for name in made:
            ip("netns", "del", name)


def ip(*words):
    subprocess.run(["ip", *words], check=True)


@contextmanager
def addresses():
    """Two addresses of one machine, where there may be no namespaces."""
    port = 20_000 + os.getpid() % 10_000
    yield [{"inside": [], "address": f"127.0.0.{n}", "interface": "lo", "port": port} for n in (1, 2)]


@contextmanager
def started(command, folder, **more):
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        for pid in (process.pid, *children(process.pid)):
            if Path(f"/proc/{pid}").exists():
                os.kill(pid, signal.SIGKILL)
        process.communicate()


def children(pid):
    """The processes that a process started, oldest first."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def wait_for(path, seconds=120):
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not come"
        time.sleep(0.05)
