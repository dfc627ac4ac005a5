"""The example for the flight recorder runs, finds what it promises, and trains as its plain version does."""

import re
import runpy
from pathlib import Path

import pandas as pd

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_the_example_finds_the_wrong_digits_and_changes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / "plain" / "recorder_digits.py"))
    plain = capsys.readouterr().out
    runpy.run_path(str(EXAMPLES / "recorder_digits.py"))
    said = capsys.readouterr().out
    assert said.startswith(plain)
    assert float(re.search(r"by AUM: ([\d.]+)", said)[1]) > 0.95
    assert int(re.search(r"lowest AUM, (\d+)% are wrong", said)[1]) > 90
    assert len(pd.read_parquet(tmp_path / "flight")) == 20 * 1347
