"""Table 1: the paper's cells, means and tests."""

import statistics

import pytest

from icelens.reproduce.paper import DATA, METHODS, TABLE1
from icelens.reproduce.tables import (
    detection_markdown,
    differences_markdown,
    methods_rows,
    not_worse,
    table1,
    table1_markdown,
)


def record(data, method, accuracy, seed=0, **more):
    values = {"accuracy_at_best_validation": accuracy, "auroc": 0.9, "average_precision": 0.8}
    return {"data": data, "method": method, "seed": seed, "accuracy": accuracy, **values, **more}


def spread(mean, deviation, n=10):
    """n numbers of this mean and population deviation, as the paper's code prints it."""
    signs = [1, -1] * (n // 2)
    return [mean + sign * deviation for sign in signs]


def test_the_papers_table_is_whole():
    assert len(TABLE1) == len(DATA) * len(METHODS) == 48
    assert TABLE1["cifar100", "gce"] == (55.64, 0.40)


# Bold in the paper.
BOLD = {
    "mnist": {"ice_linear", "ice_power"},
    "fashion-mnist": {"ice_linear", "ice_power"},
    "kmnist": {"ice_linear"},
    "svhn": {"dac", "ice_power"},
    "cifar10": {"ice_linear", "ice_power"},
    "cifar100": {"gce", "ice_linear"},
}


@pytest.mark.parametrize("data", DATA)
def test_our_tests_make_the_papers_cells_bold_as_the_paper_does(data):
    column = {method: spread(*TABLE1[data, method]) for method in METHODS}
    assert not_worse(column) == BOLD[data]


def test_a_cell_is_mean_and_sample_deviation_beside_the_papers():
    values = [0.98, 0.99, 0.985]
    cells = table1([record("mnist", "gce", value, seed) for seed, value in enumerate(values)])
    cell = cells["mnist", "gce"]
    assert cell.mean == pytest.approx(98.5)
    assert cell.deviation == pytest.approx(100 * statistics.stdev(values))
    assert cell.n == 3
    assert cell.paper == (98.31, 0.13)
    assert cell.difference == pytest.approx(0.19)
    assert cell.within is False


def test_one_trial_has_no_deviation_and_is_never_bold():
    cell = table1([record("mnist", "gce", 0.984)])["mnist", "gce"]
    assert cell.deviation is None
    assert not cell.bold
    assert cell.within


def test_the_best_validation_has_its_own_table():
    records = [record("mnist", "gce", 0.9, accuracy_at_best_validation=0.95)]
    assert table1(records, "best")["mnist", "gce"].mean == pytest.approx(95)


def test_what_was_not_measured_says_so():
    text = table1_markdown(table1([record("mnist", "gce", 0.984)]), ["mnist", "svhn"])
    assert "| GCE | 98.40<br>*98.31 (0.13)* | not measured here<br>*75.03 (0.98)* |" in text
    assert text.count("\n") == 2 + len(METHODS)


def test_differences_and_detection_are_listed_for_what_is_there():
    records = [record("mnist", "gce", 0.984), record("mnist", "elr", 0.9)]
    assert differences_markdown(table1(records)).splitlines()[2:] == [
        "| MNIST | GCE | 98.40 | 1 | 98.31 (0.13) | +0.09 | yes |"
    ]
    assert "| GCE | 0.9000 / 0.8000 |" in detection_markdown(records)


def test_an_experiment_that_the_paper_has_not_is_a_row_for_each_method():
    rows = methods_rows([record("digits", "ice_linear+mixup", 0.9), record("digits", "gce", 0.8)])
    assert rows[1:] == [
        ["ICE-LIN + mixup", "90.00", "90.00", "0.9000", "1"],
        ["GCE", "80.00", "80.00", "0.9000", "1"],
    ]


def test_numbers_that_a_record_lacks_leave_their_cells_empty():
    found = record("digits", "gce", 0.8)
    for key in ("accuracy_at_best_validation", "auroc", "average_precision"):
        del found[key]
    assert methods_rows([found])[1:] == [["GCE", "80.00", "", "", "1"]]
    assert table1([found], "best") == {}
    detection_markdown([found])
