"""Laws of the flight recorder: its statistics are those of plain loops in float64, whatever was recorded."""

import math
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icelens import FlightRecorder, read_dynamics
from icelens.dynamics import stream


@st.composite
def runs(draw):
    """(steps, examples, classes): of each step one batch for each rank, (logits, labels, index)."""
    examples, classes, ranks = draw(st.integers(1, 12)), draw(st.integers(2, 5)), draw(st.integers(1, 3))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    labels = random.integers(classes, size=examples)
    scale = draw(st.sampled_from([0.01, 3.0, 100.0]))
    steps = []
    for _ in range(draw(st.integers(1, 15))):
        # Ranks never share an example of a step: which of them would have been first is for nobody to say.
        owner = random.integers(ranks, size=examples)
        batch = random.integers(examples, size=random.integers(0, 9))
        shares = [batch[owner[batch] == rank] for rank in range(ranks)]
        steps.append(
            [
                (random.normal(0, scale, (len(rows), classes)).astype(np.float32), labels[rows], rows)
                for rows in shares
            ]
        )
    return steps, examples, ranks


def record(folder, run, buffer):
    steps, examples, ranks = run
    for rank in range(ranks):
        with (
            mock.patch.dict(os.environ, {"RANK": str(rank), "WORLD_SIZE": str(ranks)}),
            FlightRecorder(folder, examples, buffer=buffer) as recorder,
        ):
            for step in steps:
                recorder.log(*map(torch.from_numpy, step[rank]))


def visits(run):
    """The visits of each example in their order: (p of the label, margin, whether the guess was right)."""
    steps, examples, _ = run
    found = [[] for _ in range(examples)]
    for logits, labels, index in (batch for step in steps for batch in step):
        for z, label, row in zip(logits.astype(np.float64), labels, index, strict=True):
            top = max(z)
            p = math.exp(z[label] - top) / sum(math.exp(value - top) for value in z)
            rival = max(value for k, value in enumerate(z) if k != label)
            found[row].append((p, z[label] - rival, z[label] > rival, -math.log(max(p, 1e-300))))
    return found


@settings(deadline=None, max_examples=40)
@given(runs(), st.integers(1, 30), st.integers(1, 40))
def test_statistics_are_those_of_plain_loops(run, buffer, at_once):
    expected = visits(run)
    with TemporaryDirectory() as folder, mock.patch.multiple(stream, AT_ONCE=at_once, LEAST=1):
        record(Path(folder), run, buffer)
        if not any(expected):
            return
        found = read_dynamics(folder)
    assert found.rows == sum(map(len, expected))
    assert found.relabelled == 0
    for row, seen in zip(found.examples.to_dict("records"), expected, strict=True):
        assert row["visits"] == len(seen)
        if not seen:
            assert math.isnan(row["aum"])
            continue
        p, margin, right, loss = map(np.array, zip(*seen, strict=True))
        assert math.isclose(row["aum"], margin.mean(), rel_tol=1e-5, abs_tol=1e-4)
        assert math.isclose(row["p_label"], p.mean(), rel_tol=1e-4, abs_tol=1e-6)
        assert math.isclose(row["variability"], p.std(), rel_tol=1e-4, abs_tol=1e-6)
        assert math.isclose(row["loss"], loss.mean(), rel_tol=1e-4, abs_tol=1e-5)
        assert math.isclose(row["correctness"], right.mean(), rel_tol=1e-6)
        assert row["forgotten"] == (right[:-1] & ~right[1:]).sum()
