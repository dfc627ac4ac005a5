"""Re-ranking: whatever the verdicts are, the list is a permutation of what is left, and all numbers fit."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from icelens.review.rerank import Evidence, rerank


@st.composite
def reviews(draw):
    count = draw(st.integers(1, 40))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    extreme = draw(st.booleans())  # where the arithmetic would break: probabilities of 0 and 1
    p = generator.integers(0, 2, (4, count)).astype(float) if extreme else generator.random((4, count))
    classes = draw(st.integers(2, 5))
    label, guess = generator.integers(0, classes, (2, count)).astype(np.int32)
    width = draw(st.sampled_from([0, 1, 32]))
    vectors = (generator.normal(size=(count, width)) * draw(st.sampled_from([0, 1, 100]))).astype(np.float16)
    rows = generator.permutation(10 * count)[:count]
    trust, rest = np.sort(p[0]), p[1:].astype(np.float32)
    known = Evidence(rows, trust, *rest, label, guess, vectors)
    judged = generator.permutation(rows)[: draw(st.integers(0, count))]
    return known, judged, generator.random(len(judged)) < draw(st.sampled_from([0.0, 0.5, 1.0]))


@settings(deadline=None, max_examples=60)
@given(reviews())
def test_the_list_is_what_is_left_in_some_order_and_its_numbers_fit(review):
    known, judged, wrong = review
    found = rerank(known, judged, wrong, ahead=10)
    assert sorted(found.rows.tolist()) == sorted(set(known.rows.tolist()) - set(judged.tolist()))
    assert ((found.trust >= 0) & (found.trust <= 1)).all()
    assert (np.diff(found.trust) >= 0).all()
    for left in (found.ahead, found.rest):
        assert 0 <= left.low <= left.errors <= left.high <= left.examples
    assert found.rest.examples == len(known.rows) - len(judged)


@settings(deadline=None, max_examples=30)
@given(reviews())
def test_the_same_verdicts_give_the_same_list(review):
    one, other = rerank(*review), rerank(*review)
    np.testing.assert_array_equal(one.rows, other.rows)
    assert one.rest == other.rest
