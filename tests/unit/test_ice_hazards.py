"""What goes wrong around a table of confidences, and what the user is told: the hazards, one by one."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from icelens.errors import IndexRangeError, InputError, TrainingError
from icelens.losses import ICELoss

every_transform = pytest.mark.parametrize("transform", ["linear", "power"])
both_checkpoints = pytest.mark.parametrize("use_reentrant", [True, False])


def batch(rows=4, classes=3):
    return torch.randn(rows, classes, requires_grad=True), torch.arange(rows) % classes, torch.arange(rows)


def compiled(function):
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, backend="aot_eager")


@pytest.mark.parametrize("wrong", [-1, -100, 10, 2**40])
@pytest.mark.parametrize("mode", ["train", "eval"])
def test_an_index_out_of_range_is_an_error_at_once_and_changes_nothing(wrong, mode):
    loss_fn = ICELoss(10).train(mode == "train")
    logits, labels, index = batch()
    index[2] = wrong
    with pytest.raises(
        IndexRangeError, match=rf"^index {wrong} is not a row of the confidence table"
    ) as caught:
        loss_fn(logits, labels, index)
    assert isinstance(caught.value, IndexError)
    assert "\n" not in str(caught.value)
    assert (loss_fn.confidence() == 0.5).all()


@pytest.mark.parametrize("wrong", [-1, 10, 2**40])
@pytest.mark.parametrize("read", [ICELoss.confidence, ICELoss.state_dict])
def test_compiled_an_index_out_of_range_moves_no_row_and_is_an_error_when_the_table_is_read(wrong, read):
    loss_fn, expected = ICELoss(10), ICELoss(10)
    logits, labels, index = batch()
    expected(logits[:3], labels[:3], index[:3])
    index[3] = wrong
    graph = compiled(loss_fn)
    graph(logits, labels, index)
    torch.testing.assert_close(loss_fn.table.v, expected.table.v)
    graph(*batch())  # a good batch after it hides nothing
    with pytest.raises(IndexRangeError, match=f"^index {wrong} is not a row"):
        read(loss_fn)
    read(loss_fn)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"logits": torch.zeros(4)},
            r"logits must be \(batch, classes\) floats, got torch.float32, shape \(4,\)",
        ),
        ({"logits": torch.zeros(4, 3, 2)}, r"logits must be .* shape \(4, 3, 2\)"),
        ({"logits": torch.zeros(4, 0)}, r"logits must be .* shape \(4, 0\)"),
        ({"logits": torch.zeros(4, 3, dtype=torch.int64)}, "logits must be .* floats, got torch.int64"),
        ({"labels": torch.zeros(4)}, r"labels must be \(batch,\) integers, got torch.float32"),
        ({"labels": torch.zeros(4, dtype=torch.bool)}, r"labels must be \(batch,\) integers, got torch.bool"),
        ({"labels": torch.zeros(4, 3)}, r"labels must be .* shape \(4, 3\)"),
        ({"labels": torch.tensor(1)}, r"labels must be .* shape \(\)"),
        ({"labels": torch.zeros(5, dtype=torch.int64)}, "logits hold 4 rows but labels 5"),
        (
            {"labels": torch.tensor([0, 1, 3, 2])},
            r"labels hold class 3 but there are 3 classes .*position 2",
        ),
        ({"labels": torch.tensor([0, -1, 3, 2])}, r"labels hold class -1 .*first at position 1"),
        ({"index": torch.zeros(4)}, r"index must be \(batch,\) = \(4,\) integers, got torch.float32"),
        ({"index": torch.ones(4, dtype=torch.bool)}, "index must be .* got torch.bool"),
        ({"index": torch.zeros(3, dtype=torch.int64)}, r"index must be .* shape \(3,\)"),
        ({"index": torch.zeros(4, 1, dtype=torch.int64)}, r"index must be .* shape \(4, 1\)"),
        ({"index": torch.tensor(0)}, r"index must be .* shape \(\)"),
        ({"index": [0, 1, 2, 3]}, "index must be a tensor of integers, got list"),
    ],
)
def test_a_wrong_input_is_one_clear_line_and_changes_nothing(change, message):
    loss_fn = ICELoss(10)
    inputs = dict(zip(("logits", "labels", "index"), batch(), strict=True)) | change
    with pytest.raises(InputError, match=f"^{message}") as caught:
        loss_fn(**inputs)
    assert isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)
    assert (loss_fn.confidence() == 0.5).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"transform": "lineer"}, "unknown transform 'lineer'; did you mean 'linear'?"),
        ({"reduction": "avg"}, "unknown reduction 'avg'; known are mean, none, sum"),
        ({"examples": 0}, "a confidence table needs at least one example, got 0"),
    ],
)
def test_a_wrong_setting_is_refused_when_the_loss_is_made(settings, message):
    with pytest.raises(InputError) as caught:
        ICELoss(**({"examples": 10} | settings))
    assert str(caught.value) == message


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32])
@every_transform
def test_labels_of_any_integer_type(dtype, transform):
    logits = torch.randn(3, 200, requires_grad=True)
    labels, index = torch.tensor([156, 0, 199]), torch.arange(3)  # −100 as a uint8 is 156
    if dtype == torch.int32:
        labels[1] = -100
    narrow, wide = ICELoss(3, transform=transform), ICELoss(3, transform=transform)
    torch.testing.assert_close(narrow(logits, labels.to(dtype), index), wide(logits, labels, index))
    assert torch.equal(narrow.table.v, wide.table.v)
    assert narrow.table.v[0] != 0


@every_transform
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("column", [0, 1], ids=["at the label", "elsewhere"])
def test_a_logit_that_is_not_finite_poisons_no_row(transform, bad, column):
    logits, labels, index = batch()
    clean = ICELoss(10, transform=transform)
    clean(logits, labels, index)
    with torch.no_grad():
        logits[0, column] = bad
    loss_fn = ICELoss(10, transform=transform)
    loss_fn(logits, labels, index)
    loss_fn(logits, labels, index)
    assert loss_fn.table.v.isfinite().all()
    assert (loss_fn.table.v[1:4].sign() == clean.table.v[1:4].sign()).all()
    assert (loss_fn.table.v[1:4] != 0).all()
    if bad != -torch.inf:
        assert loss_fn.table.v[0] == 0


@every_transform
def test_a_class_ruled_out_by_an_infinite_logit_does_not_stop_its_rows_from_learning(transform):
    logits, labels, index = batch()
    masked = torch.cat([logits, torch.full((4, 1), -torch.inf)], -1)
    loss_fn = ICELoss(10, transform=transform)
    loss = loss_fn(masked, labels, index)
    assert (loss_fn.table.v[:4] != 0).all()
    assert torch.autograd.grad(loss, logits)[0].isfinite().all()


class Classifier(nn.Module):
    def __init__(self, loss_fn):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head, self.loss_fn = nn.Linear(3, 8), nn.Linear(8, 3), loss_fn

    def logits(self, x):
        return self.head(torch.tanh(self.body(x)))

    def forward(self, x, labels, index):
        return self.loss_fn(self.logits(x), labels, index)


def inputs():
    return torch.randn(6, 3, requires_grad=True), torch.arange(6) % 3, torch.arange(6)


@both_checkpoints
def test_checkpointing_around_the_loss_is_refused(use_reentrant):
    model = Classifier(ICELoss(10))
    loss = checkpoint(model, *inputs(), use_reentrant=use_reentrant)
    with pytest.raises(
        TrainingError, match="checkpointing must not include the loss; checkpoint the model alone"
    ):
        loss.backward()


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # dynamo's own
@both_checkpoints
def test_checkpointing_around_a_compiled_loss_is_refused(use_reentrant):
    model = Classifier(compiled(ICELoss(10)))
    loss = checkpoint(model, *inputs(), use_reentrant=use_reentrant)
    with pytest.raises(TrainingError, match="checkpointing must not include the loss"):
        loss.backward()


def test_compiled_checkpointing_around_the_loss_is_refused():
    model = Classifier(ICELoss(10))
    graph = compiled(lambda *batch: checkpoint(model, *batch, use_reentrant=False))
    loss = graph(*inputs())
    with pytest.raises(TrainingError, match="checkpointing must not include the loss"):
        loss.backward()


@both_checkpoints
@every_transform
def test_checkpointing_the_model_alone_changes_nothing(use_reentrant, transform):
    plain, saving = (Classifier(ICELoss(10, transform=transform)) for _ in range(2))
    x, labels, index = inputs()
    for _ in range(3):
        plain(x, labels, index).backward()
        logits = checkpoint(saving.logits, x, use_reentrant=use_reentrant)
        saving.loss_fn(logits, labels, index).backward()
    assert torch.equal(saving.loss_fn.table.v, plain.loss_fn.table.v)
    for a, b in zip(plain.parameters(), saving.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)


def test_checkpointing_around_the_loss_is_fine_where_nothing_is_learned():
    model = Classifier(ICELoss(10)).eval()
    x, labels, index = inputs()
    model(x, labels, index).backward()
    gradient, x.grad = x.grad, None
    checkpoint(model, x, labels, index, use_reentrant=False).backward()
    torch.testing.assert_close(x.grad, gradient)


def test_the_table_is_no_parameter_and_no_buffer():
    module = Classifier(ICELoss(10, weight=torch.ones(3)))
    tensors = [*module.parameters(), *module.buffers()]
    assert tensors
    assert not any(t is module.loss_fn.table.v or t.shape == (10,) for t in tensors)


def test_the_operator_that_reads_the_table_keeps_torchs_rules():
    for value in (torch.zeros(5), torch.tensor(True), torch.zeros(3, 4).T, torch.zeros(0, 2)):
        torch.library.opcheck(torch.ops.icelens.read_once.default, (value,))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"step_size": -1}, "step_size must be finite and at least 0, got -1"),
        ({"step_size": float("nan")}, "step_size must be finite and at least 0, got nan"),
        ({"step_size": "1"}, "step_size must be a number, got '1'"),
        ({"start": float("inf")}, "start must be finite, got inf"),
        (
            {"examples": [1, 2]},
            r"examples must be the number of training examples, len\(train_set\), got list",
        ),
        ({"examples": 2.5}, "examples must be the number of training examples"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_once(settings, message):
    with pytest.raises(InputError, match=message):
        ICELoss(**{"examples": 3, **settings})


def test_labels_that_are_no_tensor_are_named():
    with pytest.raises(InputError, match="labels must be a tensor, got list"):
        ICELoss(3)(torch.zeros(2, 2, requires_grad=True), [0, 1], torch.tensor([0, 1]))


def test_logits_that_are_no_tensor_are_named_where_there_are_class_weights_too():
    with pytest.raises(InputError, match="logits must be a tensor, got list"):
        ICELoss(3, weight=torch.ones(2))([[1.0, 2.0]], torch.tensor([0]), torch.tensor([0]))
