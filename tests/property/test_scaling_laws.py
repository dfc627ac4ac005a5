"""Columns of any finite numbers become small finite ones, whatever their scale, form or company."""

import numpy as np
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from icelens.auditing.features import FARTHEST
from icelens.integrations.scaling import Scaling

# Up to the end of float64, where a square would be infinite, and down to where it would be 0.
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
TABLES = arrays(np.float64, array_shapes(min_dims=2, max_dims=2, max_side=8), elements=NUMBERS)


@settings(deadline=None)
@given(TABLES, TABLES)
def test_all_is_finite_and_near_zero_also_for_rows_that_were_not_learned_from(X, other):
    scaling = Scaling.learn(X)
    width = min(X.shape[1], other.shape[1])
    rows = np.zeros((len(other), X.shape[1]))
    rows[:, :width] = other[:, :width]
    for scaled in (scaling.all(X), scaling.all(rows)):
        assert np.isfinite(scaled).all()
        assert (abs(scaled) <= FARTHEST).all()


@settings(deadline=None)
@given(TABLES, st.integers(-200, 200))
def test_a_power_of_two_and_the_form_change_nothing(X, power):
    X = np.clip(X, -1e200, 1e200) * (abs(X) > 1e-200)
    plain = Scaling.learn(X).all(X)
    assert np.array_equal(Scaling.learn(X * 2.0**power).all(X * 2.0**power), plain)
    sparse = scipy.sparse.csr_matrix(X)
    assert np.array_equal(Scaling.learn(sparse).all(sparse), plain)


@settings(deadline=None)
@given(TABLES)
def test_columns_have_mean_zero_and_unit_spread_unless_they_are_constant(X):
    scaled = Scaling.learn(X).all(X).astype(np.float64)  # at most 8 rows reach no farther than √8
    assert (abs(scaled.mean(0)) < 1e-3).all()
    spread = scaled.std(0)
    assert ((abs(spread - 1) < 1e-3) | (spread < 1e-6)).all()
