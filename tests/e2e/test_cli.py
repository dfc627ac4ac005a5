"""The command line as people run it: a subprocess, its exit code and what it prints."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer.core

from icelens.cli import main

HELP_ALONE = """
import sys
sys.argv = ["icelens", "--help"]
import icelens.cli
try:
    icelens.cli.app()
except SystemExit:
    pass
assert not {"torch", "numpy", "rich"} & sys.modules.keys()
"""


def icelens(*words, cwd=None):
    command = [sys.executable, "-m", "icelens", *words]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=cwd, env=one_thread)


# Each line of standard input is an exit code and a command that leaves with it, and none of them loads torch.
WITHOUT_TORCH = """
import sys
from icelens.cli import main
for line in sys.stdin:
    code, *words = line.split()
    sys.argv = ["icelens", *words]
    try:
        main()
    except SystemExit as left:
        assert left.code == int(code), line
    assert "torch" not in sys.modules, line
"""


COMMANDS = {
    ("audit", "x.csv"): "the same command goes on from its last finished run",
    ("train",): "the same command goes on from its last checkpoint",
    ("demo",): "the same command goes on from its last checkpoint",
    ("reproduce", "run", "table1"): "the same command does what is missing",
    ("data", "get", "mnist"): "the same command goes on where it was",
    ("retrain", "x-audit"): "nothing was written",
    ("apply", "x-audit", "--out", "y.csv"): "nothing was written",
    ("export", "x-audit", "--to", "csv", "--out", "y.csv"): "nothing was written",
    ("import", "x-audit", "y.csv"): "nothing was written",
    ("review", "x-audit"): "nothing was written",
}


@pytest.fixture
def ctrl_c():
    """Has its meaning back after the test: a command that was interrupted gives it up."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_an_interrupted_command_says_so_in_a_line(words, monkeypatch, command):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(typer.core.TyperCommand, "invoke", interrupted)
    code, _, err = command(*words)
    assert (code, err) == (130, f"icelens: interrupted; {COMMANDS[words]}\n")


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize(("words", "run"), [(("train",), "run"), (("demo",), "icelens-demo/seed-1000/ice")])
def test_ctrl_c_tells_of_a_checkpoint_where_there_is_one(words, run, monkeypatch, tmp_path, command):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("icelens.train.run_recipe", interrupted)
    monkeypatch.setattr("icelens.demo.run_recipe", interrupted)
    again = "there is no checkpoint yet, the same command starts again"
    assert command(*words)[::2] == (130, f"icelens: interrupted; {again}\n")
    Path(run).mkdir(parents=True)
    Path(run, "checkpoint.safetensors").touch()
    on = "the same command goes on from its last checkpoint"
    assert command(*words)[::2] == (130, f"icelens: interrupted; {on}\n")


def test_ctrl_c_ends_training_and_leaves_nothing_half_written(tmp_path):
    # A shell that starts pytest in the background lets its children ignore Ctrl-C.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    code += "from icelens.cli import main; main()"
    command = [sys.executable, "-c", code, "train", "epochs=100000"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, start_new_session=True, **pipes)
    while process.poll() is None and not (tmp_path / "run/recipe.json").exists():
        time.sleep(0.01)
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err == "icelens: interrupted; there is no checkpoint yet, the same command starts again\n"
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["recipe.json"]


AGAIN_AT_THE_END = """
import atexit, os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
atexit.register(os.kill, os.getpid(), signal.SIGINT)
from icelens.cli import launch, main
launch.speaks = lambda: os.kill(os.getpid(), signal.SIGINT)
main()
"""


def test_ctrl_c_again_after_the_end_was_told_adds_no_traceback():
    command = [sys.executable, "-c", AGAIN_AT_THE_END, "data", "ls"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.stderr == "icelens: interrupted; the same command goes on where it was\n"
    assert answer.returncode == -signal.SIGINT  # which a shell gives as 130


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "ascii"])
def test_what_standard_output_has_no_character_for_does_not_end_the_command(encoding):
    code = "from icelens import cli; cli.app = lambda: print('given → guess'); cli.main()"
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment
    )
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "given ? guess\n", "")


def test_help_answers_at_once_and_without_torch():
    subprocess.run([sys.executable, "-c", HELP_ALONE], check=True, capture_output=True)
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        answer = icelens("--help")
        taken.append(time.perf_counter() - start)
        assert "demo" in answer.stdout
    assert min(taken) < 0.5


def test_misuse_is_told_without_waiting_for_torch(tmp_path):
    wrong = {
        "train noise_rate=1.2": "noise_rate must lie in [0, 1), got 1.2",
        "train absent.toml": "absent.toml: no such recipe",
        "data get mnst": "unknown data set 'mnst'; did you mean 'mnist'?",
        "audit absent.csv": "absent.csv: no such file or folder",
        "review nowhere": "nowhere: no such folder; run icelens audit first",
        "apply nowhere --out x.csv": "nowhere: no such folder; run icelens audit first",
        "retrain nowhere": "nowhere: no such folder; run icelens audit first",
        "import nowhere absent.csv": "absent.csv: no such file",
        "export nowhere --to excel --out x": "unknown target 'excel'",
        "dynamics nowhere": "nowhere: no such folder",
        "reproduce run table1-mnits": "unknown experiment 'table1-mnits'; did you mean 'table1-mnist'?",
        "reproduce run table2-cola": "CoLA needs an encoder",
        "reproduce choose table2-cloa --encoder x": "unknown experiment 'table2-cloa'",
        "reproduce show table1": "results: no finished trial of table1",
        "reproduce figures ridgeline": "unknown figure 'ridgeline'; did you mean 'ridgelines'?",
    }
    lines = ["0 data ls", "0 train --show", "0 reproduce ls", *(f"2 {words}" for words in wrong)]
    told = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], input="\n".join(lines), capture_output=True, text=True,
        cwd=tmp_path, check=True,
    ).stderr.splitlines()  # fmt: skip
    for (command, message), line in zip(wrong.items(), told, strict=True):
        assert message in line, command


def test_version():
    assert icelens("--version").stdout.startswith("icelens 0.")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "los=gce"], "unknown setting 'los'; did you mean 'loss'?"),
        (["train", "loss=gcee"], "unknown loss 'gcee'; did you mean 'gce'?"),
        (["train", "loss=ice"], "unknown loss 'ice'; did you mean 'ice_linear'?"),
        (["train", "model=cnnn"], "unknown model 'cnnn'; did you mean 'cnn'?"),
        (["train", "noise=pairs"], "unknown noise 'pairs'; did you mean 'pair'?"),
        (["train", "noise_rate=1.2"], "noise_rate must lie in [0, 1), got 1.2"),
        (["train", "data=mnst"], "unknown data set 'mnst'; did you mean 'mnist'?"),
        (["train", "data=mnist"], "no such file; run `icelens data get mnist --root data`"),
        (["train", "loss_settings.qq=1", "loss=gce"], "unknown setting 'qq'"),
        (["train", "absent.toml"], "absent.toml: no such recipe"),
        (["train", "device=tpu9"], "unknown device 'tpu9'"),
    ],
)
def test_misuse_is_one_line_and_leaves_nothing_behind(words, message, tmp_path, command):
    code, out, err = command(*words)
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert out == ""
    assert list(tmp_path.iterdir()) == []


def test_misuse_is_exit_2_for_the_shell(tmp_path):
    answer = icelens("train", "noise_rate=1.2", cwd=tmp_path)
    assert (answer.returncode, answer.stderr) == (2, "icelens: noise_rate must lie in [0, 1), got 1.2\n")


def test_debug_shows_the_traceback(tmp_path):
    answer = icelens("--debug", "train", "los=gce", cwd=tmp_path)
    assert "Traceback" in answer.stderr
    assert answer.returncode == 2


def test_what_nobody_thought_of_is_one_line_too(monkeypatch, capsys):
    def fail():
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("icelens.cli.app", fail)
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 1
    assert capsys.readouterr().err == (
        "icelens: ZeroDivisionError: division by zero (icelens --debug … shows where)\n"
    )


def test_a_failed_run_is_exit_1(command):
    words = ["train", "loss=cross_entropy", "optimizer=sgd", "learning_rate=1e20", "epochs=1"]
    code, _, err = command(*words)
    assert code == 1
    assert "try a lower learning_rate" in err


def test_train_writes_a_run_and_says_where(tmp_path):
    (tmp_path / "gce.toml").write_text('loss = "gce"\nnoise_rate = 0.2\nepochs = 5\n')
    answer = icelens("train", "gce.toml", "loss_settings.q=0.5", "--out", "runs/gce", cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert "gce on digits: test accuracy" in answer.stdout
    recipe = json.loads((tmp_path / "runs/gce/recipe.json").read_text())
    assert recipe["settings"]["loss_settings"] == {"q": 0.5}
    assert (tmp_path / "runs/gce/examples.parquet").exists()


def test_train_says_how_many_flipped_labels_its_confidences_find(command):
    code, out, _ = command("train", "noise_rate=.2", "epochs=3", "device=cpu")
    assert code == 0
    assert " flipped labels are among as many lowest confidences" in out


def test_train_show_prints_a_recipe_that_says_what_each_setting_means(tmp_path):
    answer = icelens("train", "epochs=3", "loss=gce", "loss_settings.q=0.5", "--show", cwd=tmp_path)
    assert "epochs = 3.0" in answer.stdout
    assert "# Expected share of the training labels to flip" in answer.stdout
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "shown.toml").write_text(answer.stdout)
    again = icelens("train", "shown.toml", "--show", cwd=tmp_path)
    assert again.stdout == answer.stdout
