"""Laws over all of LOSSES: a new method is covered by its registration."""

from __future__ import annotations

import copy
import inspect
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import icelens.losses.pointwise
from icelens.errors import InputError
from icelens.losses import (
    LOSSES,
    Pointwise,
    Problem,
    abstaining_cross_entropy,
    confidence_cross_entropy,
    forward_correction,
    make_loss,
    noise_adaptation,
)

sys.path.append(str(Path(__file__).parents[1] / "unit"))
from loss_references import REFERENCES

EXAMPLES, CLASSES, STEPS, BATCH = 7, 4, 20, 5
TRANSITION = torch.tensor(
    [[0.7, 0.3, 0.0, 0.0], [0.1, 0.5, 0.2, 0.2], [0.0, 0.0, 0.9, 0.1], [0.25, 0.05, 0.3, 0.4]],
    dtype=torch.float64,
)
PER_EXAMPLE = ["ice_linear", "ice_power", "ice_held", "elr", "sop"]

every_loss = pytest.mark.parametrize("name", LOSSES)
seeds = st.integers(0, 2**32 - 1)


def few(examples):
    return settings(max_examples=examples, deadline=None, derandomize=True,
                    suppress_health_check=[HealthCheck.too_slow])  # fmt: skip


def make(name, *, reduction="none", transition=TRANSITION, steps=STEPS, seed=0, **chosen):
    torch.manual_seed(seed)
    loss = make_loss(name, Problem(EXAMPLES, CLASSES, steps, transition), **chosen).double()
    loss.reduction = reduction
    return loss


def batches(name, scale, seed, steps=STEPS):
    """Training steps that visit the same examples again and again; a label belongs to its example."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (EXAMPLES,), generator=generator)
    columns = LOSSES[name].outputs(CLASSES)
    for _ in range(steps):
        index = torch.randperm(EXAMPLES, generator=generator)[:BATCH]
        outputs = scale * torch.randn(BATCH, columns, generator=generator, dtype=torch.float64)
        yield outputs, labels[index], index


def halved(value):
    """Another value of a setting, within the same bounds."""
    return 0.5 * value + 0.02


def chosen_settings():
    for name, method in LOSSES.items():
        yield pytest.param(name, {}, id=name)
        for setting, value in method.settings.items():
            yield pytest.param(name, {setting: halved(value)}, id=f"{name}-{setting}")


def test_every_method_has_a_reference_and_every_reference_a_method():
    assert set(REFERENCES) == set(LOSSES)


@pytest.mark.parametrize(("name", "chosen"), list(chosen_settings()))
@given(seed=seeds, scale=st.sampled_from([0.3, 3.0, 12.0]))
@few(6)
def test_equals_the_loop_written_from_the_paper(name, chosen, seed, scale):
    if name == "sop" and "scale" not in chosen:
        chosen = {**chosen, "scale": 0.3}  # the published 1e-8 would hide what u and v do
    loss = make(name, seed=seed, **chosen)
    loop = REFERENCES[name](
        Problem(EXAMPLES, CLASSES, STEPS, TRANSITION),
        loss.state_dict(),
        **{**LOSSES[name].settings, **chosen},
    )
    # The confidence table is float32 whatever the logits are.
    bound = 2e-4 if name.startswith("ice") else 1e-9
    for outputs, labels, index in batches(name, scale, seed):
        expected = loop(outputs.tolist(), labels.tolist(), index.tolist())
        seen = loss(outputs.requires_grad_(), labels, index)
        torch.testing.assert_close(
            seen.detach(), torch.tensor(expected, dtype=torch.float64), rtol=bound, atol=bound
        )


@pytest.mark.parametrize("name", ["ice_linear", "ice_power"])
def test_a_repeated_index_counts_each_time_as_in_the_loop(name):
    loss = make(name)
    loop = REFERENCES[name](Problem(EXAMPLES, CLASSES, STEPS), {}, **LOSSES[name].settings)
    for outputs, labels, _ in batches(name, 2.0, 1):
        index = torch.tensor([3, 3, 0, 3, 1])
        expected = loop(outputs.tolist(), labels.tolist(), index.tolist())
        seen = loss(outputs.requires_grad_(), labels, index)
        torch.testing.assert_close(seen.detach(), torch.tensor(expected).double(), rtol=1e-4, atol=1e-4)


def silence(name, outputs):
    """Leave p as it is, and make the outputs beyond it say nothing."""
    if name == "dac":
        outputs[:, CLASSES:] = -1000.0
    elif name == "adaptation":
        outputs[:, CLASSES:] = 1000 * torch.eye(CLASSES, dtype=outputs.dtype).flatten()
    else:
        assert outputs.shape[1] == CLASSES, f"say here how the further outputs of '{name}' are silenced"
    return outputs


@every_loss
@given(seed=seeds, scale=st.sampled_from([0.3, 3.0]))
@few(5)
def test_has_a_setting_at_which_it_is_cross_entropy(name, seed, scale):
    method = LOSSES[name]
    loss = make(name, transition=torch.eye(CLASSES), seed=seed, **method.cross_entropy_at)
    for network, labels, index in batches(name, scale, seed):
        outputs = silence(name, network).requires_grad_()
        seen = loss(outputs, labels, index)
        expected = F.cross_entropy(method.predict(outputs, CLASSES), labels, reduction="none")
        torch.testing.assert_close(seen, expected, rtol=1e-9, atol=1e-9)
        ours, theirs = (torch.autograd.grad(x.sum(), outputs, retain_graph=True)[0] for x in (seen, expected))
        torch.testing.assert_close(ours[:, :CLASSES], theirs[:, :CLASSES], rtol=1e-7, atol=1e-9)


@every_loss
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(data=st.data())
@few(25)
def test_is_finite_with_finite_gradients_at_logits_of_100(name, dtype, data):
    columns = LOSSES[name].outputs(CLASSES)
    logit = st.sampled_from([-100.0, 100.0, 0.0]) | st.floats(-100, 100)
    loss = make(name, steps=3)
    for _ in range(3):
        rows = data.draw(
            st.lists(st.lists(logit, min_size=columns, max_size=columns), min_size=2, max_size=2)
        )
        labels = data.draw(st.lists(st.integers(0, CLASSES - 1), min_size=2, max_size=2))
        outputs = torch.tensor(rows, dtype=dtype, requires_grad=True)
        losses = loss(outputs, torch.tensor(labels), torch.tensor([0, 5]))
        losses.sum().backward()
        assert losses.isfinite().all()
        assert outputs.grad.isfinite().all()
    assert all(value.isfinite().all() for value in loss.state_dict().values())


@every_loss
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_of_half_precision_there_is_nothing_but_the_logits(name, dtype, mixed):
    """Losses and state are exactly those of the same logits in float32, in mixed precision too."""
    rough = make(name, transition=0.01 * TRANSITION + 0.99 * torch.eye(CLASSES))
    fine = copy.deepcopy(rough)
    for outputs, labels, index in batches(name, 12.0, 0):
        rounded = outputs.to(dtype)
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            seen = rough(rounded.requires_grad_(), labels, index)
        wanted = fine(rounded.float(), labels, index)
        assert seen.dtype == wanted.dtype == torch.float32
        assert torch.equal(seen, wanted)
    assert all(torch.equal(rough.state_dict()[key], value) for key, value in fine.state_dict().items())


@every_loss
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_cast_makes_no_state_coarser(name, dtype):
    loss = make(name).float()
    for outputs, labels, index in batches(name, 3.0, 0):
        loss(outputs.float().requires_grad_(), labels, index)
    before = copy.deepcopy(loss.state_dict())
    loss.to(dtype)
    for key, value in before.items():
        assert loss.state_dict()[key].dtype == value.dtype
        assert torch.equal(loss.state_dict()[key], value)


@every_loss
def test_a_class_that_a_logit_rules_out_gives_no_nan(name):
    loss = make(name)
    for outputs, labels, index in batches(name, 3.0, 0):
        outputs[:, CLASSES - 1] = -torch.inf
        losses = loss(outputs.requires_grad_(), labels.clamp(max=CLASSES - 2), index)
        (gradient,) = torch.autograd.grad(losses.sum(), outputs)
        assert losses.isfinite().all() or name == "label_smoothing"  # which gives each class its part
        assert not losses.isnan().any()
        assert gradient.isfinite().all()


@every_loss
@given(seed=seeds)
@few(5)
def test_permuting_the_batch_permutes_losses_and_gradients(name, seed):
    loss = make(name)
    other = copy.deepcopy(loss)
    order = torch.randperm(BATCH, generator=torch.Generator().manual_seed(seed))
    for outputs, labels, index in batches(name, 3.0, seed):
        shuffled = outputs[order].requires_grad_()
        outputs.requires_grad_()
        losses, theirs = loss(outputs, labels, index), other(shuffled, labels[order], index[order])
        torch.testing.assert_close(losses[order], theirs, rtol=1e-12, atol=1e-12)
        gradient = torch.autograd.grad(losses.sum(), outputs)[0]
        torch.testing.assert_close(gradient[order], torch.autograd.grad(theirs.sum(), shuffled)[0])
    torch.testing.assert_close(loss.state_dict(), other.state_dict(), rtol=1e-12, atol=1e-12)


def permute_outputs(name, outputs, order):
    """Rename the classes in the network's outputs: column j is what column order[j] was."""
    first, rest = outputs[:, :CLASSES][:, order], outputs[:, CLASSES:]
    if name == "adaptation":
        rest = rest.unflatten(1, (CLASSES, CLASSES))[:, order][:, :, order].flatten(1)
    else:
        assert rest.shape[1] <= 1, f"say here how the further outputs of '{name}' follow the classes"
    return torch.cat([first, rest], 1)


def permute_state(state, order):
    """Rename the classes in whatever state has a column, or a row and a column, per class."""
    for value in state.values():
        if value.ndim == 2 and value.shape[1] == CLASSES:
            value.copy_(value[:, order])
            if value.shape[0] == CLASSES:
                value.copy_(value[order])


@every_loss
@given(seed=seeds)
@few(5)
def test_permuting_the_classes_changes_nothing_but_the_names(name, seed):
    order = torch.randperm(CLASSES, generator=torch.Generator().manual_seed(seed))
    chosen = {"scale": 0.3} if name == "sop" else {}
    loss = make(name, **chosen)
    other = copy.deepcopy(loss)
    permute_state(other.state_dict(), order)
    for outputs, labels, index in batches(name, 3.0, seed):
        renamed = permute_outputs(name, outputs, order).requires_grad_()
        outputs.requires_grad_()
        losses, theirs = loss(outputs, labels, index), other(renamed, order.argsort()[labels], index)
        torch.testing.assert_close(losses, theirs, rtol=1e-6, atol=1e-6)
        gradient = torch.autograd.grad(losses.sum(), outputs)[0]
        torch.testing.assert_close(
            permute_outputs(name, gradient, order), torch.autograd.grad(theirs.sum(), renamed)[0],
            rtol=1e-6, atol=1e-6,
        )  # fmt: skip


@every_loss
@pytest.mark.parametrize("classes", [2, 10, 100])
def test_a_prediction_has_one_logit_for_each_class(name, classes):
    method = LOSSES[name]
    columns = method.outputs(classes)
    assert columns >= classes
    outputs = torch.randn(3, columns)
    assert method.predict(outputs, classes).shape == (3, classes)
    problem = Problem(EXAMPLES, classes, STEPS, torch.eye(classes))
    loss = make_loss(name, problem)(outputs, torch.tensor([0, 1, classes - 1]), torch.tensor([0, 1, 2]))
    assert loss.shape == ()


@every_loss
def test_the_reductions_agree(name):
    outputs, labels, index = next(batches(name, 2.0, 0))
    each, mean, total = (make(name, reduction=r)(outputs, labels, index) for r in ("none", "mean", "sum"))
    assert each.shape == (BATCH,)
    torch.testing.assert_close(mean, each.mean())
    torch.testing.assert_close(total, each.sum())
    with pytest.raises(InputError, match="unknown reduction 'meen'; did you mean 'mean'"):
        make(name, reduction="meen")(outputs, labels, index)


@every_loss
def test_an_empty_batch_costs_nothing_and_leaves_the_state(name):
    loss = make(name, reduction="sum")
    before = copy.deepcopy(loss.state_dict())
    none = torch.zeros(0, dtype=torch.int64)
    outputs = torch.zeros(0, LOSSES[name].outputs(CLASSES), dtype=torch.float64, requires_grad=True)
    assert loss(outputs, none, none) == 0
    before.pop("step", None)  # a step of the schedule all the same
    for key, value in before.items():
        torch.testing.assert_close(loss.state_dict()[key], value, equal_nan=True)


def told(name, outputs, labels, step):
    """For the guard of ice_held a network that knows the labels, but for one in the first batch."""
    if name == "ice_held":
        outputs = outputs + 40 * F.one_hot(labels, CLASSES)
        wrong = torch.arange(BATCH) + step == 0
        labels = torch.where(wrong, (labels + 1) % CLASSES, labels)
    return outputs.requires_grad_(), labels


def trajectory(name, **chosen):
    """Everything that a setting could change: all losses of a run, and the state at its end."""
    loss = make(name, **chosen)
    losses = [
        loss(*told(name, outputs, labels, step), index).detach()
        for step, (outputs, labels, index) in enumerate(batches(name, 9, 3))
    ]
    state = [value.double().flatten() for value in loss.state_dict().values()]
    return torch.cat([*losses, *state])


@pytest.mark.parametrize(("name", "setting"), [(n, s) for n, m in LOSSES.items() for s in m.settings])
def test_every_setting_matters(name, setting):
    usual, changed = trajectory(name), trajectory(name, **{setting: halved(LOSSES[name].settings[setting])})
    assert not torch.equal(usual, changed)
    assert torch.equal(usual, trajectory(name, **LOSSES[name].settings))


@every_loss
def test_eval_and_no_grad_leave_the_state(name):
    loss = make(name)
    outputs, labels, index = next(batches(name, 2.0, 0))
    loss(outputs.requires_grad_(), labels, index)
    before = copy.deepcopy(loss.state_dict())
    with torch.no_grad():
        loss(outputs, labels, index)
    loss.eval()(outputs, labels, index)
    assert all(torch.equal(loss.state_dict()[key], value) for key, value in before.items())


@pytest.mark.parametrize("name", [*PER_EXAMPLE, "dac", "forward"])
def test_outside_training_it_is_cross_entropy_of_the_prediction(name):
    loss = make(name)
    for outputs, labels, index in batches(name, 2.0, 0, steps=STEPS // 2):
        loss(outputs.requires_grad_(), labels, index)
    expected = F.cross_entropy(LOSSES[name].predict(outputs, CLASSES), labels, reduction="none")
    torch.testing.assert_close(loss.eval()(outputs, labels), expected)


@pytest.mark.parametrize("name", PER_EXAMPLE)
def test_a_state_per_example_needs_the_index_in_training(name):
    assert "bytes" in LOSSES[name].state
    outputs, labels, _ = next(batches(name, 2.0, 0))
    loss = make(name)
    with pytest.raises(InputError, match="needs the index of each training example"):
        loss(outputs, labels)
    with torch.no_grad():
        loss(outputs, labels)


def test_the_methods_with_a_state_per_example_are_all_listed():
    assert [name for name, method in LOSSES.items() if "bytes" in method.state] == PER_EXAMPLE


@every_loss
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            [0, 1, CLASSES],
            r"labels hold class 4 but there are 4 classes \(0–3\); first at position 2",
        ),
        ([0, -1, 1], "labels hold class -1 .* first at position 1"),
        ([0.0, 1.0, 2.0], r"labels must be \(batch,\) integers.* got torch.float32"),
        ([[0], [1], [2]], r"labels must be \(batch,\) integers.* shape \(3, 1\)"),
        ([0, 1], "logits hold 3 rows but labels 2"),
    ],
)
@pytest.mark.parametrize("training", [True, False])
def test_wrong_labels_are_one_clear_error(name, labels, message, training):
    outputs = torch.zeros(3, LOSSES[name].outputs(CLASSES))
    labels = torch.tensor(labels)
    with pytest.raises(InputError, match=message):
        make(name).train(training)(outputs, labels, torch.arange(len(labels)))


@every_loss
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32])
def test_any_integers_may_be_labels(name, dtype):
    outputs, labels, index = next(batches(name, 2.0, 0))
    seen = make(name)(outputs, labels.to(dtype), index)
    assert torch.equal(seen, make(name)(outputs, labels, index))


@every_loss
@pytest.mark.parametrize("shape", [(12,), (3, 4, 2)])
def test_logits_of_another_shape_are_one_clear_error(name, shape):
    with pytest.raises(InputError, match=r"logits must be \(batch, classes\)|needs K \+ K·K outputs"):
        make(name)(torch.zeros(shape), torch.tensor([0, 1, 2]), torch.tensor([0, 1, 2]))


POINTWISE = {
    name: function
    for name, function in inspect.getmembers(icelens.losses.pointwise, inspect.isfunction)
    if function.__module__ == "icelens.losses.pointwise"
}


def test_every_pointwise_function_is_registered():
    registered = {
        make(name).function.__name__ for name in LOSSES if isinstance(make(name), Pointwise)
    }  # the network-confidence variant takes v as well, so it has no name of its own
    assert set(POINTWISE) | {"noise_adaptation"} == registered | {"confidence_cross_entropy"}


@pytest.mark.parametrize("name", sorted(set(POINTWISE) - {"confidence_cross_entropy"}))
def test_gradients_of_the_functions(name):
    logits = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([0, 4, 2, 2])
    assert torch.autograd.gradcheck(lambda z: POINTWISE[name](z, labels), logits)


def test_gradients_of_the_functions_with_more_inputs():
    def check(function, *inputs):
        labels = torch.tensor([0, 3, 2, 2])
        inputs = [x.double().requires_grad_() for x in inputs]
        assert torch.autograd.gradcheck(lambda z, *rest: function(z, labels, *rest), inputs)

    dense = 0.9 * TRANSITION + 0.025  # at T = 0 the logarithm has no numerical derivative
    check(forward_correction, torch.randn(4, 4), dense)
    check(noise_adaptation, torch.randn(4, 20))
    check(lambda z, y, a: abstaining_cross_entropy(z, y, alpha=a), torch.randn(4, 5), torch.tensor(0.3))
    for transform in ("linear", "power"):
        check(lambda z, y, v, t=transform: confidence_cross_entropy(z, y, v, transform=t),
              torch.randn(4, 4), torch.randn(4))  # fmt: skip


# ice_held spreads the rest of t as the logits do, and takes it for given: see test_held_loss.py.
@pytest.mark.parametrize("name", sorted(set(PER_EXAMPLE) - {"ice_held"}))
def test_gradients_of_the_losses_with_a_row_per_example(name):
    """With the state held, so that the loss is a function of the logits alone."""
    loss = make(name, **({"scale": 0.3} if name == "sop" else {}))
    for outputs, labels, index in batches(name, 1.0, 0):
        loss(outputs.requires_grad_(), labels, index)
    loss.eval()
    assert torch.autograd.gradcheck(lambda z: loss(z, labels, index), outputs.detach().requires_grad_())
