"""Every example stands beside a plain version that runs, adds few lines to it, and is shown as a diff."""

import difflib
import re
import runpy
import sys
from pathlib import Path

import pytest
from tiny_backbones import write_bert

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))
ALLOWED = 25  # lines beyond the plain version


def code(path):
    return path.read_text(encoding="utf-8").split('"""\n\n', 1)[1].splitlines()


def run(name, capsys):
    runpy.run_path(str(EXAMPLES / "plain" / f"{name}.py"))
    return capsys.readouterr().out


def test_there_are_examples():
    assert len(NAMES) >= 4


@pytest.mark.parametrize("name", NAMES)
def test_an_example_adds_few_lines_to_its_plain_version(name):
    plain, ours = code(EXAMPLES / "plain" / f"{name}.py"), code(EXAMPLES / f"{name}.py")
    _, _, *lines = difflib.unified_diff(plain, ours, n=0)
    added = sum(line.startswith("+") for line in lines)
    assert 0 < added <= ALLOWED, f"{name} adds {added} lines"
    assert not any("icelens" in line for line in plain), f"the plain version of {name} knows icelens"


@pytest.mark.parametrize("name", NAMES)
def test_a_page_shows_it_as_a_diff(name):
    pages = [path.read_text() for path in EXAMPLES.parent.glob("docs/*.md")]
    assert sum(f"<!-- generated: diff_{name} -->" in page for page in pages) == 1


@pytest.mark.filterwarnings("ignore:::lightning", "ignore:Stochastic Optimizer")
@pytest.mark.parametrize("name", ["cleanlab_datalab", "lightning_digits", "sklearn_digits"])
def test_plain_versions_run(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert float(re.search(r"(?:accuracy|precision).* (0\.\d+)", run(name, capsys))[1]) > 0.75


def test_the_plain_version_for_transformers_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    model = write_bert(tmp_path / "model")
    for name in ("train.tsv", "dev.tsv"):
        (tmp_path / name).write_text("".join(f"gj04\t{row % 2}\t\tthe film was fine\n" for row in range(24)))
    options = ["--data", str(tmp_path), "--model", str(model), "--epochs", "1", "--cpu"]
    monkeypatch.setattr(sys, "argv", ["transformers_cola.py", *options])
    assert re.search(r"dev accuracy 0\.\d+", run("transformers_cola", capsys))
