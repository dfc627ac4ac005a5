"""The demo: its arithmetic on short runs, and, slowly, what it promises."""

import json
import math
from dataclasses import replace

import pytest

from icelens import demo
from icelens.cli.demo import _print
from icelens.demo import Outcome, paired_difference, run_demo
from icelens.errors import InputError


def outcome(seed, early, ice, *, flipped=400, found=390):
    accuracy = {demo.BASELINE: early, "cross entropy, trained as ICE": early - 0.05, "ICE": ice}
    return Outcome(seed, accuracy, flipped, found)


def test_paired_difference_and_its_standard_error():
    mean, error = paired_difference([outcome(0, 0.95, 0.97), outcome(1, 0.90, 0.96)])
    assert mean == pytest.approx(0.04)
    assert error == pytest.approx(0.02)  # differences 0.02 and 0.06: deviation 0.0283 over the root of 2
    assert math.isnan(paired_difference([outcome(0, 0.95, 0.97)])[1])


def test_what_is_printed(tmp_path, capsys):
    _print([outcome(1000, 0.95, 0.97), outcome(1001, 0.90, 0.96)], tmp_path)
    printed = capsys.readouterr().out
    assert "ICE is +4.00 points" in printed
    assert "± 2.00 standard error, n = 2" in printed
    assert "780 of 800 (97.5%)" in printed
    assert str(tmp_path / "seed-1000" / "ice") in printed


def test_a_short_demo_writes_runs_and_pictures_and_is_not_run_twice(tmp_path, monkeypatch):
    short = {name: replace(recipe, epochs=1.0) for name, recipe in demo.RECIPES.items()}
    monkeypatch.setattr(demo, "RECIPES", short)
    (first,) = run_demo(tmp_path, [3])
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"seed-3", "least_trusted.png", "confidence.png", "demo.json"}
    assert json.loads((tmp_path / "demo.json").read_text())[0]["flipped"] == first.flipped
    assert 300 < first.flipped < 500
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    assert len(before) == 3
    assert run_demo(tmp_path, [3]) == [first]
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    with pytest.raises(InputError, match="at least one seed"):
        run_demo(tmp_path, [])


@pytest.mark.slow
def test_ice_is_ahead_by_more_than_two_standard_errors_and_finds_the_flipped_labels(tmp_path):
    outcomes = run_demo(tmp_path, range(demo.FIRST_SEED, demo.FIRST_SEED + 5))
    mean, error = paired_difference(outcomes)
    assert mean > 2 * error
    assert sum(o.found for o in outcomes) >= 0.95 * sum(o.flipped for o in outcomes)
