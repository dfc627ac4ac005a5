"""The channel loss against its formulas, written once more as plain loops in float64."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F

from icelens import ranks
from icelens.errors import InputError, TrainingError
from icelens.losses.channel import ChannelLoss
from icelens.losses.held import HeldLoss

N, K, BATCH = 12, 4, 6


def logit(p):
    return math.log(p / (1 - p))


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


class Reference:
    """The docstring of ChannelLoss, one example and one class at a time."""

    def __init__(self, loss):
        self.belief, self.step_size, self.memory = loss.belief, loss.step_size, loss.memory
        self.v = loss.table.v.double().tolist()
        self.flipped, self.stayed = loss.flipped.double().tolist(), loss.stayed.double().tolist()
        self.steps = 0

    def channel(self):
        rows = []
        for a in range(K):
            counts = [self.flipped[a][y] + 1e-5 if y != a else 0.0 for y in range(K)]
            rows.append([count / sum(counts) for count in counts])
        return rows

    def kept(self):
        moved = [sum(row) for row in self.flipped]
        whole = sum(self.stayed) / (sum(self.stayed) + sum(moved))
        few = 0.02 / K
        return [(s + few * whole) / (s + m + few) for s, m in zip(self.stayed, moved, strict=True)]

    def visit(self, logits, labels, index):
        channel, kept, steps, losses = self.channel(), self.kept(), [], []
        flipped, stayed = [[0.0] * K for _ in range(K)], [0.0] * K
        for row, y, i in zip(
            logits.double().softmax(-1).tolist(), labels.tolist(), index.tolist(), strict=True
        ):
            from_class = [row[a] * channel[a][y] for a in range(K)]
            believed = sigmoid(self.belief * self.v[i] + (1 - self.belief) * logit(kept[y]))
            q = believed * row[y] + (1 - believed) * sum(from_class)
            losses.append(-math.log(q))
            c = sigmoid(self.v[i])
            r = c * row[y] / (c * row[y] + (1 - c) * sum(from_class))
            steps.append((i, self.step_size * (r - c)))
            stayed[y] += believed * row[y] / q / len(labels)
            for a in range(K):
                flipped[a][y] += (1 - believed) * from_class[a] / q / len(labels)
        for i, step in steps:
            self.v[i] += step
        self.count(flipped, stayed)
        return sum(losses) / len(losses)

    def count(self, flipped, stayed):
        self.steps += 1
        share = max(self.memory, 1 / (self.steps + 1))
        for a in range(K):
            self.stayed[a] += share * (stayed[a] - self.stayed[a])
            for y in range(K):
                self.flipped[a][y] += share * (flipped[a][y] - self.flipped[a][y])


def batches(count, size=BATCH):
    for _ in range(count):
        yield 3 * torch.randn(size, K), torch.randint(K, (size,)), torch.randint(N, (size,))


def trained(**settings):
    """A loss that has seen some batches, so that no example and no class is like another."""
    loss = ChannelLoss(N, K, **settings)
    for batch in batches(10):
        loss(*batch)
    return loss


@pytest.mark.parametrize("settings", [{}, {"belief": 0.7, "step_size": 0.3, "memory": 0.3, "kept": 0.6}])
def test_value_confidences_channel_and_kept_follow_the_formulas(settings):
    loss = ChannelLoss(N, K, **settings)
    reference = Reference(loss)
    for batch in batches(20):
        assert loss(*batch).item() == pytest.approx(reference.visit(*batch), rel=1e-4)
        torch.testing.assert_close(
            loss.table.v.double(), torch.tensor(reference.v).double(), rtol=0, atol=1e-4
        )
        torch.testing.assert_close(
            loss.channel.double(), torch.tensor(reference.channel()).double(), rtol=1e-3, atol=1e-5
        )
        torch.testing.assert_close(
            loss.kept.double(), torch.tensor(reference.kept()).double(), rtol=0, atol=1e-5
        )
    assert loss.table.v.std() > 0.05  # the steps were worth comparing
    torch.testing.assert_close(loss.confidence(), loss.table.v.sigmoid())


def test_an_example_that_stands_twice_in_a_batch_moves_twice():
    once, twice = ChannelLoss(N, K), ChannelLoss(N, K)
    logits, labels = torch.randn(1, K), torch.tensor([2])
    once(logits, labels, torch.tensor([5]))
    twice(logits.repeat(2, 1), labels.repeat(2), torch.tensor([5, 5]))
    start = ChannelLoss(N, K).table.v[5]
    torch.testing.assert_close(twice.table.v[5] - start, 2 * (once.table.v[5] - start))


@pytest.mark.parametrize("classes", [2, 3, 50])
def test_rows_of_the_channel_sum_to_one_and_its_diagonal_is_zero(classes):
    loss = ChannelLoss(N, classes)
    for scale in (0.0, 1.0, 100.0):
        for _ in range(30):
            loss(scale * torch.randn(8, classes), torch.randint(classes, (8,)), torch.randint(N, (8,)))
            torch.testing.assert_close(loss.channel.sum(1), torch.ones(classes))
            assert (loss.channel.diagonal() == 0).all()
            assert ((loss.channel >= 0) & loss.channel.isfinite()).all()
            assert ((loss.kept > 0) & (loss.kept <= 1)).all()


def test_where_every_label_is_believed_it_is_cross_entropy():
    loss = ChannelLoss(N, K, belief=1.0)
    loss.table.v.fill_(30.0)
    logits, labels, index = next(batches(1))
    torch.testing.assert_close(loss(logits, labels, index), F.cross_entropy(logits, labels))


def test_where_no_label_is_believed_only_the_channel_counts():
    loss = trained(belief=1.0).eval()
    loss.table.v.fill_(-30.0)
    logits, labels, index = next(batches(1))
    expected = -(logits.softmax(-1) @ loss.channel).gather(1, labels[:, None]).log().mean()
    torch.testing.assert_close(loss(logits, labels, index), expected)


@pytest.mark.parametrize("how", ["eval", "no_grad"])
def test_nothing_moves_in_evaluation(how):
    loss = trained()
    before = copy.deepcopy((loss.table.v, loss.flipped, loss.stayed, loss.steps))
    batch = next(batches(1))
    if how == "eval":
        loss.eval()(*batch)
    else:
        with torch.no_grad():
            loss(*batch)
    torch.testing.assert_close((loss.table.v, loss.flipped, loss.stayed, loss.steps), before, rtol=0, atol=0)
    loss.train()(*batch)
    assert not torch.equal(loss.table.v, before[0])


def test_the_gradient_is_that_of_the_formula():
    loss = trained()
    logits, labels, index = next(batches(1))
    logits.requires_grad_()
    reference = copy.deepcopy(loss).eval()
    loss(logits, labels, index).backward()  # with the updates that go with it
    changed = logits.detach()
    for place in [(0, int(labels[0])), (0, (int(labels[0]) + 1) % K), (3, 1), (5, 2)]:
        step = torch.zeros_like(changed)
        step[place] = 1e-2
        up, down = (reference(changed + sign * step, labels, index) for sign in (1, -1))
        assert logits.grad[place].item() == pytest.approx((up - down).item() / 2e-2, abs=2e-4)
    torch.testing.assert_close(logits.grad.sum(1), torch.zeros(BATCH), rtol=0, atol=1e-6)


@pytest.mark.parametrize("kept", [0.1, 0.9, 1 - 1e-7])
@pytest.mark.parametrize("size", [1e2, 1e4])
def test_huge_logits_leave_all_finite(size, kept):
    loss = ChannelLoss(N, K, kept=kept)
    for labels in (torch.zeros(BATCH, dtype=torch.int64), torch.arange(BATCH) % K):
        for signs in (-torch.ones(BATCH, K), 2 * torch.eye(K)[torch.arange(BATCH) % K] - 1):
            logits = (size * signs).requires_grad_()
            for _ in range(20):
                value = loss(logits, labels, torch.arange(BATCH))
            (gradient,) = torch.autograd.grad(value, logits)
            assert value.isfinite()
            assert gradient.isfinite().all()
            assert loss.table.v.isfinite().all()
            assert loss.channel.isfinite().all()


@pytest.mark.parametrize("wrong", [math.inf, -math.inf, math.nan])
def test_of_a_row_that_is_not_finite_nothing_is_remembered(wrong):
    loss = trained()
    logits, labels, _ = next(batches(1))
    index, before = torch.arange(BATCH), copy.deepcopy(loss)
    bad = logits.clone()
    bad[1] = wrong
    loss(bad, labels, index)
    assert loss.table.v[1] == before.table.v[1]
    assert not torch.equal(loss.table.v[2], before.table.v[2])
    assert all(value.isfinite().all() for value in loss.state_dict().values())
    others = torch.tensor([row != 1 for row in range(BATCH)])
    before(logits[others], labels[others], index[others])
    torch.testing.assert_close(loss.table.v, before.table.v)
    torch.testing.assert_close(loss.kept, before.kept, rtol=0, atol=0.01)
    assert loss(logits, labels, index).isfinite()


def test_an_empty_batch_leaves_the_state():
    loss = trained()
    before = copy.deepcopy(loss.state_dict())
    loss(torch.zeros(0, K, requires_grad=True), *torch.zeros(2, 0, dtype=torch.int64))
    assert all(torch.equal(loss.state_dict()[name], value) for name, value in before.items())


@pytest.mark.parametrize(
    ("columns", "labels", "index", "message"),
    [
        (K, [0, 1, K], [0, 1, 2], "labels hold class 4 but there are 4 classes .* first at position 2"),
        (K + 2, [0, 1, 2], [0, 1, 2], "logits must have 4 columns"),
        (K, [0, 1, 2], [0, 1], r"index must be \(batch,\) = \(3,\) integers"),
        (K, [0, 1, 2], None, "ChannelLoss needs the index of each training example"),
    ],
)
def test_a_wrong_batch_is_one_clear_error_and_leaves_the_state(columns, labels, index, message):
    loss = ChannelLoss(N, K)
    with pytest.raises(InputError, match=message):
        loss(torch.zeros(3, columns), torch.tensor(labels), None if index is None else torch.tensor(index))
    assert loss.steps == 0


def test_without_index_it_is_cross_entropy_outside_training():
    logits, labels, _ = next(batches(1))
    torch.testing.assert_close(trained().eval()(logits, labels), F.cross_entropy(logits, labels))


def test_mixed_precision_makes_the_counts_of_several_ranks_no_coarser(monkeypatch):
    """They are products of matrices, which autocast would make bfloat16."""
    alone, together = HeldLoss(N, K), HeldLoss(N, K)
    _, labels, _ = next(batches(1))
    seen = torch.rand(BATCH), torch.rand(BATCH, K)
    alone._count(labels, *seen)
    monkeypatch.setattr(ranks, "count", lambda: 2)
    with torch.autocast("cpu", torch.bfloat16):
        together._count(labels, *seen)
    torch.testing.assert_close(together.flipped, alone.flipped)
    torch.testing.assert_close(together.stayed, alone.stayed)


def test_several_processes_are_refused_unless_one_works_by_itself(monkeypatch):
    loss, batch = trained(), next(batches(1))
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    before = copy.deepcopy(loss.state_dict())
    with pytest.raises(TrainingError, match="ChannelLoss is for one process, and there are 2"):
        loss(*batch)
    loss.eval()(*batch)
    assert all(torch.equal(loss.state_dict()[name], value) for name, value in before.items())
    with ranks.alone():
        loss.train()(*batch)
    assert not torch.equal(loss.table.v, before["table.v"])


@pytest.mark.parametrize("classes", [2, 10, 100, 700])
def test_the_columns_of_the_channel_that_a_step_reads_are_those_of_the_whole_to_the_bit(classes):
    loss, labels = ChannelLoss(N, classes), torch.randint(classes, (64,))
    off = 1 - torch.eye(classes)
    for _ in range(3):
        counts = loss.flipped + 1e-5 * off
        whole = counts / counts.sum(1, keepdim=True)
        assert torch.equal(loss.channel, whole)
        assert torch.equal(loss.channel_to(labels), whole.T[labels])
        loss.flipped.copy_(torch.rand(classes, classes) ** 8 / classes * off)


@pytest.mark.parametrize("kind", [ChannelLoss, HeldLoss])
def test_a_step_does_not_make_the_channel_of_all_classes(kind, monkeypatch):
    """With 4,000 classes that took two thirds of it."""
    monkeypatch.setattr(ChannelLoss, "channel", property(lambda self: pytest.fail("the whole channel")))
    kind(N, K)(*next(batches(1)))


def test_the_channel_finds_a_planted_pair():
    """Class 1 is called 3 in three of ten cases; all other labels are right."""
    torch.manual_seed(1)
    truth = torch.arange(400) % K
    given = torch.where((truth == 1) & (torch.rand(400) < 0.3), 3, truth)
    moved = given != truth
    loss = ChannelLoss(400, K)
    logits = 4 * F.one_hot(truth, K).float() + 0.5 * torch.randn(400, K)
    for _ in range(30):
        for index in torch.randperm(400).split(50):
            loss(logits[index], given[index], index)
    assert loss.channel[1].argmax() == 3
    assert loss.channel[1, 3] > 0.9
    assert loss.kept.argmin() == 1
    assert loss.confidence()[moved].max() < loss.confidence()[~moved].min()
