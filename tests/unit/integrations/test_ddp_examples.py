"""The examples for DDP and for Accelerate run over two ranks, as torchrun starts them."""

import contextlib
import gc
import io
import re
import runpy
from pathlib import Path

import pytest
from processes import LATE, preload, run

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module", autouse=True)
def one_import():
    preload("icelens.losses", "accelerate", "sklearn.model_selection", *LATE)


KEPT = []


def printed(example):
    with contextlib.redirect_stdout(io.StringIO()) as said:
        # Kept until the process ends: a DDP model that is freed after its group can wait for ever.
        gc.disable()
        KEPT.append(runpy.run_path(str(EXAMPLES / example)))
    return said.getvalue()


@pytest.mark.parametrize("name", ["ddp_digits.py", "accelerate_digits.py"])
def test_an_example_finds_the_wrong_digits_over_two_ranks(name, tmp_path):
    said, nothing = run(printed, 2, tmp_path, name)
    assert nothing == ""
    assert float(re.search(r"test accuracy ([\d.]+)", said)[1]) > 0.92
    assert float(re.search(r"wrong labels: ([\d.]+)", said)[1]) > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain/ddp_digits.py", "plain/accelerate_digits.py"])
def test_the_plain_version_runs_over_two_ranks(name, tmp_path):
    said, nothing = run(printed, 2, tmp_path, name)
    assert nothing == ""
    assert float(re.search(r"test accuracy ([\d.]+)", said)[1]) > 0.9
