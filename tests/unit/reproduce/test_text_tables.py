import numpy as np
import pytest

from icelens.reproduce.tables import markdown
from icelens.reproduce.text_tables import Cell, summary, summary_rows, verdict


def record(method, seed, data="mrpc", **scores):
    return {"data": data, "method": method, "seed": seed, "scores": scores}


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
    assert first.difference is first.in_deviations is first.papers_difference is None
    assert (second.method, second.deviation, second.paper) == ("ice_power", None, 89.54)
    assert second.difference == pytest.approx(4)
    assert second.error is None  # not the seeds of cross entropy
    assert second.papers_difference == pytest.approx(1.5)
    assert [cell.measure for cell in others] == ["accuracy", "accuracy"]
    assert others[1].in_deviations is None  # cross entropy does not vary
    table = markdown(summary_rows([first, second]))
    assert "| MRPC | f1 | CCE | 82.00 (2.83) | 2 |  |  | 88.04 |  |\n" in table
    assert "| MRPC | f1 | ICE-POW | 86.00 | 1 | +4.00 | +1.41 | 89.54 | +1.50 |\n" in table


def test_differences_are_paired_by_seed():
    by_seed = {"cross_entropy": (0.5, 0.6, 0.7), "ice_linear": (0.51, 0.61, 0.74)}
    records = [
        record(method, seed, data="rte", accuracy=value)
        for method, values in by_seed.items()
        for seed, value in enumerate(values)
    ]
    _, ice = summary(reversed(records))
    assert ice.difference == pytest.approx(2)
    assert ice.error == pytest.approx(np.std([1, 1, 4], ddof=1) / np.sqrt(3))
    assert ice.in_deviations == pytest.approx(0.2)
    assert "| +2.00 ± 1.00 | +0.20 |" in markdown(summary_rows([ice]))


def test_the_verdict_names_what_falls_behind():
    cells = [
        Cell("rte", "accuracy", "ice_linear", 60, 1, 5, in_deviations=-1.01),
        Cell("rte", "accuracy", "ice_power", 60, 1, 5, in_deviations=-0.99),
        Cell("mrpc", "f1", "ice_power", 60, 1, 5, in_deviations=0.5),
        Cell("mrpc", "f1", "cross_entropy", 60, 1, 5),
    ]
    assert " ICE is below CCE on RTE, accuracy, ICE-LIN. Its lowest cell is at -1.01 " in verdict(cells)
    assert " ICE is below CCE on no task. Its lowest cell is at -0.99 deviations (RTE, " in verdict(cells[1:])
    assert verdict(cells).endswith("its highest at +0.50 (MRPC, f1, ICE-POW).")
