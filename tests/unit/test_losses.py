"""What single losses promise beyond the laws: messages, schedules, state, steps by autograd."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from icelens.errors import IndexRangeError, InputError
from icelens.losses import (
    LOSSES,
    DACLoss,
    ELRLoss,
    ForwardLoss,
    Pointwise,
    Problem,
    SOPLoss,
    abstaining_cross_entropy,
    confidence_cross_entropy,
    cross_entropy,
    forward_correction,
    generalized_cross_entropy,
    hard_bootstrapping,
    make_loss,
    noise_adaptation,
    soft_bootstrapping,
    start_adaptation,
    symmetric_cross_entropy,
)
from icelens.losses.reduction import check_labels
from icelens.matrices import symmetric_matrix
from icelens.transforms import TRANSFORMS

PROBLEM = Problem(examples=5, classes=3, steps=10)


def test_an_unknown_name_or_setting_says_what_was_meant():
    with pytest.raises(InputError, match="unknown loss 'ice_liner'; did you mean 'ice_linear'"):
        make_loss("ice_liner", PROBLEM)
    with pytest.raises(InputError, match="loss 'elr': unknown setting 'strenght'; did you mean 'strength'"):
        make_loss("elr", PROBLEM, strenght=1.0)
    with pytest.raises(InputError, match="loss 'gce': unknown setting 'reduction'; known are q"):
        make_loss("gce", PROBLEM, reduction="sum")


REFUSED = [
    ("gce", {"q": "high"}, "loss 'gce': q must be a number, got 'high'"),
    ("gce", {"q": True}, "loss 'gce': q must be a number, got True"),
    ("gce", {"q": None}, "loss 'gce': q must be a number, got None"),
    ("gce", {"q": -1}, "loss 'gce': q must lie in [0, 1], got -1"),
    ("gce", {"q": math.nan}, "loss 'gce': q must lie in [0, 1], got nan"),
    ("label_smoothing", {"smoothing": 2}, "loss 'label_smoothing': smoothing must lie in [0, 1], got 2"),
    ("soft_bootstrapping", {"beta": 1.5}, "loss 'soft_bootstrapping': beta must lie in [0, 1], got 1.5"),
    ("hard_bootstrapping", {"beta": -0.1}, "loss 'hard_bootstrapping': beta must lie in [0, 1], got -0.1"),
    ("sce", {"alpha": [1]}, "loss 'sce': alpha must be a number, got [1]"),
    ("sce", {"alpha": -1}, "loss 'sce': alpha must be finite and at least 0, got -1"),
    ("sce", {"beta": math.inf}, "loss 'sce': beta must be finite and at least 0, got inf"),
    ("sce", {"log_zero": 4.0}, "loss 'sce': log_zero must be finite and at most 0, got 4.0"),
    ("dac", {"warmup": 5}, "loss 'dac': warmup must lie in [0, 1], got 5"),
    ("dac", {"divisor": 0}, "loss 'dac': divisor must be finite and more than 0, got 0"),
    ("dac", {"momentum": 1.1}, "loss 'dac': momentum must lie in [0, 1], got 1.1"),
    ("dac", {"alpha_final": -1.0}, "loss 'dac': alpha_final must be finite and at least 0, got -1.0"),
    ("elr", {"beta": 2}, "loss 'elr': beta must lie in [0, 1], got 2"),
    ("elr", {"strength": -3}, "loss 'elr': strength must be finite and at least 0, got -3"),
    ("ice_held", {"decay": 1}, "loss 'ice_held': decay must lie in [0, 1), got 1"),
    ("ice_held", {"doubt": -0.1}, "loss 'ice_held': doubt must lie in [0, 1], got -0.1"),
    ("sop", {"scale": -1e-8}, "loss 'sop': scale must be finite and at least 0, got -1e-08"),
    ("sop", {"step_u": "1"}, "loss 'sop': step_u must be a number, got '1'"),
    ("sop", {"floor": 1.0}, "loss 'sop': floor must lie in [0, 1), got 1.0"),
    ("ice_linear", {"step_size": -1}, "loss 'ice_linear': step_size must be finite and at least 0, got -1"),
    ("ice_linear", {"step_size": torch.ones(2)}, "step_size must be a number, got tensor([1., 1.])"),
    ("ice_power", {"start": math.inf}, "loss 'ice_power': start must be finite, got inf"),
    ("ice_power", {"label_smoothing": 2}, "loss 'ice_power': label_smoothing must lie in [0, 1], got 2"),
]


@pytest.mark.parametrize(("name", "settings", "message"), REFUSED)
def test_a_setting_that_cannot_work_is_refused_before_the_first_batch(name, settings, message):
    with pytest.raises(InputError) as error:
        make_loss(name, PROBLEM, **settings)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", LOSSES)
def test_every_setting_is_a_number_with_a_range_that_holds_its_default(name):
    method, problem = LOSSES[name], Problem(5, 3, steps=10, transition=torch.eye(3))
    assert set(method.ranges) == set(method.settings)
    assert all(type(default) is float for default in method.settings.values())
    make_loss(name, problem, **method.settings)
    make_loss(name, problem, **method.cross_entropy_at)


@pytest.mark.parametrize("kind", [int, np.float32, np.int64, torch.tensor])
def test_any_kind_of_number_will_do(kind):
    logits, labels = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    seen = make_loss("gce", PROBLEM, q=kind(1))(logits, labels)
    torch.testing.assert_close(seen, generalized_cross_entropy(logits, labels, q=1.0).mean())


def test_settings_that_a_method_lists_are_those_published():
    published = {
        "label_smoothing": {"smoothing": 0.1},
        "soft_bootstrapping": {"beta": 0.95},
        "hard_bootstrapping": {"beta": 0.8},
        "dac": {"warmup": 0.1, "alpha_final": 1.0, "divisor": 64.0, "momentum": 0.05},
        "gce": {"q": 0.7},
        "sce": {"alpha": 0.1, "beta": 1.0, "log_zero": -4.0},
        "elr": {"strength": 3.0, "beta": 0.7},
        "sop": {"step_u": 10 / 128, "step_v": 10 / 128, "scale": 1e-8, "floor": 1e-4},
        "ice_held": {"hold": 3.0, "decay": 0.7, "doubt": 0.05, "step_size": 1.0},
        "ice_linear": {"step_size": 1.0, "start": 0.0, "label_smoothing": 0.0},
        "ice_power": {"step_size": 1.0, "start": 0.0, "label_smoothing": 0.0},
    }
    assert {name: dict(method.settings) for name, method in LOSSES.items() if method.settings} == published


def test_forward_correction_is_refused_without_its_matrix():
    with pytest.raises(InputError, match="needs the transition matrix"):
        make_loss("forward", PROBLEM)


def test_the_abstaining_classifier_is_refused_without_its_steps():
    with pytest.raises(InputError, match=r"number of training steps: Problem\(\.\.\., steps=N\)"):
        make_loss("dac", Problem(100, 3))
    make_loss("gce", Problem(100, 3))


def test_labels_on_another_device_are_not_looked_at():
    check_labels(torch.tensor([99], device="meta"), 10)
    with pytest.raises(InputError, match="labels hold class 99"):
        check_labels(torch.tensor([99]), 10)
    check_labels(torch.tensor([-100, 9]), 10, ignore_index=-100)
    with pytest.raises(InputError, match="labels hold class -100"):
        check_labels(torch.tensor([3, -100]), 10)


@pytest.mark.parametrize("dtype", [torch.bool, torch.float64])
def test_labels_that_are_no_integers_are_refused(dtype):
    with pytest.raises(InputError, match=f"labels must be .* got {dtype}"):
        cross_entropy(torch.zeros(2, 2), torch.tensor([0, 1]).to(dtype))


def test_logits_that_are_integers_are_refused():
    with pytest.raises(InputError, match=r"logits must be .* floats, got torch.int64"):
        cross_entropy(torch.zeros(2, 2, dtype=torch.int64), torch.tensor([0, 1]))


def test_losses_run_compiled():
    loss = torch.compile(Pointwise(generalized_cross_entropy), fullgraph=True, backend="eager")
    logits, labels = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    torch.testing.assert_close(loss(logits, labels), generalized_cross_entropy(logits, labels).mean())


def test_soft_bootstrapping_gives_a_class_that_is_ruled_out_no_entropy():
    logits, labels = torch.randn(8, 5), torch.arange(8) % 5
    wider = torch.cat([logits, torch.full((8, 1), -torch.inf)], 1)
    torch.testing.assert_close(soft_bootstrapping(wider, labels), soft_bootstrapping(logits, labels))
    assert soft_bootstrapping(wider, labels + 5 - labels).isposinf().all()  # as its label it is impossible


def test_generalized_cross_entropy_lies_between_its_ends():
    logits, labels = torch.randn(8, 5, dtype=torch.float64), torch.arange(8) % 5
    p_y = logits.softmax(-1).gather(1, labels[:, None]).squeeze(1)
    torch.testing.assert_close(generalized_cross_entropy(logits, labels, q=1.0), 1 - p_y)
    torch.testing.assert_close(generalized_cross_entropy(logits, labels, q=1e-9), -p_y.log())
    assert torch.equal(generalized_cross_entropy(logits, labels, q=0.0), cross_entropy(logits, labels))


def test_the_reverse_half_of_symmetric_cross_entropy_is_bounded():
    worst = symmetric_cross_entropy(
        torch.tensor([[-100.0, 100.0]]), torch.tensor([0]), alpha=0.0, log_zero=-6.0
    )
    torch.testing.assert_close(worst, torch.tensor([6.0]))


def test_hard_bootstrapping_of_a_label_that_is_the_guess_is_cross_entropy():
    logits = torch.randn(8, 5)
    labels = logits.argmax(1)
    torch.testing.assert_close(hard_bootstrapping(logits, labels, beta=0.3), cross_entropy(logits, labels))


def test_confidence_cross_entropy_from_no_belief_to_full():
    logits, labels = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    for transform in ("linear", "power"):
        none = confidence_cross_entropy(logits, labels, torch.full((4,), -80.0), transform=transform)
        full = confidence_cross_entropy(logits, labels, torch.full((4,), 80.0), transform=transform)
        torch.testing.assert_close(none, torch.full((4,), math.log(3)))
        torch.testing.assert_close(full, cross_entropy(logits, labels))
    with pytest.raises(InputError, match="unknown transform 'linaer'; did you mean 'linear'"):
        confidence_cross_entropy(logits, labels, torch.zeros(4), transform="linaer")


@pytest.mark.parametrize("transform", ["linear", "power"])
@pytest.mark.parametrize("v", [torch.zeros(4, 1), torch.zeros(1), torch.zeros(()), torch.zeros(3)])
def test_a_confidence_of_another_shape_is_refused(transform, v):
    message = r"v must be \(batch,\) = \(4,\), got shape \("
    with pytest.raises(InputError, match=message):
        confidence_cross_entropy(torch.zeros(4, 3), torch.tensor([0, 1, 2, 0]), v, transform=transform)
    with pytest.raises(InputError, match=message):
        TRANSFORMS[transform].everywhere(torch.zeros(4, 3), v)


@pytest.mark.parametrize("transform", ["linear", "power"])
def test_the_check_of_the_confidence_breaks_no_compiled_graph(transform):
    compiled = torch.compile(confidence_cross_entropy, fullgraph=True, backend="eager", dynamic=True)
    for batch in (4, 6):
        logits, v, labels = torch.randn(batch, 3), torch.randn(batch), torch.arange(batch) % 3
        torch.testing.assert_close(
            compiled(logits, labels, v, transform=transform),
            confidence_cross_entropy(logits, labels, v, transform=transform),
        )


class TestTransition:
    @pytest.mark.parametrize(
        ("matrix", "message"),
        [
            (torch.ones(2, 3) / 3, r"\(classes, classes\), got shape \(2, 3\)"),
            (torch.ones(2), r"got shape \(2,\)"),
            (torch.tensor([[1.0, 0.0], [0.5, 0.4]]), "row 1 sums to 0.9000"),
            (torch.tensor([[1.0, 0.1], [0.5, 0.5]]), "row 0 sums to 1.1000"),
            (torch.tensor([[1.5, -0.5], [0.5, 0.5]]), "row 0, column 0 is 1.5"),
            (torch.tensor([[0.5, 0.5], [float("nan"), 1.0]]), "row 1, column 0 is nan"),
            (torch.zeros(0, 0), r"got shape \(0, 0\)"),
            ([[0.9, 0.1], [0.1, 0.9]], "transition must be a tensor, got list; torch.as_tensor"),
        ],
    )
    def test_what_is_no_transition_matrix_is_refused(self, matrix, message):
        with pytest.raises(InputError, match=message):
            ForwardLoss(matrix)

    def test_a_matrix_that_is_no_tensor_is_refused_by_the_function_too(self):
        with pytest.raises(InputError, match="transition must be a tensor, got ndarray"):
            forward_correction(torch.zeros(2, 3), torch.tensor([0, 1]), np.eye(3))

    def test_the_matrix_and_the_logits_have_the_same_classes(self):
        with pytest.raises(InputError, match=r"logits must have 3 columns, got shape \(2, 4\)"):
            ForwardLoss(torch.eye(3))(torch.zeros(2, 4), torch.tensor([0, 1]))

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_a_matrix_near_the_identity_is_not_rounded_to_it_by_half_precision(self, dtype):
        transition = symmetric_matrix(3, 0.001)
        logits, labels = torch.tensor([[80.0, 0.0, 0.0]] * 3, dtype=dtype), torch.tensor([0, 1, 2])
        seen = ForwardLoss(transition, reduction="none")(logits, labels)
        assert seen.dtype == torch.float32
        torch.testing.assert_close(seen, -transition[0].log().float(), rtol=1e-4, atol=0)

    def test_adaptation_takes_outputs_in_any_layout(self):
        outputs = torch.randn(12, 4).T  # not contiguous
        labels = torch.tensor([0, 1, 2, 0])
        torch.testing.assert_close(
            noise_adaptation(outputs, labels), noise_adaptation(outputs.contiguous(), labels)
        )

    def test_adaptation_needs_k_and_k_times_k_outputs(self):
        with pytest.raises(InputError, match=r"needs K \+ K·K outputs \(110 for 10 classes\), got 11"):
            noise_adaptation(torch.zeros(2, 11), torch.tensor([0, 1]))

    def test_adaptation_starts_as_forward_correction(self):
        head, transition = nn.Linear(6, 12), symmetric_matrix(3, 0.4).float()
        start_adaptation(head, transition)
        outputs = head(torch.randn(5, 6))
        labels = torch.tensor([0, 1, 2, 0, 1])
        torch.testing.assert_close(
            noise_adaptation(outputs, labels),
            ForwardLoss(transition, reduction="none")(outputs[:, :3], labels),
        )
        with pytest.raises(InputError, match=r"needs K \+ K·K = 12 outputs, got 13"):
            start_adaptation(nn.Linear(6, 13), transition)


def test_sop_starts_from_its_scale_in_half_precision_too():
    loss = SOPLoss(5, 3).half()
    logits, labels = torch.tensor([[8.0, 0.0, 0.0]] * 5).half(), torch.ones(5, dtype=torch.int64)
    assert (loss.u != 0).all()
    for _ in range(400):
        loss(logits.requires_grad_(), labels, torch.arange(5))
    assert loss.u.abs().min() > 0.9  # the label stays unexplained, so it is taken for noise


@pytest.mark.parametrize(("loss", "columns"), [("dac", 5), ("adaptation", 20), ("cross_entropy", 4)])
def test_a_label_beyond_the_classes_is_told_with_their_number_whatever_the_columns(loss, columns):
    with pytest.raises(InputError, match=r"class 4 but there are 4 classes \(0–3\); first at position 1 of"):
        make_loss(loss, Problem(2, 4, steps=1))(torch.zeros(2, columns), torch.tensor([0, 4]))


class TestAbstain:
    def test_free_abstention_costs_nothing_and_the_price_is_for_what_is_not_kept(self):
        outputs = torch.tensor([[0.0, 0.0, 50.0]], dtype=torch.float64)
        free = abstaining_cross_entropy(outputs, torch.tensor([0]), alpha=0.0)
        assert free.item() < 1e-20
        priced = abstaining_cross_entropy(outputs, torch.tensor([0]), alpha=2.0)
        assert priced.item() == pytest.approx(2 * (50 - math.log(2)))

    def test_a_small_abstention_keeps_its_digits_in_float32(self):
        outputs = torch.tensor([[90.0, -90.0, 80.0]])
        paid = abstaining_cross_entropy(outputs, torch.tensor([0]), alpha=1.0)
        assert paid.item() == pytest.approx(math.log1p(math.exp(-10)), rel=1e-5)

    def test_alpha_starts_from_the_average_and_ends_at_its_last_value(self):
        loss = DACLoss(10, warmup=0.3, alpha_final=2.0)
        seen = []
        for _ in range(12):
            loss(torch.zeros(2, 4, requires_grad=True), torch.tensor([0, 1]))
            loss.step -= 1
            seen.append(loss.alpha().item())
            loss.step += 1
        first = 0.75 * math.log(3) / 64
        assert seen[:4] == pytest.approx([first] * 4)
        assert seen[4] == pytest.approx(first + (2 - first) / 6)
        assert seen[9:] == pytest.approx([2.0] * 3)

    def test_without_warm_up_alpha_starts_from_the_first_batch(self):
        loss = DACLoss(10, warmup=0.0)
        loss(torch.zeros(2, 4, requires_grad=True), torch.tensor([0, 1]))
        assert loss.average.item() == pytest.approx(0.75 * math.log(3))

    def test_a_batch_that_is_not_finite_does_not_count(self):
        loss = DACLoss(10, warmup=0.5)
        loss(torch.zeros(2, 4, requires_grad=True), torch.tensor([0, 1]))
        before = loss.average.item()
        loss(torch.full((2, 4), float("inf"), requires_grad=True), torch.tensor([0, 1]))
        assert loss.average.item() == before

    def test_the_schedule_is_saved(self):
        loss, other = DACLoss(10), DACLoss(10)
        for _ in range(4):
            loss(torch.randn(2, 4, requires_grad=True), torch.tensor([0, 1]))
        other.load_state_dict(loss.state_dict())
        assert (other.alpha(), other.step) == (loss.alpha(), 4)

    def test_a_warm_up_longer_than_training_is_refused(self):
        with pytest.raises(InputError, match=r"warmup must lie in \[0, 1\], got 5"):
            DACLoss(10, warmup=5)


@pytest.mark.parametrize("kind", [ELRLoss, SOPLoss])
class TestRowsPerExample:
    @pytest.mark.parametrize("index", [[0, 5], [-1, 0]])
    def test_an_index_out_of_range_is_an_error_and_never_wraps(self, kind, index):
        with pytest.raises(IndexRangeError, match=r"index (5|-1) is not a row .* 5 rows \(0–4\)"):
            kind(5, 3)(torch.zeros(2, 3), torch.tensor([0, 1]), torch.tensor(index))

    @pytest.mark.parametrize(
        ("index", "message"),
        [
            ([0.0, 1.0], "index must be .* integers, got torch.float32"),
            ([True, False], "index must be .* integers, got torch.bool"),
            ([0, 1, 2], r"index must be \(batch,\) = \(2,\) integers, got torch.int64, shape \(3,\)"),
        ],
    )
    def test_an_index_that_is_none_is_refused(self, kind, index, message):
        with pytest.raises(InputError, match=message):
            kind(5, 3)(torch.zeros(2, 3), torch.tensor([0, 1]), torch.tensor(index))

    @pytest.mark.parametrize("dtype", [torch.uint8, torch.int32])
    def test_a_small_integer_type_names_rows_as_int64_does(self, kind, dtype):
        small = kind(5, 3)
        wide = copy.deepcopy(small)
        logits, labels = torch.randn(2, 3, requires_grad=True), torch.tensor([0, 1])
        index = torch.tensor([1, 3])
        assert torch.equal(small(logits, labels, index.to(dtype)), wide(logits, labels, index))
        for key, value in wide.state_dict().items():
            assert torch.equal(small.state_dict()[key], value)

    def test_logits_of_other_classes_are_refused(self, kind):
        with pytest.raises(InputError, match="logits must have 3 columns"):
            kind(5, 3)(torch.zeros(2, 4), torch.tensor([0, 1]), torch.tensor([0, 1]))

    def test_an_infinite_logit_never_poisons_a_row(self, kind):
        loss = kind(5, 3)
        logits = torch.tensor([[float("inf"), 0.0, 0.0], [1.0, 2.0, 3.0]], requires_grad=True)
        loss(logits, torch.tensor([0, 1]), torch.tensor([0, 1]))
        assert all(value.isfinite().all() for value in loss.state_dict().values())

    def test_rows_that_were_not_visited_stay(self, kind):
        loss = kind(5, 3)
        before = {key: value.clone() for key, value in loss.state_dict().items()}
        loss(torch.randn(2, 3, requires_grad=True), torch.tensor([0, 1]), torch.tensor([0, 3]))
        for key, value in loss.state_dict().items():
            assert torch.equal(value[[1, 2, 4]], before[key][[1, 2, 4]])
            assert not torch.equal(value[[0, 3]], before[key][[0, 3]])


@pytest.mark.parametrize("floor", [1e-4, 0.1])
def test_the_steps_of_sop_are_the_gradients_of_its_two_losses(floor):
    """The oracle: u and v as parameters, the bounds as torch's own clamps, autograd."""
    classes, labels = 4, torch.tensor([0, 1, 2, 3, 1, 2])
    y = F.one_hot(labels, classes).double()
    loss = SOPLoss(6, classes, scale=0.6, step_u=0.3, step_v=0.2, floor=floor).double()
    moved = {"u": 0, "v": 0}
    for seed in range(20):
        logits = 6 * torch.randn(6, classes, dtype=torch.float64, generator=torch.manual_seed(seed))
        u, v = loss.u.clone().requires_grad_(), loss.v.clone().requires_grad_()
        given, rest = (u[:, None] ** 2 * y).clamp(0, 1), (v**2 * (1 - y)).clamp(0, 1)
        q = F.normalize((logits.softmax(1) + given - rest).clamp(min=floor), p=1.0, eps=floor)
        losses = -(y * q.clamp(floor, 1.0).log()).sum(1)
        (down_u,) = torch.autograd.grad(losses.sum(), u)
        guess = F.one_hot(logits.argmax(1), classes)
        (down_v,) = torch.autograd.grad((guess + given.detach() - rest - y).square().sum(), v)
        torch.testing.assert_close(loss(logits.requires_grad_(), labels, torch.arange(6)).detach(),
                                   losses.mean().detach())  # fmt: skip
        torch.testing.assert_close(loss.u, (u - 0.3 * down_u).detach())
        torch.testing.assert_close(loss.v, (v - 0.2 * down_v).detach())
        moved["u"] += int((down_u == 0).sum())
        moved["v"] += int((down_v[y == 0] == 0).sum())
    assert min(moved.values()) > 0, "no bound was active, so nothing was learned about them"


def test_elr_takes_no_gradient_through_its_target():
    loss, logits = ELRLoss(2, 3).double(), torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    labels, index = torch.tensor([0, 1]), torch.tensor([0, 1])
    seen = torch.autograd.grad(loss(logits, labels, index), logits)[0]
    again = torch.autograd.grad(loss.eval()(logits, labels, index), logits)[0]  # the target is now a constant
    torch.testing.assert_close(seen, again)


def test_sop_without_a_floor_survives_a_probability_of_zero():
    loss = SOPLoss(2, 3, floor=0.0)
    loss.u.zero_()
    loss(torch.tensor([[-500.0, 0.0, 0.0]], requires_grad=True), torch.tensor([0]), torch.tensor([0]))
    assert loss.u.isfinite().all()
