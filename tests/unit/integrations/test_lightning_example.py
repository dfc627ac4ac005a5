"""The example for Lightning runs and finds what it promises."""

import re
import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "lightning_digits.py"


@pytest.mark.filterwarnings("ignore:::lightning")
def test_the_example_finds_the_wrong_digits(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLE))
    said = capsys.readouterr().out
    assert float(re.search(r"test accuracy ([\d.]+)", said)[1]) > 0.93
    assert float(re.search(r"wrong labels: ([\d.]+)", said)[1]) > 0.95
