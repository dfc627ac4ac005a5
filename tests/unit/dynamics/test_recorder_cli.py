"""`icelens dynamics` as people run it: from the folder of a recorder to a table, pictures and a list."""

import subprocess
import sys

import pandas as pd
import pytest
import torch
from PIL import Image

from icelens import FlightRecorder, ICELoss, read_dynamics
from icelens.cli import main

EXAMPLES = 40


@pytest.fixture
def icelens(tmp_path, monkeypatch, capsys):
    """Exit code, standard output and standard error of a command in this process."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["icelens", *words])
        with pytest.raises(SystemExit) as left:
            main()
        printed = capsys.readouterr()
        return left.value.code, printed.out, printed.err

    return run


def record(folder, loss_fn=None, labels=None):
    torch.manual_seed(0)
    with FlightRecorder(folder, EXAMPLES) as recorder:
        for epoch in range(4):
            index = torch.randperm(EXAMPLES)
            given = index % 3 if labels is None else labels[epoch][index]
            logits = 3.0 * torch.nn.functional.one_hot(index % 3, 3) + torch.randn(EXAMPLES, 3)
            logits[index == 7] = torch.tensor([5.0, -5.0, 0.0])  # whose label is 1
            if loss_fn is not None:
                loss_fn(logits.requires_grad_(), given, index)
            recorder.log(logits, given, index, confidence=loss_fn)


def test_a_table_pictures_and_a_list(icelens, tmp_path):
    record(tmp_path / "flight", ICELoss(EXAMPLES))
    code, out, err = icelens("dynamics", "flight")
    assert (code, err) == (0, "")
    folder = tmp_path / "flight-dynamics"
    names = ["aum.png", "data_map.png", "dynamics.parquet", "ridgeline.png"]
    assert sorted(path.name for path in folder.iterdir()) == names
    for name in names[:2] + names[3:]:
        with Image.open(folder / name) as picture:
            assert min(picture.size) > 300
    table = pd.read_parquet(folder / "dynamics.parquet")
    pd.testing.assert_frame_equal(table, read_dynamics(tmp_path / "flight").examples)
    lines = out.splitlines()
    assert lines[0] == "flight: 160 visits of 40 examples in 4 epochs."
    assert lines[3].split() == ["index", "label", "guess", "aum", "p_label", "correctness", "forgotten",
                                "visits", "confidence"]  # fmt: skip
    assert lines[4].split()[:4] == ["7", "1", "0", "-10.000"]
    assert len(lines) == 3 + 1 + 20 + 2
    assert "flight-dynamics/ridgeline.png" in lines[-1]


def test_without_confidences_there_is_no_ridgeline_and_options_are_heard(icelens, tmp_path):
    record(tmp_path / "flight")
    code, out, _ = icelens("dynamics", "flight", "--out", "deep/er", "--until", "2", "--first", "3")
    assert code == 0
    assert out.startswith("flight: 80 visits of 40 examples in 2 epochs.")
    assert "confidence" not in out
    assert len(out.splitlines()) == 3 + 1 + 3 + 2
    found = sorted(path.name for path in (tmp_path / "deep" / "er").iterdir())
    assert found == ["aum.png", "data_map.png", "dynamics.parquet"]
    code, out, _ = icelens("dynamics", "flight", "--first", "0")
    assert code == 0
    assert "lowest" not in out


def test_an_index_that_is_not_stable_is_told(icelens, tmp_path):
    labels = [
        torch.randint(3, (EXAMPLES,), generator=torch.Generator().manual_seed(epoch)) for epoch in range(4)
    ]
    record(tmp_path / "flight", labels=labels)
    code, _, err = icelens("dynamics", "flight")
    assert code == 0
    assert "examples were recorded with more than one label; is index the row of the data set" in err


def test_misuse_is_one_line_and_leaves_nothing_behind(icelens, tmp_path):
    record(tmp_path / "flight")
    for words, message in (
        (["absent"], "absent: no such folder"),
        (["flight", "--out", "flight"], "is in the folder of the recording itself"),
        (["flight", "--out", "flight/maps"], "is in the folder of the recording itself"),
        (["flight", "--until", "0"], "until must be above 0"),
    ):
        code, out, err = icelens("dynamics", *words)
        assert (code, out) == (2, "")
        assert message in err
        assert len(err.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["flight"]


def test_the_command_needs_no_torch():
    code = "import sys, icelens.dynamics.read, icelens.dynamics.pictures; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
