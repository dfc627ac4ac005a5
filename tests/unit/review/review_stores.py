"""Small folders of audits, made without any training, and stores of reviews built from them."""

import json

import numpy as np
import pandas as pd

from icelens.data.labelled import Labelled
from icelens.review.build import build_store
from icelens.review.store import Store

CLASSES = ("cat", "dog", "owl")
WORDS = ("purrs", "barks", "hoots", "naps", "the", "garden")


def audit_folder(folder, data, *, seed=0, issues=0.3, beside=True):
    """A finished audit of this data, with numbers that are drawn; returns its table."""
    rng, n, k = np.random.default_rng(seed), len(data), len(data.classes)
    trust = rng.random(n).round(2)  # so that there are ties
    is_issue = trust < issues
    guess = np.where(is_issue, (data.labels + rng.integers(0, k, n)) % k, data.labels)
    names = pd.Index(data.classes, dtype=object)
    table = pd.DataFrame(
        {
            "id": [str(name) for name in data.ids],
            "index": np.arange(n),
            "label": pd.Categorical.from_codes(data.labels.tolist(), categories=names),
            "guess": pd.Categorical.from_codes(guess.tolist(), categories=names),
            "confidence": rng.random(n).astype(np.float32),
            "p_label": rng.random(n).astype(np.float32),
            "p_guess": rng.random(n).astype(np.float32),
            "trust": trust,
            "kind": np.where(is_issue, np.where(rng.random(n) < 0.5, "mislabelled", "ambiguous"), ""),
            "is_issue": is_issue,
        }
    )
    folder.mkdir(parents=True, exist_ok=True)
    table.to_parquet(folder / "examples.parquet", index=False)
    (folder / "recipe.json").write_text(json.dumps({"data_fingerprint": "abc"}))
    (folder / "audit.json").write_text("{}")
    if beside:
        rows = np.argsort(trust, kind="stable")[: n // 2]
        near = rng.integers(-1, n, (2, len(rows), 3))
        top = np.tile(np.array([1, 0, -1, -1, -1], np.int32), (len(rows), 1))
        top_p = np.tile(np.array([0.75, 0.25, 0, 0, 0], np.float32), (len(rows), 1))
        np.savez(folder / "review.npz", rows=rows, top=top, top_p=top_p, near_label=near[0],
                 near_guess=near[1])  # fmt: skip
    return table


def texts(n=40, seed=0):
    """Texts of a few words."""
    rng = np.random.default_rng(seed)
    inputs = [(" ".join(rng.choice(WORDS, 3)),) for _ in range(n)]
    return labelled("text", inputs, rng.integers(0, len(CLASSES), n))


def labelled(kind, inputs, labels, classes=CLASSES, ids=None):
    n = len(labels)
    ids = np.array([f"id-{row}" for row in range(n)] if ids is None else ids, dtype=object)
    return Labelled(kind, inputs, np.asarray(labels, np.int64), classes, ids, np.arange(n), name="pets")


def built(folder, data=None, **settings):
    """The path of a store of this data and the table of its audit."""
    data = texts() if data is None else data
    table = audit_folder(folder, data, **settings)
    return build_store(folder, data), table


def opened(folder, data=None, **settings):
    path, table = built(folder, data, **settings)
    return Store(path), table
