"""Verdicts teach the ranking: what must hold whatever they are, and what they must teach."""

import subprocess
import sys

import numpy as np
import pytest

from icelens.errors import FileError, InputError, MissingFileError
from icelens.review import learned as learning
from icelens.review.likeness import Weights, likeness, points_of
from icelens.review.rerank import Evidence, read_evidence, rerank

NOTHING = np.empty(0, np.int64)


def evidence(count=300, classes=4, seed=0, rows=None):
    """Suspects of which nothing but trust tells which are wrong, least trusted first."""
    draw = np.random.default_rng(seed)
    label = draw.integers(0, classes, count).astype(np.int32)
    return Evidence(
        rows=np.arange(count) if rows is None else rows,
        trust=np.sort(draw.uniform(0.02, 0.98, count)),
        confidence=draw.uniform(0, 1, count).astype(np.float32),
        p_label=draw.uniform(0, 0.5, count).astype(np.float32),
        p_guess=draw.uniform(0.5, 1, count).astype(np.float32),
        label=label,
        guess=((label + 1) % classes).astype(np.int32),
        vectors=draw.normal(size=(count, 8)).astype(np.float16),
    )


def by_trust(known, seed=1):
    """Verdicts as trust foretells them."""
    return np.random.default_rng(seed).random(len(known.trust)) > known.trust


def place_of(ranked, rows):
    """Mean place of these rows in the list, from 0 to 1."""
    return np.flatnonzero(np.isin(ranked.rows, rows)).mean() / len(ranked.rows)


def test_without_verdicts_the_list_is_as_it_was():
    known = evidence(rows=np.random.default_rng(0).permutation(1000)[:300])
    found = rerank(known, NOTHING, np.empty(0, bool))
    np.testing.assert_array_equal(found.rows, known.rows)
    np.testing.assert_array_equal(found.trust, known.trust)
    assert found.rest.examples == 300
    assert found.rest.low < (1 - known.trust).sum() < found.rest.high


def test_what_was_looked_at_leaves_the_list_and_the_rest_stays():
    known = evidence(rows=7 * np.arange(300))
    judged, unsure = known.rows[:30], known.rows[40:45]
    found = rerank(known, judged, by_trust(known)[:30], unsure=unsure)
    assert sorted(found.rows) == sorted(set(known.rows) - set(judged) - set(unsure))
    assert (np.diff(found.trust) >= 0).all()
    assert ((found.trust > 0) & (found.trust < 1)).all()
    assert found.rest.examples == 265
    assert found.ahead.examples == 100


def test_all_may_be_judged():
    known = evidence(40)
    found = rerank(known, known.rows, by_trust(known))
    assert len(found.rows) == 0
    assert found.rest.examples == found.ahead.examples == 0
    assert found.rest.rate == 0


def test_verdicts_that_agree_with_trust_change_little():
    known = evidence(600)
    judged = np.random.default_rng(3).permutation(600)[:100]
    found = rerank(known, judged, by_trust(known)[judged])
    before = known.trust[found.rows]
    assert np.corrcoef(before, found.trust)[0, 1] > 0.8
    assert abs(found.trust.mean() - before.mean()) < 0.08
    assert found.rest.low < (1 - before).sum() < found.rest.high


@pytest.mark.parametrize("what", ["label", "guess"])
def test_a_class_whose_suspects_are_all_wrong_comes_first(what):
    known = evidence()
    group = getattr(known, what) == 2
    judged = np.arange(60)
    found = rerank(known, judged, group[:60])
    alike = np.flatnonzero(group)[np.flatnonzero(group) >= 60]
    assert place_of(found, alike) < place_of(rerank(known, judged, by_trust(known)[:60]), alike) - 0.1


def test_what_the_network_sees_alike_is_judged_alike():
    known = evidence()
    side = known.vectors[:, 0] > 0
    found = rerank(known, np.arange(60), side[:60])
    left = np.arange(60, 300)
    assert place_of(found, left[side[60:]]) < place_of(found, left[~side[60:]]) - 0.2


def test_what_reviewers_put_in_the_place_of_wrong_labels_is_learned_too():
    """Class 0 on one side and 1 on the other; all that stands there under 2 or 3 is wrong."""
    known = evidence(400)
    truth = (known.vectors[:, 0] > 0).astype(np.int64)
    known = Evidence(**{**vars(known), "trust": np.linspace(0.4, 0.6, 400), "guess": known.label})
    wrong, judged, left = truth != known.label, np.arange(100), np.arange(100, 400)
    told = rerank(known, judged, wrong[judged], truth=truth[judged])
    untold = rerank(known, judged, wrong[judged])
    right = left[~wrong[100:]]
    assert place_of(told, right) > place_of(untold, right) + 0.02
    assert wrong[told.rows[:100]].mean() > 0.97


def test_trust_that_was_too_high_for_all_is_put_right():
    """Half of them are wrong, whatever trust says: 10 % by trust."""
    draw = np.random.default_rng(0)
    known = evidence(2000)
    known = Evidence(**{**vars(known), "trust": np.sort(draw.uniform(0.85, 0.95, 2000))})
    wrong = draw.random(2000) < 0.5
    found = rerank(known, np.arange(200), wrong[:200])
    assert found.rest.rate == pytest.approx(0.5, abs=0.12)
    assert found.rest.low < wrong[200:].sum() < found.rest.high
    assert found.ahead.low < wrong[found.rows[:100]].sum() < found.ahead.high


@pytest.mark.parametrize("trust", [(0.02, 0.2), (0.8, 0.98), (0.96, 0.999)])
def test_what_is_expected_is_what_trust_says(trust):
    """Also late in a review, where hardly any are wrong: what is not known widens the interval alone."""
    known = evidence(1000)
    known = Evidence(**{**vars(known), "trust": np.sort(np.random.default_rng(0).uniform(*trust, 1000))})
    found = rerank(known, np.arange(100), by_trust(known)[:100])
    for left in (found.ahead, found.rest):
        doubt = (1 - found.trust[: left.examples]).sum()
        assert left.errors == pytest.approx(np.clip(doubt, left.low, left.high))
        assert left.low < left.errors < left.high


def test_rows_that_are_no_suspects_teach_nothing():
    known = evidence(rows=np.arange(100, 400))
    judged, wrong = np.arange(100, 130), by_trust(known)[:30]
    found = rerank(known, judged, wrong)
    more = rerank(known, np.append(judged, [3, 9999]), np.append(wrong, [True, True]))
    np.testing.assert_array_equal(more.rows, found.rows)
    np.testing.assert_allclose(more.trust, found.trust)


def test_with_all_verdicts_as_landmarks_it_is_the_process_itself(monkeypatch):
    """log-odds = odds + K(x, judged)·(wrong − p), the condition that the likeliest log-odds meet."""
    known = evidence(120)
    points, judged = points_of(known), np.arange(50)
    wrong = by_trust(known)[:50].astype(float)
    monkeypatch.setattr(learning, "SCALES", (1.0,))
    found = learning.learn(points.take(judged), wrong, np.full(50, -1))
    p = learning.probability(found.log_odds(points.take(judged)))
    expected = points.odds + likeness(points, points.take(judged), Weights()) @ (wrong - p)
    np.testing.assert_allclose(found.log_odds(points), expected, atol=0.02)


def test_landmarks_stand_for_all_verdicts(monkeypatch):
    known = evidence(400)
    wrong = by_trust(known)
    every = rerank(known, np.arange(200), wrong[:200])
    monkeypatch.setattr(learning, "LANDMARKS", 100)
    some = rerank(known, np.arange(200), wrong[:200])
    np.testing.assert_allclose(np.sort(some.trust), np.sort(every.trust), atol=0.1)
    assert abs(some.rest.errors - every.rest.errors) < 0.15 * every.rest.errors


@pytest.mark.parametrize(
    "change", [{"vectors": np.zeros((300, 0), np.float16)}, {"trust": np.full(300, 0.5)}]
)
def test_evidence_that_says_nothing_is_no_obstacle(change):
    known = Evidence(**{**vars(evidence()), **change})
    found = rerank(known, np.arange(50), np.arange(50) % 2 == 0)
    assert np.isfinite(found.trust).all()


def test_verdicts_must_fit_their_rows():
    with pytest.raises(InputError, match="a verdict for each row"):
        rerank(evidence(), np.arange(3), np.array([True]))


def test_evidence_is_read_from_a_folder(tmp_path):
    known = evidence(20)
    with pytest.raises(MissingFileError, match=r"review\.npz: no such file; audit the data again"):
        read_evidence(tmp_path)
    np.savez(tmp_path / "review.npz", **vars(known), top=np.zeros(3))
    for name, values in vars(read_evidence(tmp_path)).items():
        np.testing.assert_array_equal(values, getattr(known, name))
    for content in (b"PK\x03\x04", b""):
        (tmp_path / "review.npz").write_bytes(content)
        with pytest.raises(FileError, match=r"review\.npz: not what an audit wrote"):
            read_evidence(tmp_path)


def test_a_server_needs_numpy_alone():
    heavy = "{'torch', 'pandas', 'sklearn', 'scipy'}"
    code = f"import sys, icelens.review.rerank; print(*{heavy} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == ""
