"""`icelens reproduce` as a program: a small experiment from recipe to table."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RECIPE = """# icelens reproduce run digits.toml
# Gives two rows of a table.
title = "digits"
kind = "images"
table = "table1"
trials = 2
methods = ["cross_entropy", "ice_linear"]

[train]
data = "digits"
noise_rate = 0.4
validation = 0.2
model = "mlp"
iterations = 30
"""


def icelens(*words, cwd, code=0):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "icelens", "reproduce", *map(str, words)]
    answer = subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False, env=environment)
    assert answer.returncode == code, answer.stdout + answer.stderr
    return answer.stdout if code == 0 else answer.stderr


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "digits.toml").write_text(RECIPE)
    return tmp_path


def test_run_show_and_run_again(folder, command):
    answer = icelens("run", "digits.toml", "--device", "cpu", "--workers", "2", cwd=folder)
    assert answer == f"digits.toml: 4 trials run; the records are in {Path('results') / 'table1'}\n"
    code, again, err = command("reproduce", "run", "digits.toml", "--device", "cpu")
    assert code == 0, err
    assert "0 trials run" in again
    records = [json.loads(path.read_text()) for path in (folder / "results/table1").iterdir()]
    assert {(r["data"], r["method"], r["seed"]) for r in records} == {
        ("digits", method, seed) for method in ("cross_entropy", "ice_linear") for seed in (0, 1)
    }
    code, shown, err = command("reproduce", "show", "digits.toml")
    assert code == 0, err
    mean = sum(r["accuracy"] for r in records if r["method"] == "ice_linear") / 2
    assert f"{100 * mean:.2f}" in shown
    assert "n = 2" in shown


def test_the_list_counts_what_is_finished(folder):
    done = folder / "results/table1/mnist-gce-0.json"
    done.parent.mkdir(parents=True)
    done.write_text("{}")
    lines = icelens("ls", cwd=folder).splitlines()
    assert any(
        line.split()[0] == "table1-mnist" and line.endswith("1 of 80") for line in map(str.rstrip, lines)
    )
    assert sum(line.startswith("table2-") for line in lines) == 8


def test_a_recipe_can_be_copied_but_not_over_another(folder):
    answer = icelens("cp", "table1-mnist", cwd=folder)
    assert "icelens reproduce run table1-mnist.toml" in answer
    copy = folder / "table1-mnist.toml"
    assert copy.read_text().startswith("# icelens reproduce run table1-mnist\n")
    assert "is there already" in icelens("cp", "table1-mnist", cwd=folder, code=2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "table1-mnits"], "unknown experiment 'table1-mnits'; did you mean 'table1-mnist'?"),
        (["run", "none.toml"], "none.toml: no such recipe"),
        (["run", "table2-cola"], "CoLA needs an encoder: a folder, or its name on the hub (--encoder)"),
        (["show", "table1"], "no finished trial of table1"),
        (["show", "tabel1"], "unknown experiment 'tabel1'; did you mean 'table1'?"),
        (["cp", "table1-mnist", "figs"], "figs: a recipe is run from a file named .toml; give figs.toml"),
        (
            ["choose", "table2-cola", "--encoder", "x", "--held-out", "0"],
            "held_out must lie in (0, 1), got 0.0",
        ),
        (["figures", "ridgeline"], "unknown figure 'ridgeline'; did you mean 'ridgelines'?"),
    ],
)
def test_misuse_is_one_clear_line(folder, words, message):
    answer = icelens(*words, cwd=folder, code=2)
    assert answer.startswith("icelens: ")
    assert message in answer
    assert answer.count("\n") == 1
    assert [path.name for path in folder.iterdir()] == ["digits.toml"]


@pytest.mark.parametrize(
    "words",
    [["run", "digits.toml", "--trials", "-1"], ["choose", "table2-cola", "--encoder=x", "--trials=0"]],
)
def test_counts_that_make_no_sense_are_refused(command, words):
    code, out, err = command("reproduce", *words)
    assert (code, out) == (2, "")
    assert "Invalid value for '--trials'" in err


def test_a_method_that_is_not_known_is_told_too(folder, command):
    code, _, err = command("reproduce", "run", "digits.toml", "--method", "icelinear")
    assert (code, err) == (2, "icelens: unknown loss 'icelinear'; did you mean 'ice_linear'?\n")


def test_figures_are_drawn_and_what_is_missing_is_named(folder):
    command = [
        sys.executable,
        "-m",
        "icelens",
        "reproduce",
        "figures",
        "smoothing",
        "ridgelines",
        "--format",
        "png",
    ]
    answer = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True)
    assert answer.stdout == f"{Path('figures') / 'smoothing.png'}\n"
    assert (folder / "figures/smoothing.png").stat().st_size > 10_000
    assert "ridgelines: not drawn, " in answer.stderr
    assert "icelens reproduce run table1-" in answer.stderr
