import copy

import pytest
import torch
from torch import nn

from icelens.confidence import Confidence
from icelens.errors import IndexRangeError, InputError

ALL = torch.tensor([True, True, True])


def moved(table, rows, steps, kept=None):
    rows, movable = table.rows(
        torch.as_tensor(rows), torch.ones(len(rows), dtype=torch.bool) if kept is None else kept
    )
    table.update(rows, torch.tensor(steps), movable)
    return table.v


def test_starts_where_it_is_told_and_reads_as_a_probability():
    torch.testing.assert_close(Confidence(3)(), torch.full((3,), 0.5))
    torch.testing.assert_close(Confidence(2, start=-2.0)(), torch.sigmoid(torch.tensor([-2.0, -2.0])))


@pytest.mark.parametrize("examples", [0, -5])
def test_a_table_without_rows_is_refused(examples):
    with pytest.raises(InputError, match=f"at least one example, got {examples}"):
        Confidence(examples)


def test_four_bytes_an_example_and_nothing_an_optimizer_or_ddp_would_see():
    table = Confidence(1000)
    assert table.v.nbytes == 4000
    assert not list(table.parameters())
    assert not list(table.buffers())
    assert sum(t.nbytes for t in vars(table).values() if isinstance(t, torch.Tensor)) <= 4000 + 64


def test_repeated_rows_each_count():
    v = moved(Confidence(4), [2, 0, 2, 2], [1.0, 10.0, 2.0, 4.0])
    assert v.tolist() == [10.0, 0.0, 7.0, 0.0]


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf, -torch.inf])
def test_a_step_that_is_not_finite_is_none(wrong):
    assert moved(Confidence(3), [0, 1, 1], [1.0, wrong, 2.0]).tolist() == [1.0, 2.0, 0.0]


def test_a_step_too_large_for_float32_is_none():
    table = Confidence(1)
    table.update(torch.tensor([0]), torch.tensor([1e300], dtype=torch.float64), torch.tensor([True]))
    assert table.v.tolist() == [0.0]


def test_rows_that_are_not_kept_stay_and_may_have_any_index():
    kept = torch.tensor([True, False, False, False])
    assert moved(Confidence(3), [1, -1, 10**9, 0], [1.0, 2.0, 4.0, 8.0], kept).tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("index", [3, -1, 10**12, -(2**63), 2**63 - 1])
def test_an_index_out_of_range_names_itself_and_is_forgotten_once_raised(index):
    table = Confidence(3)
    with pytest.raises(IndexRangeError, match=rf"^index {index} is not a row .* 3 rows \(0–2\)"):
        table.rows(torch.tensor([0, index, 1]), ALL)
    assert table().tolist() == [0.5, 0.5, 0.5]
    assert table.rows(torch.tensor([0, 2]), ALL[:2])[0].tolist() == [0, 2]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64])
def test_any_integer_can_index(dtype):
    v = moved(Confidence(3), torch.tensor([2, 0], dtype=dtype), [1.0, 2.0])
    assert v.tolist() == [2.0, 0.0, 1.0]


@pytest.mark.parametrize(
    "cast",
    [
        lambda m: m.half(),
        lambda m: m.bfloat16(),
        lambda m: m.double(),
        lambda m: m.to(torch.float16),
        lambda m: m.to("cpu", torch.bfloat16),
        lambda m: m.to(torch.empty((), dtype=torch.float64)),
    ],
)
def test_the_table_stays_float32_whatever_the_module_is_cast_to(cast):
    v = 1 + torch.randn(50) * 1e-6  # bfloat16 would round them all to 1
    module = nn.Sequential(nn.Linear(2, 2), Confidence(50))
    module[1].v.copy_(v)
    cast(module)
    assert module[0].weight.dtype != torch.float32
    assert module[1].v.dtype == torch.float32
    assert torch.equal(module[1].v, v)


def test_the_table_follows_a_move_unless_it_was_given_a_place():
    assert Confidence(3).to("meta").v.device.type == "meta"
    assert Confidence(3, device="cpu").to("meta").v.device.type == "cpu"
    free, fixed = Confidence(3), Confidence(3, device="cpu")
    free.follow(torch.device("meta"))
    fixed.follow(torch.device("meta"))
    assert (free.v.device.type, fixed.v.device.type) == ("meta", "cpu")


def test_a_table_moved_during_validation_can_still_be_trained():
    table = Confidence(3)
    with torch.inference_mode():
        table._apply(torch.clone)  # what a move to another device does
    assert moved(table, [1], [1.0]).tolist() == [0.0, 1.0, 0.0]


def test_state_dict_round_trip(tmp_path):
    saved, loaded = Confidence(5), Confidence(5)
    saved.v.copy_(torch.randn(5))
    torch.save(saved.state_dict(), tmp_path / "state.pt")
    loaded.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert torch.equal(loaded.v, saved.v)
    moved(loaded, [0], [1.0])
    assert not torch.equal(loaded.v, saved.v)


def test_loading_is_strict():
    state = {"v": torch.zeros(5)}
    with pytest.raises(RuntimeError, match=r"Missing key.*v"):
        Confidence(5).load_state_dict({})
    with pytest.raises(RuntimeError, match=r"Unexpected key.*w"):
        Confidence(5).load_state_dict(state | {"w": torch.zeros(5)})
    with pytest.raises(RuntimeError, match="saved confidence table has 5 rows, but the data set has 6"):
        Confidence(6).load_state_dict(state)
    Confidence(5).load_state_dict({}, strict=False)


def test_a_copy_is_independent():
    table = Confidence(3)
    other = copy.deepcopy(table)
    moved(other, [1], [1.0])
    assert table.v.tolist() == [0.0, 0.0, 0.0]
    assert other.v.tolist() == [0.0, 1.0, 0.0]


def test_a_table_of_two_bytes_takes_steps_that_it_can_hold():
    table = Confidence(2, dtype=torch.float16)
    assert table.v.nbytes == 4
    assert moved(table, [0, 0, 1], [1.0, 0.5, 1e6]).tolist() == [1.5, 0.0]
    table.float()
    assert table.v.dtype == torch.float16
    with pytest.raises(InputError, match=r"float32 or float16, not of torch\.int64"):
        Confidence(2, dtype=torch.int64)
