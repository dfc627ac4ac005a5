import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from icelens.data import Labelled
from icelens.errors import InputError


def labelled(**changes):
    values = {
        "kind": "text",
        "inputs": [("a",), ("b",), ("c",)],
        "labels": np.array([0, 1, 0]),
        "classes": ("cat", "dog"),
        "ids": np.array(["x", "y", "z"], dtype=object),
        "rows": np.array([4, 5, 9]),
    }
    return Labelled(**(values | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "sound"}, "kind must be one of text, image, table, got 'sound'"),
        ({"labels": np.array([0.0, 1.0, 0.0])}, r"labels must be int64 of shape \(N,\), got float64"),
        ({"labels": np.array([[0], [1], [0]])}, r"labels must be int64 of shape \(N,\), got int64 \(3, 1\)"),
        ({"labels": np.array([0, 2, 0])}, "labels hold class 2 but there are 2 classes; first at index 1"),
        ({"labels": np.array([0, 1, -1])}, "labels hold class -1 .* first at index 2"),
        ({"inputs": [("a",)]}, "1 inputs but 3 labels"),
        ({"inputs": scipy.sparse.csr_matrix((2, 5))}, "2 inputs but 3 labels"),
        ({"ids": np.array(["x"], dtype=object)}, "1 ids but 3 labels"),
        ({"rows": np.arange(4)}, "4 rows but 3 labels"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        labelled(**changes)


@pytest.mark.parametrize(
    ("inputs", "rest"),
    [
        ([("a",), ("b",), ("c",)], [("c",), ("a",)]),
        (np.arange(6).reshape(3, 2), [[4, 5], [0, 1]]),
        (scipy.sparse.csr_matrix(np.arange(6).reshape(3, 2)), [[4, 5], [0, 1]]),
        (pd.DataFrame({"p": [1, 2, 3]}), [[3], [1]]),
    ],
)
def test_taken_examples_keep_their_label_id_and_row(inputs, rest):
    part = labelled(inputs=inputs).take(np.array([2, 0]))
    found = part.inputs
    found = found.toarray() if scipy.sparse.issparse(found) else found
    assert (found if isinstance(found, list) else np.asarray(found).tolist()) == rest
    assert part.labels.tolist() == [0, 0]
    assert part.ids.tolist() == ["z", "x"]
    assert part.rows.tolist() == [9, 4]
    if isinstance(inputs, pd.DataFrame):
        assert part.inputs.index.tolist() == [0, 1]
