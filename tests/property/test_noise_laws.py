"""Laws over all noises: matrices, rates, seeds, and what instance-dependent noise depends on."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icelens.matrices import check_transition
from icelens.noise import (
    NOISES,
    add_noise,
    anchor_transition,
    corrupt,
    count_transition,
    dirichlet_matrix,
    instance,
    pair_matrix,
    symmetric_matrix,
)

MATRICES = {"symmetric": symmetric_matrix, "pair": pair_matrix, "dirichlet": dirichlet_matrix}
SIGMAS = 4.5

rates = st.sampled_from([0.0, 1e-3, 0.5, 0.999]) | st.floats(0, 1, exclude_max=True)
classes_of = st.sampled_from([2, 3, 10, 100])
seeds = st.integers(0, 2**31)
every_noise = pytest.mark.parametrize("name", NOISES)


def few(examples):
    return settings(max_examples=examples, deadline=None, derandomize=True)


def within(count, trials, chance):
    """Whether a binomial count lies within 4.5 standard deviations; a rare one within 20 at most."""
    return abs(count - trials * chance) <= SIGMAS * math.sqrt(trials * chance * (1 - chance)) + 20 * (
        chance < 0.01
    )


def clean(count, classes, seed=0):
    return torch.randint(classes, (count,), generator=torch.Generator().manual_seed(seed))


def features(count, seed=0, width=6):
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed + 1))


@pytest.mark.parametrize("name", MATRICES)
@given(classes=classes_of, rate=rates)
@few(30)
def test_a_matrix_has_rows_that_sum_to_one_and_moves_labels_at_its_rate(name, classes, rate):
    matrix = MATRICES[name](classes, rate)
    check_transition(matrix)
    assert matrix.shape == (classes, classes)
    assert (matrix >= 0).all()
    torch.testing.assert_close(matrix.sum(1), torch.ones(classes, dtype=torch.float64), rtol=0, atol=1e-12)
    torch.testing.assert_close(matrix.diagonal(), torch.full((classes,), 1 - rate, dtype=torch.float64))


@every_noise
@given(classes=classes_of, rate=rates, seed=seeds)
@few(15)
def test_the_share_that_moves_is_the_rate_and_moved_says_which(name, classes, rate, seed):
    labels = clean(3000, classes, seed)
    before = labels.clone()
    given_labels, moved = add_noise(name, labels, classes, rate, seed=seed, features=features(3000))
    assert torch.equal(labels, before)
    assert given_labels.dtype == torch.int64
    assert torch.equal(moved, given_labels != labels)
    assert 0 <= given_labels.min() <= given_labels.max() < classes
    assert within(int(moved.sum()), 3000, rate)
    if rate == 0:
        assert not moved.any()


@every_noise
def test_a_seed_is_a_noise(name):
    labels, x = clean(2000, 10), features(2000)
    first, again, other = (add_noise(name, labels, 10, 0.4, seed=s, features=x) for s in (3, 3, 4))
    assert torch.equal(first.labels, again.labels)
    assert not torch.equal(first.labels, other.labels)
    state = torch.get_rng_state()
    add_noise(name, labels, 10, 0.4, seed=3, features=x)
    assert torch.equal(torch.get_rng_state(), state), "the global generator is the user's"


@given(seed=seeds, classes=st.sampled_from([2, 5]))
@few(10)
def test_every_transition_has_its_share(seed, classes):
    """Any matrix, also one with zeros: a class of chance zero is never drawn."""
    matrix = torch.rand(classes, classes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    matrix[0, -1] = matrix[-1, 0] = 0
    matrix /= matrix.sum(1, keepdim=True)
    labels = clean(20_000, classes, seed)
    noisy = corrupt(labels, matrix, seed=seed)
    for true in range(classes):
        rows = noisy.labels[labels == true]
        for given_label in range(classes):
            count = int((rows == given_label).sum())
            chance = float(matrix[true, given_label])
            assert within(count, len(rows), chance)
            assert chance > 0 or count == 0
    torch.testing.assert_close(count_transition(labels, noisy.labels, classes), matrix, rtol=0, atol=0.05)


@given(seed=seeds)
@few(5)
def test_where_flips_go(seed):
    labels = clean(5000, 7, seed)
    flipped, moved = add_noise("pair", labels, 7, 0.6, seed=seed)
    assert torch.equal(flipped[moved], (labels[moved] + 1) % 7)
    flipped, moved = add_noise("symmetric", labels, 7, 0.6, seed=seed)
    distance = (flipped[moved] - labels[moved]) % 7
    for step in range(1, 7):
        assert within(int((distance == step).sum()), len(distance), 1 / 6)


@given(seed=seeds)
@few(5)
def test_the_anchors_of_posteriors_without_doubt_give_the_matrix_back(seed):
    """More than 3 % of all examples are certain of each class, so that the percentile leaves anchors."""
    generator = torch.Generator().manual_seed(seed)
    matrix = 0.7 * torch.eye(4).double() + 0.3 * dirichlet_matrix(4, 0.5, seed=seed)
    doubt = torch.rand(4000, 1, generator=generator, dtype=torch.float64) ** 4
    doubt[torch.rand(4000, generator=generator) < 0.5] = 0
    truth = torch.eye(4).double()[clean(4000, 4, seed)]
    posterior = (1 - doubt) * truth + doubt * torch.rand(4000, 4, generator=generator).softmax(1)
    noisy = posterior @ matrix
    torch.testing.assert_close(anchor_transition(noisy, percentile=None), matrix, rtol=0, atol=1e-6)
    # By the rule as published the anchor lies strictly below the percentile: the best that has doubts.
    torch.testing.assert_close(anchor_transition(noisy), matrix, rtol=0, atol=0.01)


def chi_square(table):
    """Pearson's statistic of a table of counts, and its degrees of freedom."""
    table = table[:, table.sum(0) > 0]
    expected = table.sum(1, keepdim=True) * table.sum(0) / table.sum()
    freedom = (table.shape[0] - 1) * (table.shape[1] - 1)
    return float(((table - expected) ** 2 / expected).sum()), freedom


def flips_by_group(group, noisy, classes):
    """How often an example of each group was flipped to each class."""
    return torch.stack(
        [torch.bincount(noisy.labels[noisy.moved & (group == g)], minlength=classes) for g in range(2)]
    ).double()


@given(seed=seeds)
@few(5)
def test_instance_noise_flips_alike_what_looks_alike_and_differently_what_does_not(seed):
    classes, count = 6, 8000
    labels = torch.zeros(count, dtype=torch.int64)
    group = torch.arange(count) % 2
    two_looks = features(2, seed, width=4)[group]
    noisy = instance(labels, classes, 0.5, seed=seed, features=two_looks)
    statistic, freedom = chi_square(flips_by_group(group, noisy, classes))
    assert statistic > 10 * (freedom + SIGMAS * math.sqrt(2 * freedom))
    half = torch.arange(count) // 2 % 2  # a split that the features know nothing of
    statistic, freedom = chi_square(flips_by_group(half, noisy, classes))
    assert statistic < freedom + SIGMAS * math.sqrt(2 * freedom) + 10


@given(seed=seeds, rate=st.sampled_from([0.05, 0.3, 0.5, 0.9]))
@few(8)
def test_instance_noise_has_its_mean_rate_in_every_class(seed, rate):
    labels = clean(20_000, 4, seed)
    noisy = instance(labels, 4, rate, seed=seed, features=features(20_000, seed))
    for true in range(4):
        rows = noisy.moved[labels == true]
        assert within(int(rows.sum()), len(rows), rate)


@given(seed=seeds, scale=st.sampled_from([1e-8, 0.5, 1e6]), shift=st.sampled_from([-3.0, 0.0, 100.0]))
@few(10)
def test_instance_noise_does_not_see_the_units_of_the_features(seed, scale, shift):
    labels, x = clean(2000, 5, seed), features(2000, seed).double()
    x = torch.cat([x, torch.full((2000, 1), 0.1)], 1)  # one that never varies has no say
    usual = instance(labels, 5, 0.4, seed=seed, features=x)
    other = instance(labels, 5, 0.4, seed=seed, features=(x + shift) * scale)
    assert torch.equal(usual.labels, other.labels)
