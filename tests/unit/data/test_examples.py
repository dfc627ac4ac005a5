import dataclasses

import pytest
import torch
from torch.utils.data import DataLoader

from icelens.data import Examples, Indexed, Split
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


def test_two_classes_of_one_name_are_refused():
    with pytest.raises(InputError, match="classes hold the name 'cat' twice"):
        Examples(torch.zeros(2, 3), torch.tensor([0, 1]), ("cat", "dog", "cat"))


def animals(*classes):
    return Examples(torch.zeros(2, 3), torch.tensor([0, 1]), classes)


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (("dog", "cat"), "class 0 is 'dog' in the {} set but 'cat' in the training set; both need the same"),
        (("cat", "fox"), "class 1 is 'fox' in the {} set but 'dog' in the training set"),
        (("cat", "dog", "fox"), "class 2 is 'fox' in the {} set but missing in the training set"),
    ],
)
def test_a_test_set_of_other_classes_is_refused(classes, message):
    train, other = animals(*CLASSES), animals(*classes)
    with pytest.raises(InputError, match=message.format("test")):
        Split(train, other)
    with pytest.raises(InputError, match=message.format("winter")):
        Split(train, train, {"winter": other})
    assert Split(train, animals(*CLASSES), {"winter": train}).extra["winter"] is train


def test_clean_labels_are_those_of_the_training_rows():
    train = animals(*CLASSES)
    assert Split(train, train, clean_labels=torch.tensor([1, 0])).clean_labels.tolist() == [1, 0]
    with pytest.raises(InputError, match=r"clean_labels must be of shape \(2,\), .* got \(3,\)"):
        Split(train, train, clean_labels=torch.tensor([1, 0, 1]))


def test_replaced_labels_are_checked_again():
    examples = Examples(torch.zeros(2, 3), torch.tensor([0, 1]), CLASSES)
    assert dataclasses.replace(examples, labels=torch.tensor([1, 1])).labels.tolist() == [1, 1]
    with pytest.raises(InputError, match="first at index 0"):
        dataclasses.replace(examples, labels=torch.tensor([7, 1]))


def test_a_negative_index_is_refused():
    with pytest.raises(IndexRangeError, match="index -1"):
        Examples(torch.zeros(2, 3), torch.tensor([0, 1]), CLASSES)[-1]
