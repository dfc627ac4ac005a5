"""What reviewers are shown beside a suspect: neighbours, top classes, and the network as it was trained."""

import json
from functools import lru_cache

import numpy as np
import pytest
import scipy.sparse
import torch
from audit_data import digits, iris, reviews, shapes, shorten
from safetensors.torch import load_file

from icelens.auditing import aids as module
from icelens.auditing import neighbours
from icelens.auditing.aids import suspect_rows
from icelens.auditing.audit import audit_labelled
from icelens.auditing.features import inputs_of
from icelens.auditing.fit import fit, log_probabilities
from icelens.auditing.neighbours import nearest, trusted_pool
from icelens.auditing.network import load_network
from icelens.auditing.public import run_audit
from icelens.auditing.views import compressed, view_of
from icelens.data import from_arrays
from icelens.errors import FileError, InputError, MissingFileError


def sparse_digits():
    X, y, _ = digits(0.1)
    return from_arrays(scipy.sparse.csr_matrix(X), y)


DATA = {
    "table": iris,
    "sparse": sparse_digits,
    "text": lambda: from_arrays(*reviews()[:2]),
    "image": lambda: from_arrays(*shapes()),
}


@pytest.fixture(autouse=True)
def short(monkeypatch):
    shorten(monkeypatch)


@lru_cache
def audited(kind):
    """The data and its audit, made once for the tests that only read it."""
    data = DATA[kind]()
    return data, audit_labelled(data, device="cpu", reviewed=True)


@pytest.mark.parametrize("kind", DATA)
def test_neighbours_are_trusted_and_of_the_class_that_they_stand_for(kind):
    data, audit = audited(kind)
    found, examples = audit.aids, audit.examples
    np.testing.assert_array_equal(found.rows, np.argsort(examples["trust"], kind="stable"))
    np.testing.assert_array_equal(found.label, data.labels[found.rows])
    for name in ("trust", "confidence", "p_label", "p_guess"):
        np.testing.assert_array_equal(getattr(found, name), examples[name].to_numpy()[found.rows])
    guess = examples["guess"].cat.codes.to_numpy()
    for near, wanted in ((found.near_label, found.label), (found.near_guess, found.guess)):
        asked, place = np.nonzero(near >= 0)
        rows = near[asked, place]
        assert (data.labels[rows] == wanted[asked]).all()
        assert (rows != found.rows[asked]).all()
        assert not examples["is_issue"].to_numpy()[rows].any()
        assert (guess[rows] == data.labels[rows]).all()
    assert (found.near_label >= 0).any()
    same = found.guess == found.label
    assert (found.near_guess[same] == -1).all()


@pytest.mark.parametrize("kind", DATA)
def test_top_classes_begin_with_the_likeliest(kind):
    _, audit = audited(kind)
    found, classes = audit.aids, len(audit.by_class)
    known = found.top >= 0
    assert (known.sum(1) == min(5, classes)).all()
    assert (np.diff(np.where(known, found.top_p, 0), axis=1) <= 0).all()
    at = found.top == found.guess[:, None]
    np.testing.assert_allclose(found.top_p[at], found.p_guess[at.any(1)], rtol=1e-5)
    if classes <= 5:
        np.testing.assert_allclose(found.top_p.sum(1), 1, rtol=1e-4)


def test_an_audit_that_nobody_reviews_has_none():
    audit = audit_labelled(iris(), device="cpu")
    assert audit.aids is None
    assert audit.weights is None


def test_the_number_of_suspects_is_bounded(monkeypatch):
    examples = audit_labelled(iris(), device="cpu").examples
    issues = int(examples["is_issue"].sum())
    monkeypatch.setattr(module, "FEWEST", 5)
    monkeypatch.setattr(module, "BEYOND", 2)
    assert len(suspect_rows(examples)) == max(5, issues + 2)
    monkeypatch.setattr(module, "MOST", 3)
    assert len(suspect_rows(examples)) == 3


@pytest.mark.parametrize("sparse", [False, True])
def test_the_nearest_are_those_of_a_plain_loop(sparse, monkeypatch):
    monkeypatch.setattr(neighbours, "CHUNK", 7)
    draw = np.random.default_rng(0)
    views = draw.normal(size=(60, 6)).astype(np.float32)
    views /= np.linalg.norm(views, axis=1, keepdims=True)
    rows, pool = np.arange(30), np.arange(20, 60)
    labels, wanted = draw.integers(0, 3, 60), draw.integers(-1, 3, 30)
    held = (scipy.sparse.csr_matrix(part) for part in (views[rows], views[pool]))
    suspects, trusted = held if sparse else (views[rows], views[pool])
    found = nearest(suspects, trusted, (rows, pool), wanted, labels[pool])
    for row, want in zip(rows, wanted, strict=True):
        others = [place for place in range(40) if labels[pool[place]] == want and pool[place] != row]
        others.sort(key=lambda place: -float(views[row] @ views[pool[place]]))
        assert found[row].tolist() == (others + [-1] * 3)[:3]


def test_a_class_with_few_trusted_examples_leaves_places_empty():
    views = np.eye(4, dtype=np.float32)
    rows, pool = np.array([0]), np.array([0, 1, 2])
    found = nearest(views[rows], views[pool], (rows, pool), np.array([5]), np.array([5, 5, 6]))
    assert found.tolist() == [[1, -1, -1]]
    none = nearest(views[rows], views[pool], (rows, pool), np.array([7]), np.array([5, 5, 6]))
    assert none.tolist() == [[-1, -1, -1]]


def test_the_pool_is_drawn_from_the_better_half_of_each_class(monkeypatch):
    monkeypatch.setattr(neighbours, "POOL_OF_CLASS", 10)
    labels, trust = np.arange(200) % 4, np.linspace(0, 1, 200)
    fit_for = np.ones(200, dtype=bool)
    fit_for[150:] = False
    found = trusted_pool(labels, trust, fit_for, 4)
    assert np.bincount(labels[found]).tolist() == [10] * 4
    assert found.min() >= 75 - 4
    assert found.max() < 150
    assert len(trusted_pool(labels, trust, np.zeros(200, dtype=bool), 4)) == 0


@pytest.mark.parametrize("kind", DATA)
def test_a_view_has_unit_rows_and_few_numbers_describe_it(kind):
    data = DATA[kind]()
    inputs, labels = inputs_of(data, torch.device("cpu")), torch.from_numpy(data.labels)
    run = fit(inputs, labels, len(data.classes), keep=True)
    view = view_of(inputs, run.weights, len(data.classes), np.arange(40))
    length = np.sqrt(
        np.asarray(view.multiply(view).sum(1) if scipy.sparse.issparse(view) else (view**2).sum(1))
    )
    np.testing.assert_allclose(length[length > 0], 1, rtol=1e-4)
    vectors = compressed(view)
    assert vectors.dtype == np.float16
    assert vectors.shape[0] == 40
    assert vectors.shape[1] <= 32
    assert np.isfinite(vectors).all()


def test_rows_that_are_alike_have_vectors_that_are():
    draw = np.random.default_rng(0)
    view = np.repeat(draw.normal(size=(2, 50)), 20, axis=0) + 0.01 * draw.normal(size=(40, 50))
    vectors = compressed(view).astype(float)
    within = np.linalg.norm(vectors[0] - vectors[1])
    assert within < 0.1 * np.linalg.norm(vectors[0] - vectors[30])


@pytest.mark.parametrize("kind", DATA)
def test_the_network_is_built_again_and_says_the_same(kind, tmp_path):
    data = DATA[kind]()
    found = run_audit(data, out=tmp_path, device="cpu", report=False)
    inputs, network = load_network(tmp_path, data)
    labels = torch.from_numpy(data.labels)
    expected = fit(inputs, labels, len(data.classes)).log_p
    np.testing.assert_allclose(
        log_probabilities(inputs, network, torch.arange(len(data))), expected, atol=1e-4
    )
    assert load_file(tmp_path / "model.safetensors").keys() == network.state_dict().keys()
    with np.load(tmp_path / "review.npz", allow_pickle=False) as stored:
        assert set(stored) == set(module.Aids.__dataclass_fields__)
        assert len(stored["rows"]) == len(found.examples)


def test_a_network_of_other_data_and_damaged_weights_are_told(tmp_path):
    run_audit(iris(), out=tmp_path, device="cpu", report=False)
    with pytest.raises(InputError, match="its network was made for other data than arrays"):
        load_network(tmp_path, from_arrays(*digits(0.1)[:2]))
    path = tmp_path / "model.safetensors"
    for content in (b"", json.dumps({}).encode()):
        path.write_bytes(content)
        with pytest.raises(FileError, match=r"model\.safetensors"):
            load_network(tmp_path, iris())
    path.unlink()
    with pytest.raises(MissingFileError, match="audit the data again"):
        load_network(tmp_path, iris())
