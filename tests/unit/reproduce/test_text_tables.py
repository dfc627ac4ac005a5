import numpy as np
import pytest
from rich.console import Console
from text_files import write_task

from icelens.data import load
from icelens.errors import FileError, InputError, MissingFileError
from icelens.reproduce.paper_text import LISTED
from icelens.reproduce.tables import markdown
from icelens.reproduce.text_tables import (
    Suspect,
    lowest,
    percentiles,
    percentiles_markdown,
    summary,
    summary_rows,
    suspects_coloured,
    suspects_markdown,
)

SUSPECTS = [
    Suspect(7, "acceptable", "unacceptable", 0.0123, ("He [bold]often sees | Mary_x.",)),
    Suspect(2, "entailment", "entailment", 0.2, ("One.", "Two.")),
]


def record(method, seed, **scores):
    return {"data": "mrpc", "method": method, "seed": seed, "scores": scores}


def test_cells_are_means_with_deviations_beside_the_paper():
    records = [
        record("cross_entropy", 0, f1=0.80, accuracy=0.7), record("cross_entropy", 1, f1=0.84, accuracy=0.7),
        record("ice_power", 0, f1=0.86, accuracy=0.8),
    ]  # fmt: skip
    first, second, *others = summary(records)
    assert (first.data, first.measure, first.method, first.n, first.paper) == (
        "mrpc", "f1", "cross_entropy", 2, 88.04
    )  # fmt: skip
    assert first.mean == pytest.approx(82)
    assert first.deviation == pytest.approx(np.std([80, 84], ddof=1))
    assert first.difference is None
    assert (second.method, second.deviation, second.paper) == ("ice_power", None, 89.54)
    assert second.difference == pytest.approx(4)
    assert [cell.measure for cell in others] == ["accuracy", "accuracy"]
    table = markdown(summary_rows([first, second]))
    assert "| MRPC | f1 | cross_entropy | 82.00 (2.83) | 2 |  | 88.04 |\n" in table
    assert "| MRPC | f1 | ice_power | 86.00 | 1 | +4.00 | 89.54 |\n" in table


def write_rows(path, confidence, **others):
    guess = np.zeros(len(confidence), np.int8)
    np.savez_compressed(path, confidence=np.asarray(confidence, np.float32), guess=guess, **others)
    return path


def test_the_lowest_are_rows_of_the_file(tmp_path):
    write_task(tmp_path, "rte", train=6)
    train = load("rte", tmp_path).train
    npz = write_rows(tmp_path / "a.npz", [0.5, 0.1, 0.9, np.nan, 0.02, 0.7])
    found = lowest("rte", npz, tmp_path, n=3)
    assert [suspect.index for suspect in found] == [4, 1, 0]
    for suspect in found:
        assert suspect.label == train.classes[train.labels[suspect.index]]
        assert suspect.guess == "entailment"
        assert suspect.texts == train.inputs[suspect.index]
    assert found[0].confidence == pytest.approx(0.02)


def test_percentiles_are_the_share_of_rows_below(tmp_path):
    confidence = np.linspace(0, 1, 635, dtype=np.float32)
    found = percentiles("wnli", write_rows(tmp_path / "a.npz", confidence))
    assert tuple(found) == LISTED["wnli"]
    assert found == pytest.approx({row: 100 * (row + 0.5) / 635 for row in LISTED["wnli"]})
    same = percentiles("wnli", write_rows(tmp_path / "a.npz", np.full(635, 0.5)))
    assert set(same.values()) == {50.0}
    table = percentiles_markdown({"wnli": found})
    assert f"| WNLI | {100 * 294.5 / 635:.1f} | 266: 42.0, 478: " in table


def test_texts_are_shown_as_they_are():
    console = Console(width=120, force_terminal=True, color_system="standard")
    with console.capture() as capture:
        console.print(suspects_coloured("cola", SUSPECTS))
    shown = capture.get()
    assert "He [bold]often sees | Mary_x." in shown
    assert "0.0123" in shown
    assert "\x1b[31macceptable" in shown
    assert "\x1b[34munacceptable" in shown
    table = suspects_markdown(SUSPECTS)
    assert "| 7 | acceptable | unacceptable | 0.0123 | He [bold]often sees \\| Mary\\_x. |\n" in table
    assert "| 0.2 | One.<br>Two. |\n" in table


def test_files_that_cannot_be_shown_are_refused(tmp_path):
    write_task(tmp_path, "wnli", train=6)
    with pytest.raises(MissingFileError, match="no such file; the trial with seed 0 writes it"):
        percentiles("wnli", tmp_path / "none.npz")
    (tmp_path / "a.npz").write_text("no")
    with pytest.raises(FileError, match="not the rows of a trial"):
        percentiles("wnli", tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", guess=np.zeros(6))
    with pytest.raises(InputError, match="holds no confidences; cross entropy has none"):
        lowest("wnli", tmp_path / "a.npz", tmp_path)
    npz = write_rows(tmp_path / "a.npz", np.zeros(5))
    with pytest.raises(InputError, match="has 5 rows, but the training file has 6"):
        lowest("wnli", npz, tmp_path)
    with pytest.raises(InputError, match="has 5 rows, but the paper lists row 586 of wnli"):
        percentiles("wnli", npz)
    with pytest.raises(InputError, match="unknown data 'wnly'; did you mean 'wnli'"):
        percentiles("wnly", npz)
