"""ICEClassifier: scikit-learn's own checks, and what people do with a classifier."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris, make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from icelens.auditing.features import WIDEST
from icelens.errors import InputError
from icelens.integrations.sklearn import ICEClassifier

FAST = {"epochs": 5, "hidden": 16, "random_state": 0, "device": "cpu"}


def checks():
    found = list(estimator_checks_generator(ICEClassifier(device="cpu")))
    return [pytest.param(*pair, id=getattr(pair[1], "func", pair[1]).__name__) for pair in found]


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("estimator", "check"), checks())
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)  # it raises SkipTest where scikit-learn itself leaves a check out


def test_there_are_checks_and_none_is_switched_off():
    assert len(checks()) > 45
    assert not hasattr(ICEClassifier, "_more_tags")
    assert not ICEClassifier().__sklearn_tags__()._skip_test
    assert not ICEClassifier().__sklearn_tags__().non_deterministic


@pytest.fixture(scope="module")
def flipped():
    """Iris with 15 labels moved to the next class."""
    X, y = load_iris(return_X_y=True)
    rows = np.random.default_rng(0).permutation(150)[:15]
    given = y.copy()
    given[rows] = (given[rows] + 1) % 3
    return X, y, given, rows


@pytest.fixture(scope="module")
def model(flipped):
    X, _, given, _ = flipped
    return ICEClassifier(random_state=0, device="cpu").fit(X, given)


def test_it_predicts_the_true_labels_and_lists_the_wrong_ones(flipped, model):
    X, y, given, rows = flipped
    assert model.score(X, y) > 0.94
    listed = model.suspects(15)
    assert len(set(listed["index"]) & set(rows)) >= 12
    assert (listed["label"].to_numpy() == given[listed["index"]]).all()
    assert listed["trust"].is_monotonic_increasing
    found = model.suspects()
    assert 10 <= len(found) <= 25
    assert (found["guess"] != found["label"]).mean() > 0.8


def test_attributes_are_in_the_order_of_the_rows_and_low_is_suspicious(flipped, model):
    rows = flipped[3]
    others = np.setdiff1d(np.arange(150), rows)
    for score in (model.confidence_, model.label_quality_):
        assert score.shape == (150,)
        assert ((score >= 0) & (score <= 1)).all()
        assert np.median(score[rows]) < 0.5 < np.median(score[others])
    assert 8 < (1 - model.label_quality_).sum() < 25


def test_the_wrong_number_of_suspects_is_an_error(model):
    assert len(model.suspects(0)) == 0
    with pytest.raises(InputError, match="at least 0, got -1"):
        model.suspects(-1)
    with pytest.raises(NotFittedError):
        ICEClassifier().suspects()


def test_labels_keep_their_type(flipped):
    X, y, _, _ = flipped
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    fitted = ICEClassifier(random_state=0, epochs=30).fit(X, names)
    assert list(fitted.classes_) == ["setosa", "versicolor", "virginica"]
    assert fitted.score(X, names) > 0.9
    assert set(fitted.suspects(5)["label"]) <= set(names)
    assert ICEClassifier(**FAST).fit(X, pd.Series(y > 0)).predict(X).dtype == bool


def test_a_seed_gives_the_same_classifier_and_torchs_own_state_is_left(flipped):
    X, _, given, _ = flipped
    state = torch.get_rng_state()
    one, two, other = (ICEClassifier(**{**FAST, "random_state": seed}).fit(X, given) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(one.predict_proba(X), two.predict_proba(X))
    assert np.array_equal(one.label_quality_, two.label_quality_)
    assert not np.array_equal(one.predict_proba(X), other.predict_proba(X))


def test_a_pickle_is_opened_in_another_process(flipped, model, tmp_path):
    X = flipped[0]
    (tmp_path / "model.pickle").write_bytes(pickle.dumps(model))
    np.save(tmp_path / "X.npy", X)
    code = (
        "import pickle, numpy as np; model = pickle.load(open('model.pickle', 'rb')); "
        "np.save('p.npy', model.predict_proba(np.load('X.npy'))); model.suspects(3)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
    assert np.array_equal(np.load(tmp_path / "p.npy"), model.predict_proba(X))


def test_a_pickle_holds_no_tensor(model):
    assert b"torch" not in pickle.dumps(model)


def test_pipelines_searches_and_clones(flipped):
    X, _, given, _ = flipped
    search = GridSearchCV(
        make_pipeline(StandardScaler(), ICEClassifier(**FAST)), {"iceclassifier__hidden": [4, 64]}, cv=2
    ).fit(X, given)
    assert search.best_params_["iceclassifier__hidden"] == 64
    copy = clone(search.best_estimator_[-1])
    assert copy.hidden == 64
    assert not hasattr(copy, "confidence_")


def test_frames_have_named_columns(flipped):
    X, _, given, _ = flipped
    frame = pd.DataFrame(X, columns=list("abcd"))
    fitted = ICEClassifier(**FAST).fit(frame, pd.Series(given, index=range(1000, 1150)))
    assert list(fitted.feature_names_in_) == list("abcd")
    assert np.array_equal(fitted.predict_proba(frame), ICEClassifier(**FAST).fit(X, given).predict_proba(X))
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(frame[list("dcba")])


def test_columns_of_words_are_refused_and_go_through_an_encoder(flipped):
    X, _, given, _ = flipped
    frame = pd.DataFrame({"a": X[:, 2], "b": np.where(X[:, 3] > 1, "wide", "narrow")})
    with pytest.raises(ValueError, match="could not convert string to float"):
        ICEClassifier(**FAST).fit(frame, given)
    encode = make_column_transformer((OneHotEncoder(), ["b"]), remainder="passthrough")
    both = make_pipeline(encode, ICEClassifier(**{**FAST, "epochs": 30})).fit(frame, given)
    assert both.score(frame, given) > 0.6


@pytest.mark.parametrize("form", [scipy.sparse.csr_matrix, scipy.sparse.csc_array, scipy.sparse.coo_array])
def test_sparse_is_the_same_as_dense(flipped, form):
    X, _, given, _ = flipped
    dense, sparse = ICEClassifier(**FAST).fit(X, given), ICEClassifier(**FAST).fit(form(X), given)
    assert np.allclose(dense.predict_proba(X), sparse.predict_proba(form(X)), atol=1e-6)
    assert np.allclose(sparse.predict_proba(X), sparse.predict_proba(form(X)))


def test_a_wide_sparse_matrix_meets_a_linear_layer():
    words = {0: "sun sea sand", 1: "snow ice frost", 2: "rain mud fog"}
    y = np.arange(300) % 3
    generator = np.random.default_rng(0)
    texts = [" ".join(generator.choice(words[c].split(), 4)) + f" word{i % 40}" for i, c in enumerate(y)]
    X = HashingVectorizer(n_features=2**16, alternate_sign=False).transform(texts)
    assert X.shape[1] > WIDEST
    given = y.copy()
    given[:9] = (given[:9] + 1) % 3
    fitted = ICEClassifier(random_state=0, device="cpu").fit(X, given)
    assert [weight.shape for weight in fitted.coefs_] == [(2**16, 3)]
    assert fitted.score(X, y) > 0.95
    assert len(set(fitted.suspects(9)["index"]) & set(range(9))) >= 7
    assert np.allclose(fitted.predict_proba(X[:3].toarray()), fitted.predict_proba(X[:3]))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"hidden": 0}, "hidden must be an integer of at least 1, got 0"),
        ({"epochs": 2.5}, r"epochs must be an integer of at least 1, got 2\.5"),
        ({"batch_size": True}, "batch_size must be an integer of at least 1, got True"),
        ({"learning_rate": 0.0}, r"learning_rate must be above 0 and finite, got 0\.0"),
        ({"weight_decay": None}, "weight_decay must be at least 0 and finite, got None"),
        ({"dropout": 1}, r"dropout must lie in \[0, 1\), got 1"),
        ({"device": "cup"}, "device"),
    ],
)
def test_settings_that_cannot_be_are_errors(flipped, setting, message):
    with pytest.raises(ValueError, match=message):
        ICEClassifier(**{**FAST, **setting}).fit(*flipped[:2])


def test_each_setting_of_the_network_changes_it(flipped):
    X, _, given, _ = flipped
    plain = ICEClassifier(**FAST).fit(X, given).predict_proba(X)
    others = {
        "hidden": 8, "dropout": 0.5, "epochs": 6, "batch_size": 8, "learning_rate": 0.1, "weight_decay": 1.0
    }  # fmt: skip
    for name, value in others.items():
        changed = ICEClassifier(**{**FAST, name: value}).fit(X, given).predict_proba(X)
        assert not np.array_equal(changed, plain), name


def test_one_class_alone_is_an_error():
    with pytest.raises(ValueError, match=r"at least 2 classes in the data.*only one class: 'a'"):
        ICEClassifier(**FAST).fit([[1.0], [2.0]], ["a", "a"])


def test_two_rows_are_enough_and_a_lone_last_row_is_no_trouble():
    fitted = ICEClassifier(random_state=0, device="cpu").fit([[0.0], [1.0]], ["a", "b"])
    assert list(fitted.predict([[0.0], [1.0]])) == ["a", "b"]
    ICEClassifier(**FAST).fit(*make_blobs(33, random_state=0))


def test_scales_far_apart_constant_columns_and_huge_numbers_do_not_matter(flipped):
    X, y, _, _ = flipped
    plain = np.hstack([X, np.zeros((150, 1))])
    odd = np.hstack([X * [1e-200, 1.0, 1e200, 1e307], np.full((150, 1), 0.1)])
    found, wanted = (ICEClassifier(**FAST).fit(some, y).predict_proba(some) for some in (odd, plain))
    assert np.allclose(found, wanted, atol=1e-5)


def test_sample_weight_is_not_taken(flipped):
    with pytest.raises(TypeError, match="sample_weight"):
        ICEClassifier(**FAST).fit(*flipped[:2], sample_weight=np.ones(150))


def test_a_row_has_the_same_prediction_in_any_company(flipped, model):
    X = flipped[0]
    alone = np.vstack([model.predict_proba(X[i : i + 1]) for i in range(5)])
    assert np.allclose(alone, model.predict_proba(X)[:5], rtol=1e-12)
