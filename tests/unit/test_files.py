import csv

import pandas as pd
import pytest

from icelens.files import is_leftover, replacing, write_csv


def write_and_fail(path):
    with replacing(path) as part:
        part.write_text("half of the sec")
        raise ZeroDivisionError


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "folder" / "notes.txt"
    with replacing(path) as part:
        part.write_text("first")
        assert not path.exists()
        assert is_leftover(part)
    with pytest.raises(ZeroDivisionError):
        write_and_fail(path)
    assert path.read_text() == "first"
    assert [file.name for file in path.parent.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("cell", ["a\rb", "a\r", "plain", "a\r\nb", 'with "quotes", and commas'])
@pytest.mark.parametrize("dtype", ["object", "string", "category"])
def test_a_carriage_return_in_a_cell_ends_no_row(tmp_path, cell, dtype):
    labels = pd.Series([cell, "y"], dtype=dtype)
    table = pd.DataFrame({"id": [cell, "x"], "number": [1.5, 0.123456789], "label": labels})
    write_csv(table, tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [
            ["id", "number", "label"], [cell, "1.5", cell], ["x", "0.123457", "y"]
        ]  # fmt: skip
