"""Unusual values of a row: found, measured against its own class, and shown in words."""

import numpy as np
import pandas as pd
import pytest
from report_audits import tumours
from scipy.sparse import csr_matrix

from icelens.auditing.report.cells import Cell, unusual_cells


def table(rows=200):
    draw = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "height": draw.normal(170, 10, rows),
            "age": pd.array(draw.integers(20, 60, rows), dtype="Int64"),
            "name": [f"person {i}" for i in range(rows)],
            "town": np.where(np.arange(rows) % 2, "Oslo", "Rome"),
            "same": 1.0,
            "flag": np.arange(rows) % 2 == 0,
        }
    )


def test_the_most_unusual_number_comes_first_with_what_is_usual():
    frame = table()
    frame.loc[7, "height"] = 300.0
    (cells,) = unusual_cells(frame, np.zeros(200, int), [7])
    assert cells[0].column == "height"
    assert (cells[0].value, cells[0].mark) == ("300", "high")
    low, high = map(float, cells[0].usual.split(" to "))
    assert 150 < low < 165
    assert 175 < high < 190
    assert len(cells) == 6
    assert [cell.mark for cell in cells[1:]].count("") == 5


def columns_of_all_shapes(rows=120):
    draw = np.random.default_rng(3)
    mostly = np.where(draw.random(rows) < 0.06, draw.integers(1, 5, rows), 0)
    return pd.DataFrame(
        {
            "normal": draw.normal(170, 10, rows),
            "skewed": draw.lognormal(0, 1.5, rows),
            "large": draw.lognormal(9, 1, rows),
            "tiny": draw.normal(0, 1e-7, rows),
            "close to each other": 2.957 + draw.normal(0, 1e-3, rows),
            "counts": draw.poisson(2, rows).astype(float),
            "mostly 0": mostly.astype(float),
            "often missing": np.where(draw.random(rows) < 0.3, np.nan, draw.normal(0, 1, rows)),
            "seldom missing": np.where(draw.random(rows) < 0.02, np.nan, draw.normal(0, 1, rows)),
        }
    )


def test_a_number_is_marked_where_it_is_not_what_is_usual_and_nowhere_else():
    """Read as a person reads the page: the value, its mark, and the range beside it."""
    frame, seen = columns_of_all_shapes(), set()
    for cells in unusual_cells(frame, np.zeros(len(frame), int), range(len(frame)), most=20):
        for cell in cells:
            usual, _, or_missing = cell.usual.partition(" or ")
            low, high = (float(text.replace(",", "")) for text in (f"{usual} to {usual}".split(" to "))[:2])
            if cell.value == "missing":
                assert cell.mark == ("" if or_missing else "rare"), cell
            else:
                value = float(cell.value.replace(",", ""))
                assert cell.mark == ("low" if value < low else "high" if value > high else ""), cell
            seen.add((cell.column, cell.mark))
    assert {column for column, mark in seen if mark} >= set(frame) - {"often missing"}


def test_a_value_is_measured_against_its_own_class():
    frame = pd.DataFrame({"x": np.r_[np.linspace(0, 1, 50), np.linspace(10, 11, 50)]})
    labels = np.repeat([0, 1], 50)
    labels[75] = 0  # an example of the second class under the label of the first
    wrong, right = unusual_cells(frame, labels, [75, 80])
    assert wrong[0].mark == "high"
    assert right[0].mark == ""


def test_rare_categories_missing_values_and_rare_numbers_are_marked():
    frame = table()
    frame.loc[3, "town"] = "Atlantis"
    frame.loc[3, "age"] = pd.NA
    frame.loc[3, "same"] = 0.0
    (cells,) = unusual_cells(frame, np.zeros(200, int), [3])
    found = {cell.column: cell for cell in cells}
    assert found["town"] == Cell("town", "Atlantis", "Rome (50 %)", "rare")
    assert (found["age"].value, found["age"].mark) == ("missing", "rare")
    assert found["same"] == Cell("same", "0", "1", "low")
    assert {cell.column for cell in cells[:3]} == {"town", "age", "same"}
    assert found["name"].mark == ""  # every name is another, so none is rare
    assert found["flag"].mark == ""


def test_arrays_and_sparse_matrices_say_the_same():
    dense = np.round(np.random.default_rng(1).normal(5, 1, (100, 20)), 3)
    dense[4, 13] = -30.0
    labels = np.zeros(100, int)
    for matrix in (dense, csr_matrix(dense)):
        (cells,) = unusual_cells(matrix, labels, [4])
        assert (cells[0].column, cells[0].value, cells[0].mark) == ("feature 13", "-30", "low")


def test_a_sparse_row_shows_only_what_it_holds():
    words = np.zeros((60, 1000))
    words[:, 0] = 1
    words[9, 700] = 3
    (cells,) = unusual_cells(csr_matrix(words), np.zeros(60, int), [9])
    assert [cell.column for cell in cells] == ["feature 700", "feature 0"]
    assert cells[0].mark == "high"


def test_small_classes_and_odd_columns_are_shown_unmarked():
    frame = pd.DataFrame(
        {"x": [1.0, np.nan, 5e9], "y": [[1], {"a": 2}, None], "": pd.to_datetime(["2020"] * 3)}
    )
    for cells in unusual_cells(frame, np.array([0, 0, 1]), [0, 1, 2]):
        assert len(cells) == 3
        assert {cell.mark for cell in cells} == {""}
        assert {cell.column for cell in cells} == {"x", "y", "(empty)"}
    nothing = unusual_cells(pd.DataFrame(index=range(3)), np.zeros(3, int), [1])
    assert nothing == [[]]
    only_missing = pd.DataFrame({"x": [np.nan] * 20})
    assert unusual_cells(only_missing, np.zeros(20, int), [0])[0][0].value == "missing"


def test_order_and_number_of_rows_are_kept():
    frame = table()
    frame["row"] = np.arange(200) * 1.0
    found = unusual_cells(frame, np.arange(200) % 3, [50, 7, 199, 7], most=7)
    rows = [next(cell.value for cell in cells if cell.column == "row") for cells in found]
    assert rows == ["50", "7", "199", "7"]


@pytest.mark.parametrize("columns", [1, 5000])
def test_wide_and_long_tables_take_seconds(columns):
    matrix = np.zeros((2_000_000 // columns, columns), dtype=np.float32)
    matrix[5, 0] = 1
    (cells,) = unusual_cells(matrix, np.zeros(len(matrix), int), [5])
    assert cells[0].column == "feature 0"


def test_flipped_tumours_have_values_of_the_other_class():
    audit, data = tumours()
    rows = audit.suspects(20)["index"].tolist()
    found = unusual_cells(data.inputs, data.labels, rows)
    assert sum(any(cell.mark for cell in cells) for cells in found) >= 15
