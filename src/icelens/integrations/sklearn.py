"""ICEClassifier: a scikit-learn classifier that wrong labels spoil less, and that says which they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from icelens.auditing.features import WIDEST
from icelens.auditing.inputs import Bags, Features, Plan, bags_of
from icelens.errors import InputError
from icelens.integrations.quality import judge_labels
from icelens.integrations.scaling import Scaling, blocks
from icelens.integrations.training import train
from icelens.train.task import choose_device

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]


def _is_count(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool) and value >= 1


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


SETTINGS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "hidden": (_is_count, "be an integer of at least 1"),
    "epochs": (_is_count, "be an integer of at least 1"),
    "batch_size": (_is_count, "be an integer of at least 1"),
    "learning_rate": (lambda x: _is_real(x) and 0 < x < np.inf, "be above 0 and finite"),
    "weight_decay": (lambda x: _is_real(x) and 0 <= x < np.inf, "be at least 0 and finite"),
    "dropout": (lambda x: _is_real(x) and 0 <= x < 1, "lie in [0, 1)"),
}
CHOSEN = ("epochs", "batch_size", "learning_rate", "dropout")  # from the data, where they are None


class ICEClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A multilayer perceptron trained with instance confidences (ICE): one run, on labels as they are.

    Takes numbers: arrays, DataFrames, sparse matrices. Columns are standardised. A sparse matrix of at most
    4,096 columns is treated as the same numbers in an array; over a wider one, as of n-grams, the network is
    one linear layer. Minibatches cannot honour `sample_weight`, so `fit` does not take it.

    Args:
        hidden: units of the hidden layer; a wide sparse matrix has none.
        dropout: share of the hidden units that a step leaves out, or of the entries of a wide sparse matrix.
            None: 0.2, or 0.5 of the entries.
        epochs: passes over the data. None: from 100 for small data to 5 for a million rows.
        batch_size: rows of a step. None: 32, 128 or 512, by the number of rows.
        learning_rate: of Adam at the start; it falls to 0 along half a cosine. None: 0.002, or 0.02 for
            a wide sparse matrix.
        weight_decay: of AdamW; a wide sparse matrix has none.
        random_state: an integer gives the same classifier on the same machine each time.
        device: "auto", "cpu", "cuda", ...

    Attributes:
        classes_: (classes,), the labels there are.
        confidence_: (rows,), C of each training example: how far the network is believed on it.
        label_quality_: (rows,), trust: the probability that the given label is right. Low = suspicious.
        coefs_, intercepts_: the weights of each layer, (inputs, outputs) and (outputs,), for scaled columns.
        n_features_in_, feature_names_in_: as everywhere in scikit-learn.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> y[7] = 2  # the first fifty are of class 0
    >>> model = ICEClassifier(random_state=0).fit(X, y)
    >>> model.predict(X[7:8]), model.suspects(1)["index"].item()
    (array([0]), 7)
    """

    _ice = True  # False is the same network with cross entropy, which benchmarks compare with
    _scaling: Scaling | Array

    def __init__(
        self,
        *,
        hidden: int = 256,
        dropout: float | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        weight_decay: float = 0.01,
        random_state: Any = None,
        device: str = "auto",
    ) -> None:
        self.hidden = hidden
        self.dropout = dropout
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any) -> ICEClassifier:
        """Learn from rows X, (rows, features), and their given labels y, (rows,), of any type."""
        self._check_settings()
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=(np.float64, np.float32))
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(
                "ICEClassifier needs samples of at least 2 classes in the data, but the data contains only "
                f"one class: '{self.classes_[0]}'"
            )
        seed = int(check_random_state(self.random_state).randint(2**31))
        inputs, place = self._inputs(X), choose_device(self.device)
        labels = torch.from_numpy(codes.astype(np.int64))
        run = train(
            inputs.to(place),
            labels.to(place),
            len(self.classes_),
            self._plan(inputs),
            seed=seed,
            ice=self._ice,
        )
        self.coefs_, self.intercepts_ = map(list, zip(*run.layers, strict=True))
        self._quality = judge_labels(self._log_probabilities(X), labels.numpy())
        self.confidence_, self.label_quality_ = run.confidence, self._quality.trust
        return self

    def predict_proba(self, X: Any) -> Array:
        """The probability of each class, (rows, classes), in the order of `classes_`."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=False)
        return np.exp(self._log_probabilities(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class, (rows,)."""
        likeliest = self.predict_proba(X).argmax(1)
        return np.asarray(self.classes_[likeliest])

    def suspects(self, n: int | None = None) -> pd.DataFrame:
        """Training examples by trust, the least trusted first: n of them, or all that are worth a look.

        Columns: `index` (the row of X), `label`, `guess`, `confidence`, `trust`.
        """
        import pandas as pd

        check_is_fitted(self)
        if n is not None and n < 0:
            raise InputError(f"n must be at least 0, got {n}")
        found = self._quality
        order = np.argsort(found.trust, kind="stable")
        order = order[found.issues[order]] if n is None else order[:n]
        return pd.DataFrame(
            {
                "index": order,
                "label": self.classes_[found.label[order]],
                "guess": self.classes_[found.guess[order]],
                "confidence": self.confidence_[order],
                "trust": found.trust[order],
            }
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_settings(self) -> None:
        for name, (is_right, what) in SETTINGS.items():
            value = getattr(self, name)
            if not (value is None and name in CHOSEN) and not is_right(value):
                raise InputError(f"{name} must {what}, got {value!r}")

    def _inputs(self, X: Any) -> Features | Bags:
        """What the network learns from; sets the scaling."""
        if hasattr(X, "toarray") and X.shape[1] > WIDEST:
            # Moving the mean of sparse columns would fill them.
            largest = abs(X).max(axis=0).toarray().ravel().astype(np.float64)
            self._scaling = factors = 1 / np.where(largest > 0, largest, 1)
            bags = bags_of(X.multiply(factors))
            return bags if self.dropout is None else replace(bags, dropout=float(self.dropout))
        self._scaling = scaling = Scaling.learn(X)
        dropout = 0.2 if self.dropout is None else float(self.dropout)
        return Features(torch.from_numpy(scaling.all(X)), int(self.hidden), dropout)

    def _plan(self, inputs: Features | Bags) -> Plan:
        """What the data asks for, unless it was set."""
        plan = inputs.plan()
        return Plan(
            plan.epochs if self.epochs is None else int(self.epochs),
            plan.batch_size if self.batch_size is None else int(self.batch_size),
            plan.learning_rate if self.learning_rate is None else float(self.learning_rate),
            float(self.weight_decay),
        )

    def _log_probabilities(self, X: Any) -> Array:
        """In float64, so that a row has the same in any company."""
        first, *later = (weight.astype(np.float64) for weight in self.coefs_)
        if not isinstance(self._scaling, Scaling):
            return _log_softmax(np.asarray(X @ (first * self._scaling[:, None])) + self.intercepts_[0])
        found = np.empty((X.shape[0], len(self.classes_)))
        for rows in blocks(X):
            values = self._scaling(X, rows) @ first + self.intercepts_[0]
            for weight, bias in zip(later, self.intercepts_[1:], strict=True):
                values = np.maximum(values, 0) @ weight + bias
            found[rows] = _log_softmax(values)
        return found


def _log_softmax(logits: Array) -> Array:
    shifted: Array = logits - logits.max(1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(1, keepdims=True))
    return shifted
