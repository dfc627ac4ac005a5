"""Audits of small real data, and of data that is large or hostile, made without any training."""

import functools

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import QuantileTransformer

from icelens.auditing.result import AMBIGUOUS, MISLABELLED, Audit, Estimate
from icelens.data.labelled import Labelled

HOSTILE = [
    "<script>window.__pwned = 1</script>",
    "</script><script>window.__pwned = 1</script>",
    "<!--<script>",
    '"><img src=x onerror="window.__pwned = 1">',
    "' onmouseover='window.__pwned = 1",
    "{{ 7 * 7 }} {% raw %} ${window.__pwned = 1} `x`",
    "javascript:window.__pwned=1",
    "a\x00b\x1b[31mc\x07\x85d",
    "half \ud83d of a character",
    "line\u2028and\u2029paragraph",
    "\u202eright to left\u2066 שלום עולם",
    "🦆 naïve Ωmega & co; &lt;b&gt;",
    "[bold]not markup[/bold] [/]",
]


def labelled(kind, inputs, labels, classes, *, ids=None, name="data", **more):
    n = len(labels)
    ids = np.array([str(i) for i in range(n)] if ids is None else list(ids), dtype=object)
    labels = np.asarray(labels, dtype=np.int64)
    return Labelled(kind, inputs, labels, tuple(classes), ids, np.arange(n), name=name, **more)


def audited(data, probabilities, *, history=True, about=None):
    """The audit that a matrix of probabilities gives: what counts here are the shapes and the names."""
    n, labels = len(data), data.labels
    p_label = probabilities[np.arange(n), labels]
    guess = probabilities.argmax(1)
    p_guess = probabilities.max(1)
    other = np.where(np.arange(probabilities.shape[1]) == labels[:, None], 0, probabilities).max(1)
    trust = p_label**2 / (p_label**2 + other**2 + 1e-9)
    is_issue = (guess != labels) & (trust < 0.5)
    kind = np.where(is_issue, np.where(p_guess > 0.8, MISLABELLED, AMBIGUOUS), "")
    # pandas' own strings cannot hold half a character; names of files can.
    names = pd.Index(data.classes, dtype=object)
    examples = pd.DataFrame(
        {
            "id": pd.Series(data.ids, dtype=object),
            "index": np.arange(n),
            "label": pd.Categorical.from_codes(labels, categories=names),
            "guess": pd.Categorical.from_codes(guess, categories=names),
            "confidence": (0.02 + 0.97 * trust).astype(np.float32),
            "p_label": p_label,
            "trust": trust,
            "kind": kind,
            "is_issue": is_issue,
        }
    )
    return of_examples(examples, history=history, about=about)


def of_examples(examples, *, history=True, about=None):
    wrong = 1 - examples["trust"].to_numpy()
    found = np.cumsum(np.sort(wrong)[::-1])
    n = np.unique(np.geomspace(1, len(found), 60).round().astype(int))
    errors = float(found[-1])
    grouped = examples.assign(errors=wrong, issues=examples["is_issue"].astype(int), examples=1)
    sums = {"errors": "sum", "issues": "sum"}
    by_class = grouped.groupby("label", observed=False).agg({"examples": "sum", **sums}).reset_index()
    moved = grouped[examples["label"].cat.codes != examples["guess"].cat.codes]
    pairs = moved.groupby(["label", "guess"], observed=True).agg(sums).reset_index()
    pairs = pairs.sort_values("errors", ascending=False, ignore_index=True)
    return Audit(
        examples,
        Estimate(errors, 0.85 * errors, 1.18 * errors),
        pairs,
        by_class,
        pd.DataFrame({"n": n, "errors": found[n - 1]}),
        history=training(examples["confidence"].to_numpy()) if history else None,
        about=about if about is not None else {"model": "mlp", "epochs": 30, "seconds": 12.3, "seed": 0},
    )


def training(confidence, snapshots=14):
    """Confidences that leave 1/2 for where they end."""
    sample = confidence[:: max(len(confidence) // 2000, 1)]
    way = np.linspace(0, 1, snapshots)[:, None] ** 0.7
    return np.arange(snapshots) * 120, (0.5 + (sample - 0.5) * way).astype(np.float32)


def flipped(labels, classes, rate, seed=0):
    draw = np.random.default_rng(seed)
    moved = draw.random(len(labels)) < rate
    return np.where(moved, (labels + draw.integers(1, classes, len(labels))) % classes, labels)


@functools.cache
def digits():
    pixels, labels = load_digits(return_X_y=True)
    given = flipped(labels, 10, 0.06)
    guessed = cross_val_predict(KNeighborsClassifier(15), pixels, given, cv=3, method="predict_proba")
    images = (pixels.reshape(-1, 8, 8) * 15.9).astype(np.uint8)
    data = labelled("image", images, given, [str(d) for d in range(10)], name="digits")
    return audited(data, guessed), data


@functools.cache
def tumours():
    loaded = load_breast_cancer(as_frame=True)
    given = flipped(loaded.target.to_numpy(), 2, 0.08)
    features = QuantileTransformer(n_quantiles=100).fit_transform(loaded.data.iloc[:, [7, 20, 22, 27]])
    guessed = cross_val_predict(GaussianNB(), features, given, cv=5, method="predict_proba")
    table = loaded.data.assign(clinic=np.where(np.arange(len(given)) % 50, "north", "south"))
    data = labelled("table", table, given, ["malignant", "benign"], name="tumours.parquet")
    return audited(data, guessed), data


def texts(sentences, *, classes=("politics", "sport"), labels=None, **more):
    """An audit in which every text is a suspect."""
    n = len(sentences)
    labels = np.arange(n) % len(classes) if labels is None else np.asarray(labels)
    inputs = [(s,) if isinstance(s, str) else tuple(s) for s in sentences]
    data = labelled("text", inputs, labels, classes, **more)
    guessed = np.full((n, len(classes)), 0.01)
    guessed[np.arange(n), labels] = np.linspace(0.01, 0.2, n)
    guessed[np.arange(n), (labels + 1) % len(classes)] = np.linspace(0.97, 0.6, n)
    return audited(data, guessed), data
