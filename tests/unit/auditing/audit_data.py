"""Small data sets with labels that are wrong and known to be, and short plans to audit them by."""

import numpy as np
import torch
from sklearn.datasets import load_digits, load_iris

from icelens.auditing.inputs import Bags, Features, Pictures, Plan
from icelens.data import from_arrays

GOOD = ["great", "lovely", "perfect", "quick", "kind", "happy", "sturdy", "cheap"]
BAD = ["broken", "late", "rude", "awful", "torn", "slow", "noisy", "refund"]


def shorten(monkeypatch, epochs=2):
    """Let every audit train for a moment only: what counts is what is done with the runs."""
    for kind in (Features, Bags, Pictures):
        monkeypatch.setattr(kind, "plan", lambda self: Plan(epochs, 16, 1e-2))


def iris(flips=(7,), **settings):
    X, y = load_iris(return_X_y=True)
    given = y.copy()
    given[list(flips)] = (y[list(flips)] + 2) % 3
    return from_arrays(X, given, **settings)


def digits(rate, seed=0):
    """Features, given labels of which a share was moved to the next digit, and which were."""
    X, y = load_digits(return_X_y=True)
    moved = np.random.default_rng(seed).random(len(y)) < rate
    return X.astype(np.float32), np.where(moved, (y + 1) % 10, y), moved


def reviews(rows=60, wrong=(4, 11)):
    """Short texts, their labels and their ids; two of the labels are wrong."""
    draw = np.random.default_rng(0)
    words = [" ".join(draw.choice((GOOD, BAD)[row % 2], 4)) for row in range(rows)]
    labels = [("good", "bad")[(row % 2) ^ (row in wrong)] for row in range(rows)]
    return [f"The parcel was {text}." for text in words], labels, [f"r{row:03}" for row in range(rows)]


def shapes(rows=48, side=8):
    """Grey images of bars that lie or stand."""
    draw = torch.Generator().manual_seed(0)
    images = torch.randint(0, 60, (rows, side, side), generator=draw, dtype=torch.uint8).numpy()
    for row in range(rows):
        place = 1 + row % (side - 2)
        if row % 2:
            images[row, place] = 250
        else:
            images[row, :, place] = 250
    return images, np.arange(rows) % 2


def same(one, other):
    """That two audits say the same, as far as a folder can hold it."""
    import pandas as pd

    pd.testing.assert_frame_equal(one.examples, other.examples, check_dtype=False, check_categorical=False)
    for name in ("pairs", "by_class", "budgets"):
        left, right = (getattr(audit, name).astype(object) for audit in (one, other))
        pd.testing.assert_frame_equal(left, right, check_dtype=False, rtol=1e-6)
    assert one.estimate == other.estimate
    np.testing.assert_array_equal(one.history[0], other.history[0])
    np.testing.assert_allclose(one.history[1], other.history[1], atol=1e-3)  # half a float
    told = [{key: value for key, value in audit.about.items() if key != "seconds"} for audit in (one, other)]
    assert told[0] == told[1]
