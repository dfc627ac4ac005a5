from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from text_files import write_rows, write_task

from icelens.data import load
from icelens.errors import FileError, InputError, MissingFileError
from icelens.reproduce.text_rows import (
    Suspect,
    lowest,
    read_suspects,
    suspects_coloured,
    suspects_markdown,
    write_suspects,
)

SUSPECTS = [
    Suspect(7, "acceptable", "unacceptable", 0.0123, ("He [bold]often sees | Mary_x for $ 4.",)),
    Suspect(2, "entailment", "entailment", 0.2, ("One.", "Two.")),
]


def test_the_lowest_are_rows_of_the_file(tmp_path):
    write_task(tmp_path, "rte", train=6)
    train = load("rte", tmp_path).train
    npz = write_rows(tmp_path / "a.npz", confidence=[0.5, 0.1, 0.9, np.nan, 0.02, 0.7])
    found = lowest("rte", npz, tmp_path, n=3)
    assert [suspect.index for suspect in found] == [4, 1, 0]
    for suspect in found:
        assert suspect.label == train.classes[train.labels[suspect.index]]
        assert suspect.guess == "entailment"
        assert suspect.texts == train.inputs[suspect.index]
    assert found[0].confidence == pytest.approx(0.02)


def test_texts_are_shown_as_they_are():
    console = Console(width=120, force_terminal=True, color_system="standard")
    with console.capture() as capture:
        console.print(suspects_coloured("cola", SUSPECTS))
    shown = capture.get()
    assert "He [bold]often sees | Mary_x" in shown
    assert "0.0123" in shown
    assert "\x1b[31macceptable" in shown
    assert "\x1b[34munacceptable" in shown
    table = suspects_markdown(SUSPECTS)
    assert (
        "| 7 | acceptable | unacceptable | 0.0123 | He [bold]often sees \\| Mary\\_x for \\$ 4. |\n" in table
    )
    assert "| 0.2 | One.<br>Two. |\n" in table


def test_texts_are_kept_and_belong_to_their_trial(tmp_path):
    npz = write_rows(tmp_path / "a.npz", confidence=[0.5, 0.5, 0.2, 0.9, 0.9, 0.9, 0.9, 0.0123])
    path = tmp_path / "texts" / "a.json"
    write_suspects(path, SUSPECTS)
    assert read_suspects(path, npz) == SUSPECTS
    write_suspects(path, [SUSPECTS[0], replace(SUSPECTS[1], index=1)])
    with pytest.raises(InputError, match=r"a\.json: its texts are not the lowest of .*a\.npz"):
        read_suspects(path, npz)
    path.write_text('[{"index": 1}]')
    with pytest.raises(FileError, match=r"a\.json: not a list of texts"):
        read_suspects(path, npz)
    with pytest.raises(MissingFileError, match=r"none\.json: no such file"):
        read_suspects(tmp_path / "none.json", npz)


def test_files_that_cannot_be_shown_are_refused(tmp_path):
    write_task(tmp_path, "wnli", train=6)
    with pytest.raises(MissingFileError, match="no such file; the trial with seed 0 writes it"):
        lowest("wnli", tmp_path / "none.npz", tmp_path)
    (tmp_path / "a.npz").write_text("no")
    with pytest.raises(FileError, match="not the rows of a trial"):
        lowest("wnli", tmp_path / "a.npz", tmp_path)
    npz = write_rows(tmp_path / "a.npz", p_label=np.zeros(6))
    with pytest.raises(InputError, match="holds no confidence; cross entropy has none"):
        lowest("wnli", npz, tmp_path)
    npz = write_rows(tmp_path / "a.npz", confidence=np.zeros(5))
    with pytest.raises(InputError, match="has 5 rows, but the training file has 6"):
        lowest("wnli", npz, tmp_path)
    with pytest.raises(InputError, match="unknown data 'wnly'; did you mean 'wnli'"):
        lowest("wnly", npz, tmp_path)
