import dataclasses

import pytest
import torch
from torch.utils.data import DataLoader

from icelens.data import Examples, Indexed
from icelens.errors import IndexRangeError, InputError

CLASSES = ("cat", "dog")


def test_items_are_input_and_label():
    examples = Examples(torch.arange(4).reshape(2, 2), torch.tensor([1, 0]), CLASSES)
    x, y = examples[1]
    assert len(examples) == 2
    assert x.tolist() == [2, 3]
    assert y == 0


def test_texts_go_through_a_loader():
    examples = Examples([("a", "b"), ("c", "d")], torch.tensor([1, 0]), CLASSES)
    texts, labels, index = next(iter(DataLoader(Indexed(examples), batch_size=2)))
    assert texts == [("a", "c"), ("b", "d")]
    assert labels.tolist() == [1, 0]
    assert index.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (torch.tensor([0]), "2 inputs but 1 labels"),
        (torch.tensor([0, 2]), r"labels hold class 2 but there are 2 classes \(0–1\); first at index 1"),
        (torch.tensor([-1, 5]), r"labels hold class -1 .* first at index 0"),
        (torch.tensor([0.0, 1.0]), "labels must be int64"),
        (torch.zeros(2, 1, dtype=torch.int64), r"labels must be int64 of shape \(N,\)"),
    ],
)
def test_what_does_not_fit_is_refused(labels, message):
    with pytest.raises(InputError, match=message):
        Examples(torch.zeros(2, 3), labels, CLASSES)


def test_replaced_labels_are_checked_again():
    examples = Examples(torch.zeros(2, 3), torch.tensor([0, 1]), CLASSES)
    assert dataclasses.replace(examples, labels=torch.tensor([1, 1])).labels.tolist() == [1, 1]
    with pytest.raises(InputError, match="first at index 0"):
        dataclasses.replace(examples, labels=torch.tensor([7, 1]))


def test_a_negative_index_is_refused():
    with pytest.raises(IndexRangeError, match="index -1"):
        Examples(torch.zeros(2, 3), torch.tensor([0, 1]), CLASSES)[-1]
