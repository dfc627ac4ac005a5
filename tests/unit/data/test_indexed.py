import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset

from icelens.data import Indexed
from icelens.errors import IndexRangeError, InputError


def tens(rows: int = 6) -> TensorDataset:
    return TensorDataset(torch.arange(rows) * 10, torch.arange(rows) % 2)


class Batched:
    """A data set that counts how often it is asked for a whole batch."""

    def __init__(self) -> None:
        self.calls = 0

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[int, int]:
        raise AssertionError("asked for one item")

    def __getitems__(self, indices: list[int]) -> list[tuple[int, int]]:
        self.calls += 1
        return [(index * 10, 0) for index in indices]


class Stream(IterableDataset):
    def __iter__(self):
        return iter([(0, 0)])


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (("x", 1), ("x", 1, 0)),
        (["x", 1], ("x", 1, 0)),
        (("x", "more", 1), ("x", "more", 1, 0)),
        ({"text": "x", "label": 1}, {"text": "x", "label": 1, "index": 0}),
    ],
)
def test_the_row_is_added_to_every_kind_of_item(item, expected):
    assert Indexed([item])[0] == expected


@pytest.mark.parametrize("workers", [0, 2])
def test_rows_survive_shuffling_and_workers(workers):
    loader = DataLoader(Indexed(tens()), batch_size=4, shuffle=True, num_workers=workers)
    seen = []
    for x, _y, index in loader:
        assert torch.equal(x, index * 10)
        seen += index.tolist()
    assert sorted(seen) == list(range(6))


def test_order_of_wrapping_decides_which_rows_are_counted():
    assert Indexed(Subset(tens(), [4, 2]))[1][2] == 1
    assert Subset(Indexed(tens()), [4, 2])[1][2] == 2
    _, _, index = next(iter(DataLoader(Subset(Indexed(tens()), [4, 2]), batch_size=2)))
    assert index.tolist() == [4, 2]


def test_a_batch_is_asked_for_in_one_call_where_that_is_possible():
    inner = Batched()
    x, _, index = next(iter(DataLoader(Indexed(inner), batch_size=4)))
    assert inner.calls == 1
    assert torch.equal(x, index * 10)


def test_a_tensor_or_numpy_integer_is_an_index_too():
    assert Indexed(tens())[torch.tensor(3)][2] == 3
    assert type(Indexed(tens())[torch.tensor(3)][2]) is int


@pytest.mark.parametrize("index", [-1, 6])
def test_an_index_outside_the_rows_is_refused(index):
    with pytest.raises(IndexRangeError, match=rf"index {index} is not a row of a data set of 6 \(0 to 5\)"):
        Indexed(tens())[index]
    with pytest.raises(IndexRangeError):
        Indexed(tens()).__getitems__([0, index])


@pytest.mark.parametrize("stream", [Stream(), iter([(0, 0)])])
def test_a_stream_is_refused(stream):
    with pytest.raises(InputError, match="a stream has no stable index"):
        Indexed(stream)


def test_items_that_cannot_take_an_index_are_refused():
    with pytest.raises(InputError, match="item 0 already has a key 'index'"):
        Indexed([{"index": 3}])[0]
    with pytest.raises(InputError, match="item 0 is a Tensor"):
        Indexed(torch.zeros(2, 3))[0]
