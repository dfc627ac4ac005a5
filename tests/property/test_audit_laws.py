"""Laws over all small data sets: an audit trusts every label somewhere from 0 to 1, or says what is wrong."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from audit_data import shorten
from hypothesis import example, given, settings
from hypothesis import strategies as st

import icelens
from icelens.auditing import estimate
from icelens.auditing.ranking import issues_of, trust_of
from icelens.errors import IcelensError

# Numbers at which the arithmetic of float32 ends.
ODD = np.array([0.0, -0.0, 1.0, -1.0, 1e-45, 1e-38, 1e10, -1e20, 3.4e38, -3.4e38], dtype=np.float32)
KINDS = ["plain", "odd", "frame", "sparse", "texts", "images"]
NAMES = {
    "strings": ["cat", "Dog", "<b>", "", "mixed case", "naïve 🦆"],
    "integers": [0, 1, 7, -3, 10**12, 2],
    "booleans": [True, False] * 3,
    "floats": [0.0, 1.0, 2.0, 3.0, -4.0, 50.0],
    "digits": ["0", "1", "2", "10", "11", "3"],
}


def few(examples):
    return settings(max_examples=examples, deadline=None, derandomize=True)


@pytest.fixture(scope="module", autouse=True)
def short():
    """Two epochs and three resamples: what counts are the shapes and the arithmetic."""
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch)
        patch.setattr(estimate, "RESAMPLES", 3)
        yield


def labels_of(draw, rows, classes, kind, skewed):
    share = np.array([0.5**place for place in range(classes)] if skewed else [1.0] * classes)
    codes = draw.choice(classes, rows, p=share / share.sum())
    return [NAMES[kind][code] for code in codes]


def inputs_of(draw, rows, kind, width):
    if kind == "images":
        return draw.integers(0, 256, (rows, width, width), dtype=np.uint8)
    if kind == "texts":
        words = np.array(["soup", "bread", "é", "!", "", "<p>", "the the", "日本"])
        return [" ".join(draw.choice(words, width)) for _ in range(rows)]
    values = draw.normal(size=(rows, width)).astype(np.float32)
    values[:, 0] = 5.1  # says nothing
    if kind == "odd":
        values = draw.choice(ODD, (rows, width))
    if kind == "sparse":
        return scipy.sparse.csr_matrix(values * (draw.random((rows, width)) < 0.3))
    if kind != "frame":
        return values
    frame = pd.DataFrame(values, columns=[f"c{place}" for place in range(width)])
    frame = frame.mask(draw.random(frame.shape) < 0.2)
    return frame.assign(town=draw.choice(["Oslo", "Rome", "Bern", None], rows), flag=draw.random(rows) < 0.5)


def repeated(inputs, labels, keep):
    """The first rows again and again, under their own labels and under those of others."""
    rows = np.arange(len(labels)) % keep
    if isinstance(inputs, list):
        return [inputs[row] for row in rows]
    return inputs.iloc[rows].reset_index(drop=True) if hasattr(inputs, "iloc") else inputs[rows]


@given(
    kind=st.sampled_from(KINDS),
    names=st.sampled_from(list(NAMES)),
    rows=st.integers(12, 60),
    classes=st.integers(2, 6),
    width=st.integers(1, 5),
    duplicates=st.booleans(),
    skewed=st.booleans(),
    seed=st.integers(0, 2**16),
)
# One column that says nothing; a last batch of one row; classes with one example in each fold.
@example(kind="plain", names="integers", rows=20, classes=2, width=1, duplicates=False, skewed=False, seed=0)
@example(kind="images", names="strings", rows=49, classes=2, width=1, duplicates=False, skewed=False, seed=0)
@example(kind="odd", names="digits", rows=12, classes=6, width=3, duplicates=True, skewed=False, seed=5)
@few(50)
def test_every_label_is_trusted_from_0_to_1_or_the_error_is_ours(
    *, kind, names, rows, classes, width, duplicates, skewed, seed
):
    draw = np.random.default_rng(seed)
    inputs, labels = inputs_of(draw, rows, kind, width), labels_of(draw, rows, classes, names, skewed)
    if duplicates:
        inputs = repeated(inputs, labels, 5)
    try:
        audit = icelens.audit(inputs, labels, seed=seed, device="cpu")
    except IcelensError as error:
        message = str(error)
    else:
        assert_sound(audit, rows)
        return
    assert "\n" not in message


def assert_sound(audit, rows):
    found = audit.examples
    assert len(found) == rows
    for name in ("trust", "confidence", "p_label", "p_guess"):
        assert found[name].between(0, 1).all()
    assert found["trust"].nunique() == rows
    assert 0 <= audit.estimate.low <= audit.estimate.errors <= audit.estimate.high <= rows
    assert audit.by_class["examples"].sum() == rows
    assert audit.budgets["errors"].is_monotonic_increasing
    assert np.isfinite(audit.budgets["errors"]).all()


def test_most_of_these_data_sets_can_be_audited():
    """The law above would hold of an audit that refused everything."""
    draw = np.random.default_rng(0)
    for kind in KINDS:
        inputs = inputs_of(draw, 40, kind, 3)
        found = icelens.audit(inputs, labels_of(draw, 40, 2, "integers", False), device="cpu")
        assert len(found.examples) == 40


probabilities = st.floats(0, 1)


@given(
    score=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40),
    right=st.lists(probabilities, min_size=40, max_size=40),
    known=st.integers(1, 40),
)
@few(150)
def test_trust_is_a_probability_and_strictly_in_the_order_of_the_score(score, right, known):
    score, known = np.array(score), np.arange(min(known, len(score)))
    trust = trust_of(score, known, np.array(right)[known])
    assert ((trust >= 0) & (trust <= 1)).all()
    ranked = trust[np.argsort(score, kind="stable")]
    assert (np.diff(ranked) > 0).all()
    assert (1 - trust[known]).mean() == pytest.approx((1 - np.array(right)[known]).mean(), abs=1e-5)


@given(trust=st.lists(probabilities, min_size=1, max_size=40), contradicted=st.integers(0, 40))
@few(150)
def test_issues_are_less_trusted_than_all_others(trust, contradicted):
    trust = np.array(trust)
    issues = issues_of(trust, min(contradicted, len(trust)))
    if issues.any() and not issues.all():
        assert trust[issues].max() <= trust[~issues].min()
