"""How many labels are wrong: an interval around it, and its parts that add up to it."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from icelens.auditing import estimate
from icelens.auditing.estimate import by_class, confused_pairs, estimate_errors, review_budgets
from icelens.auditing.evidence import held_evidence, honest_evidence
from icelens.auditing.stages import Honest

NAMES = ["ant", "bee", "cow"]


def honest(rows, rate=0.2, seed=0):
    """Sure predictions, labels of which a share is wrong, and the trust that follows from both."""
    draw = np.random.default_rng(seed)
    truth = np.arange(rows) % 3
    p = np.full((rows, 3), 0.02)
    p[np.arange(rows), truth] = 0.96
    labels = np.where(draw.random(rows) < rate, (truth + 1) % 3, truth)
    log_p = np.log(p).astype(np.float32)
    return evidence_of(log_p, labels), labels


def evidence_of(log_p, labels):
    return honest_evidence(Honest(np.arange(len(labels)), log_p), labels)


def examples(rows=90, seed=0):
    draw = np.random.default_rng(seed)
    label, guess = draw.integers(3, size=rows), draw.integers(3, size=rows)
    trust = np.where(label == guess, 1 - 1e-7, draw.random(rows))
    return pd.DataFrame(
        {
            "label": pd.Categorical.from_codes(label, categories=NAMES),
            "guess": pd.Categorical.from_codes(guess, categories=NAMES),
            "trust": trust,
            "is_issue": trust < 0.5,
        }
    )


@pytest.mark.parametrize("rows", [2, 30, 3000])
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.9])
def test_the_interval_holds_the_estimate_and_stays_within_the_data(rows, rate):
    evidence, labels = honest(rows, rate)
    found = estimate_errors(evidence.right, evidence, labels, seed=0)
    assert found.errors == pytest.approx((1 - evidence.right).sum())
    assert 0 <= found.low <= found.errors <= found.high <= rows
    assert found.high - found.errors >= min(1, rows - found.errors) - 1e-9


def test_the_interval_holds_all_that_explains_the_labels_about_as_well():
    """Where a network learns little, a fifth of wrong labels may explain them as well as a fiftieth."""
    evidence, labels = honest(3000)
    sure = estimate_errors(evidence.right, evidence, labels, seed=0)
    found = estimate_errors(evidence.right, replace(evidence, span=(0.02, 0.4)), labels, seed=0)
    assert found.errors == sure.errors
    assert found.low < 0.02 * 3000 < 0.4 * 3000 < found.high
    assert found.low > 0.0
    agreed = replace(evidence, span=(found.errors / 3000, found.errors / 3000))
    assert estimate_errors(evidence.right, agreed, labels, seed=0).high == pytest.approx(sure.high, rel=0.02)


def test_the_estimate_is_near_the_truth_and_its_interval_holds_it():
    evidence, labels = honest(3000)
    wrong = (labels != np.arange(3000) % 3).sum()
    found = estimate_errors(evidence.right, evidence, labels, seed=0)
    assert found.errors == pytest.approx(wrong, rel=0.05)
    assert found.low < wrong < found.high


def test_where_one_label_in_few_is_wrong_none_may_be():
    evidence, labels = honest(12, rate=0.0)
    labels[4] = 2
    evidence = evidence_of(evidence.log_p, labels)
    found = estimate_errors(evidence.right, evidence, labels, seed=0)
    assert evidence.right.argmin() == 4
    assert found.low < found.errors < 1 < found.high < 12


def test_the_same_seed_gives_the_same_interval_and_few_rows_a_wider_one():
    evidence, labels = honest(300)
    again = [estimate_errors(evidence.right, evidence, labels, seed=4) for _ in range(2)]
    assert again[0] == again[1]
    known = replace(evidence, rows=evidence.rows[:30], log_p=evidence.log_p[:30])
    few = estimate_errors(evidence.right, known, labels, seed=4)
    assert few.high - few.low > again[0].high - again[0].low


def test_resamples_are_no_larger_than_they_must_be(monkeypatch):
    sizes = []
    fitted = estimate.fit_noise_model
    monkeypatch.setattr(estimate, "ROWS", 50)
    monkeypatch.setattr(
        estimate, "fit_noise_model", lambda p, y, *s, **m: sizes.append(len(y)) or fitted(p, y, *s, **m)
    )
    evidence, labels = honest(300)
    estimate_errors(evidence.right, evidence, labels, seed=0)
    assert sizes == [50] * estimate.RESAMPLES


def test_a_held_run_is_not_drawn_anew(monkeypatch):
    monkeypatch.setattr(estimate, "fit_noise_model", None)
    evidence, labels = honest(300)
    held = held_evidence(evidence.log_p, evidence.right.astype(np.float32), labels)
    found = estimate_errors(held.right, held, labels, seed=0)
    assert found.errors == pytest.approx((1 - evidence.right).sum(), rel=1e-4)
    assert found.low < found.errors < found.high


def test_classes_add_up_to_the_whole():
    table = examples()
    found = by_class(table)
    assert found["label"].tolist() == NAMES
    assert found["examples"].sum() == len(table)
    assert found["errors"].sum() == pytest.approx((1 - table["trust"]).sum())
    assert found["issues"].sum() == table["is_issue"].sum()
    bees = table[table["label"] == "bee"]
    assert found["errors"][1] == pytest.approx((1 - bees["trust"]).sum())


def test_pairs_add_up_to_all_that_the_model_sees_otherwise():
    table = examples()
    other = table[table["label"].astype(str) != table["guess"].astype(str)]
    found = confused_pairs(table)
    assert len(found) == 6
    assert found["errors"].sum() == pytest.approx((1 - other["trust"]).sum())
    assert found["errors"].sum() == pytest.approx((1 - table["trust"]).sum(), abs=1e-4)
    assert found["issues"].sum() == other["is_issue"].sum()
    assert (np.diff(found["errors"]) <= 0).all()
    assert (found["label"].astype(str) != found["guess"].astype(str)).all()


def test_where_all_agree_there_are_no_pairs():
    table = examples()
    found = confused_pairs(table.assign(guess=table["label"]))
    assert found.columns.tolist() == ["label", "guess", "errors", "issues"]
    assert found.empty


@pytest.mark.parametrize("rows", [1, 2, 10, 137])
def test_budgets_rise_to_the_whole(rows):
    trust = np.random.default_rng(0).random(rows)
    found = review_budgets(trust)
    assert found["n"].iloc[-1] == rows
    assert found["errors"].iloc[-1] == pytest.approx((1 - trust).sum())
    assert (np.diff(found["n"]) > 0).all()
    assert (np.diff(found["errors"]) >= 0).all()
    assert found["n"].tolist() == [n for n in (1, 10, 20, 50, 100) if n < rows] + [rows]
    worst = np.sort(1 - trust)[::-1]
    assert found["errors"].tolist() == pytest.approx([worst[:n].sum() for n in found["n"]])


def test_the_budget_that_is_asked_for_has_its_row():
    trust = np.array([0.9, 0.1, 0.5])
    assert review_budgets(trust, 2).to_dict("list") == {
        "n": [2, 3],
        "errors": [pytest.approx(1.4), pytest.approx(1.5)],
    }
    assert review_budgets(trust, 99)["n"].tolist() == [3]
