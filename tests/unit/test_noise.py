"""Noise and the estimators of its matrix: messages, ends of the range, memory."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from icelens import noise
from icelens.errors import InputError
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

LABELS = torch.tensor([0, 1, 2, 1])
FEATURES = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("rate", [1.0, 1.2, -0.1, float("nan")])
def test_a_rate_outside_its_range_is_refused(name, rate):
    with pytest.raises(InputError, match=rf"noise_rate must lie in \[0, 1\), got {rate}"):
        add_noise(name, LABELS, 3, rate, features=FEATURES)


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 3, 1], r"labels hold class 3 but there are 3 classes \(0–2\); first at index 1"),
        ([0, 1, -1], "labels hold class -1 .* first at index 2"),
        ([0.0, 1.0, 2.0], r"labels must be \(examples,\) integers, got torch.float32"),
        ([[0], [1], [2]], r"labels must be \(examples,\) integers, .* shape \(3, 1\)"),
    ],
)
def test_wrong_labels_are_one_clear_error(name, labels, message):
    with pytest.raises(InputError, match=message):
        add_noise(name, torch.tensor(labels), 3, 0.3, features=FEATURES[:3])


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("kind", [list, np.array])
def test_what_is_no_tensor_is_refused_and_how_to_make_one_told(name, rate, kind):
    labels = kind([0, 1, 2, 1])
    message = rf"labels must be a tensor, got {type(labels).__name__}; torch.as_tensor\(labels\) makes one"
    with pytest.raises(InputError, match=message):
        add_noise(name, labels, 3, rate, features=FEATURES)


@pytest.mark.parametrize("name", NOISES)
def test_one_class_has_nowhere_to_flip(name):
    with pytest.raises(InputError, match="label noise needs at least two classes, got 1"):
        add_noise(name, torch.zeros(3, dtype=torch.int64), 1, 0.3, features=FEATURES[:3])


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("classes", [1, 3])
def test_a_rate_of_zero_leaves_any_labels_as_they_are_and_needs_no_features(name, classes):
    labels = torch.arange(6, dtype=torch.uint8) % classes
    noisy = add_noise(name, labels, classes, 0.0)
    assert torch.equal(noisy.labels, labels)
    assert noisy.labels.dtype == torch.uint8
    assert noisy.labels.data_ptr() != labels.data_ptr()
    assert not noisy.moved.any()


def test_a_rate_of_zero_still_wants_labels_that_are_classes():
    with pytest.raises(InputError, match="labels hold class 2 but there are 2 classes"):
        add_noise("pair", LABELS, 2, 0.0)
    with pytest.raises(InputError, match="unknown noise 'symetric'"):
        add_noise("symetric", LABELS, 3, 0.0)


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize(
    ("dtype", "classes", "after"),
    [
        (torch.uint8, 256, torch.uint8), (torch.uint8, 300, torch.int64),
        (torch.int8, 128, torch.int8), (torch.int8, 200, torch.int64), (torch.int16, 300, torch.int16),
        (torch.uint16, 300, torch.uint16),
    ],
)  # fmt: skip
def test_labels_of_a_narrow_type_flip_as_int64_does_and_get_room_for_all_classes(name, dtype, classes, after):
    labels = torch.arange(400) % 120
    features = torch.randn(400, 2)
    for rate in (0.0, 0.5):
        wanted = add_noise(name, labels, classes, rate, features=features)
        noisy = add_noise(name, labels.to(dtype), classes, rate, features=features)
        assert noisy.labels.dtype == after
        assert torch.equal(noisy.labels.long(), wanted.labels)
        assert torch.equal(noisy.moved, wanted.moved)
        if name == "symmetric" and rate:
            assert int(wanted.labels.max()) > 0.9 * classes  # a type that is too narrow would show


def test_an_unknown_noise_says_what_was_meant():
    with pytest.raises(InputError, match="unknown noise 'symetric'; did you mean 'symmetric'"):
        add_noise("symetric", LABELS, 3, 0.3)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (None, "instance-dependent noise needs the features"),
        (torch.zeros(5, 2), "there are 4 labels but features of 5 examples"),
        (np.zeros((4, 2)), r"features must be a tensor, got ndarray; torch.as_tensor\(features\)"),
        (torch.tensor([[0.0], [1.0], [float("nan")], [2.0]]), "features must be finite; .* at index 2"),
        (torch.tensor([[0.0], [float("inf")], [1.0], [2.0]]), "features must be finite; .* at index 1"),
    ],
)
def test_features_that_cannot_be_used_are_refused(features, message):
    with pytest.raises(InputError, match=message):
        instance(LABELS, 3, 0.3, features=features)


def test_a_nan_beyond_the_first_chunk_is_found_where_it_is(monkeypatch):
    monkeypatch.setattr(noise, "CHUNK", 3)
    features = torch.zeros(8, 2)
    features[7, 1] = float("nan")
    with pytest.raises(InputError, match="at index 7"):
        instance(torch.zeros(8, dtype=torch.int64), 3, 0.3, features=features)


def test_chunks_change_nothing(monkeypatch):
    labels, features = torch.arange(50) % 3, torch.randn(50, 2, 2)
    usual = instance(labels, 3, 0.5, features=features).labels
    monkeypatch.setattr(noise, "CHUNK", 7)
    assert torch.equal(instance(labels, 3, 0.5, features=features).labels, usual)


def test_features_may_be_images_bytes_or_all_the_same():
    images = torch.randint(256, (4, 2, 2), dtype=torch.uint8)
    assert torch.equal(
        instance(LABELS, 3, 0.9, features=images).labels,
        instance(LABELS, 3, 0.9, features=images.float() / 255).labels,
    )
    alike = instance(torch.zeros(3000, dtype=torch.int64), 3, 0.5, features=torch.full((3000, 2), 0.1))
    assert torch.bincount(alike.labels).tolist() == pytest.approx([1500, 750, 750], abs=120)


@pytest.mark.parametrize("name", NOISES)
def test_no_labels_are_no_error(name):
    none = torch.zeros(0, dtype=torch.int64)
    assert len(add_noise(name, none, 3, 0.5, features=torch.zeros(0, 4)).labels) == 0


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32])
def test_labels_keep_their_type(dtype):
    labels = (torch.arange(1000) % 100).to(dtype)
    noisy = corrupt(labels, symmetric_matrix(100, 0.5))
    assert noisy.labels.dtype == dtype
    wide = corrupt(labels.long(), symmetric_matrix(100, 0.5))
    assert torch.equal(noisy.labels.long(), wide.labels)
    assert torch.equal(
        count_transition(labels, noisy.labels, 100), count_transition(labels.long(), wide.labels, 100)
    )


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (torch.ones(2, 3) / 3, r"\(classes, classes\), got shape \(2, 3\)"),
        (torch.tensor([[1.0, 0.0], [0.5, 0.4]]), "row 1 sums to 0.9000"),
        (torch.tensor([[1.5, -0.5], [0.5, 0.5]]), "row 0, column 0 is 1.5"),
        (torch.zeros(0, 0), r"got shape \(0, 0\)"),
        ([[1.0, 0.0], [0.0, 1.0]], "transition must be a tensor, got list"),
    ],
)
def test_a_matrix_of_ones_own_is_checked(matrix, message):
    with pytest.raises(InputError, match=message):
        corrupt(torch.tensor([0, 1]), matrix)


def test_a_row_that_sums_to_almost_one_draws_no_class_of_chance_zero():
    matrix = torch.tensor([[0.99992, 0.0], [0.0, 1.0]])
    assert not corrupt(torch.zeros(200_000, dtype=torch.int64), matrix).labels.any()


def test_a_matrix_that_moves_every_label_is_allowed_by_hand():
    swap = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    noisy = corrupt(torch.tensor([0, 1, 1]), swap)
    assert noisy.labels.tolist() == [1, 0, 0]
    assert noisy.moved.all()


def test_pairs_of_two_classes_are_symmetric_noise():
    torch.testing.assert_close(pair_matrix(2, 0.3), symmetric_matrix(2, 0.3))


def test_a_small_concentration_sends_flips_to_one_class():
    low, high = (dirichlet_matrix(10, 0.5, concentration=c) for c in (0.01, 1000.0))
    assert (low - 0.5 * torch.eye(10)).amax(1).median() > 0.45
    assert (high - symmetric_matrix(10, 0.5)).abs().max() < 0.02
    with pytest.raises(InputError, match=r"concentration must be at least 0.01, got 0"):
        dirichlet_matrix(10, 0.5, concentration=0)


def test_dirichlet_noise_is_the_matrix_of_its_seed():
    labels = torch.arange(60_000) % 3
    noisy = add_noise("dirichlet", labels, 3, 0.5, seed=5)
    seen = count_transition(labels, noisy.labels, 3)
    torch.testing.assert_close(seen, dirichlet_matrix(3, 0.5, seed=5), rtol=0, atol=0.02)


class TestCounting:
    def test_a_class_without_examples_keeps_its_labels(self):
        counted = count_transition(torch.tensor([0, 0]), torch.tensor([0, 1]), 3)
        assert counted.tolist() == [[0.5, 0.5, 0], [0, 1, 0], [0, 0, 1]]

    def test_a_prior_is_added_to_every_count(self):
        counted = count_transition(torch.tensor([0, 0]), torch.tensor([0, 0]), 2, prior=1.0)
        assert counted.tolist() == [[0.75, 0.25], [0.5, 0.5]]

    @pytest.mark.parametrize("prior", [-1.0, float("nan"), float("inf")])
    def test_a_prior_that_is_no_count_is_refused(self, prior):
        with pytest.raises(InputError, match=f"prior must be finite and at least 0, got {prior}"):
            count_transition(torch.tensor([0]), torch.tensor([0]), 2, prior=prior)

    def test_the_two_kinds_of_labels_are_equally_many(self):
        with pytest.raises(InputError, match="there are 1 clean labels but 4 labels"):
            count_transition(torch.tensor([0]), LABELS, 3)


class TestAnchors:
    def test_the_anchor_lies_below_the_percentile_as_published(self):
        """The published rule by numpy: zero what is at or above the 'higher' percentile, then argmax."""
        p = torch.randn(137, 4, generator=torch.Generator().manual_seed(1)).softmax(1).double()
        p[torch.rand(137, generator=torch.Generator().manual_seed(2)) < 0.1, 0] = 1.0
        p = p / p.sum(1, keepdim=True)
        seen = anchor_transition(p)
        for i in range(4):
            column = p[:, i].numpy().copy()
            column[column >= np.percentile(column, 97, method="higher")] = 0
            torch.testing.assert_close(seen[i], p[int(column.argmax())])

    def test_where_all_are_alike_any_is_the_anchor(self):
        p = torch.tensor([[0.8, 0.2]] * 5)
        torch.testing.assert_close(anchor_transition(p), p[:2].double())

    @pytest.mark.parametrize(
        ("p", "message"),
        [
            (torch.zeros(0, 3), r"probabilities must be \(examples, classes\), got shape \(0, 3\)"),
            (np.eye(3), "probabilities must be a tensor, got ndarray"),
            (torch.tensor([[0.5, 0.5], [3.0, -2.0]]), "row 1 does not"),
            (torch.tensor([[0.5, 0.5], [float("nan"), 1.0]]), "row 1 does not"),
        ],
    )
    def test_what_are_no_probabilities_is_refused(self, p, message):
        with pytest.raises(InputError, match=message):
            anchor_transition(p)

    def test_a_percentile_is_one(self):
        with pytest.raises(InputError, match=r"percentile must lie in \(0, 100\], got 101"):
            anchor_transition(torch.eye(2), percentile=101)


MEMORY = """
import resource, torch
from icelens.noise import add_noise
torch.set_num_threads(1)
labels = torch.arange(1_000_000) % 100
features = torch.randn(200_000, 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
add_noise("symmetric", labels, 100, 0.5)
add_noise("instance", labels[:200_000], 100, 0.5, features=features)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_a_million_labels_of_a_hundred_classes_take_no_gigabytes():
    """One float64 for each label and class would be 800 MB (160 MB for the 200,000 with features)."""
    run = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 150
