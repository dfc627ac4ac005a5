"""The examples for scikit-learn and cleanlab run, and what they print holds."""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def printed(monkeypatch, capsys):
    """What a script prints, run in this process, where torch is loaded already."""

    def run(script, *words):
        monkeypatch.setattr(sys, "argv", [str(script), *map(str, words)])
        monkeypatch.syspath_prepend(script.parent)
        runpy.run_path(str(script), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_sklearn_digits():
    """As a user starts it, with nothing loaded before."""
    script = [sys.executable, EXAMPLES / "sklearn_digits.py"]
    text = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    plain, ice = map(float, re.search(r"MLPClassifier ([\d.]+), ICE ([\d.]+)", text).groups())
    assert ice > plain + 0.05
    share, held = map(int, re.search(r"which (\d+)% are wrong\nthey hold (\d+)%", text).groups())
    assert share > 80
    assert held > 80


@pytest.mark.slow
def test_cleanlab_datalab(printed):
    text = printed(EXAMPLES / "cleanlab_datalab.py")
    theirs, mine = (float(value) for value in re.findall(r"average precision ([\d.]+)", text))
    assert mine > 0.8
    assert theirs > 0.4  # the flips have a direction, which cleanlab's score does not see
    assert re.search(r"\bice\b", text.splitlines()[2]), text


def test_the_benchmark_prints_what_is_in_its_folder(tmp_path, printed):
    for split, (ice, plain) in enumerate([(0.9, 0.92), (0.94, 0.9)]):
        for name, accuracy in (("ICEClassifier", ice), ("MLP", plain)):
            record = {"table": "wine", "rate": 0.0, "split": split, "classifier": name, "accuracy": accuracy}
            path = tmp_path / f"wine-0-{name}-{split}.json"
            path.write_text(json.dumps({**record, "fit_seconds": 1.5}))
    script = EXAMPLES.parent / "benchmarks" / "tables.py"
    text = printed(script, "--show", "--results", tmp_path)
    assert re.search(r"wine +0% +2 +92\.0 \(2\.8\) +1\.50 s +91\.0 \(1\.4\) +1\.50 s", text), text
    assert "wine without flips: ICEClassifier - MLP = +1.00 points" in text
