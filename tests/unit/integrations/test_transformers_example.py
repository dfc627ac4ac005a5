"""The example for transformers runs, on a model of one layer and a few rows in the format of CoLA."""

import runpy
import sys
from pathlib import Path

import numpy as np
from tiny_backbones import WORDS, write_bert

EXAMPLE = Path(__file__).parents[3] / "examples" / "transformers_cola.py"


def write_cola(path, count, seed):
    """Acceptable is what does not hold the word "never"."""
    draw = np.random.default_rng(seed)
    sentences = [" ".join(draw.choice(WORDS, 6)) for _ in range(count)]
    lines = [f"gj04\t{int('never' not in sentence)}\t\t{sentence}\n" for sentence in sentences]
    path.write_text("".join(lines))


def test_the_example_runs_from_the_files_of_cola_to_a_list_of_suspects(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    model = write_bert(tmp_path / "model")
    write_cola(tmp_path / "train.tsv", 48, 0)
    write_cola(tmp_path / "dev.tsv", 16, 1)
    arguments = ["--data", str(tmp_path), "--model", str(model), "--epochs", "2", "--rows", "40", "--cpu"]
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), *arguments])
    names = runpy.run_path(str(EXAMPLE))
    said = capsys.readouterr().out
    assert "dev accuracy" in said
    assert "average precision of the flipped labels" in said
    found = names["found"]
    assert len(found) == 40
    assert list(found["label"]) == list(names["given"])
    assert (found["confidence"] != 0.5).all()
    assert (tmp_path / "cola-minilm" / "checkpoint-4" / "confidence.safetensors").exists()
