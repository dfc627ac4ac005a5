"""The held loss: early-learning regularisation from two numbers per example, and confidences beside it."""

import math

import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.checkpoint import checkpoint

from icelens.auditing.fit import fit
from icelens.auditing.inputs import Features, Plan
from icelens.errors import IndexRangeError, InputError, TrainingError
from icelens.losses import ELRLoss
from icelens.losses.held import HeldLoss
from icelens.noise import add_noise

N = 40


def visits(classes, count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (N,), generator=generator)
    return labels, [2 * torch.randn(N, classes, generator=generator) for _ in range(count)]


def test_with_two_classes_it_is_elr_with_its_whole_table():
    labels, batches = visits(2, 8)
    held, elr = HeldLoss(N, 2, doubt=0.0), ELRLoss(N, 2, strength=5.4)
    index = torch.arange(N)
    for logits in batches:
        ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
        loss, wanted = held(ours, labels, index), elr(theirs, labels, index)
        loss.backward()
        wanted.backward()
        # Shares are kept in 16 bits.
        torch.testing.assert_close(loss, wanted, atol=2e-3, rtol=2e-3)
        torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-4, rtol=1e-2)


def test_with_many_classes_the_leader_of_the_average_is_kept():
    classes = 6
    labels, _ = visits(classes, 0)
    held, elr, index = HeldLoss(N, classes), ELRLoss(N, classes), torch.arange(N)
    generator = torch.Generator().manual_seed(1)
    steady = 3 * torch.randn(N, classes, generator=generator)
    for _ in range(12):
        logits = steady + 0.5 * torch.randn(N, classes, generator=generator)
        held(logits.requires_grad_(), labels, index)
        elr(logits, labels, index)
    share, leader = elr.target.max(1)
    sure = share > 0.6
    assert sure.sum() > N / 2
    torch.testing.assert_close(held.leader[sure].long(), leader[sure])
    torch.testing.assert_close(held.share[sure].float(), share[sure], atol=0.02, rtol=0)


def test_confidence_is_read_from_all_visits_and_more_so_from_the_last():
    held, some, labels = HeldLoss(3, 3), torch.tensor([0, 1]), torch.tensor([1, 2])
    logits = torch.tensor([[[0.0, z, 0.0], [0.0, z, 0.0]] for z in (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)])
    support = torch.zeros(2)
    for count, batch in enumerate(logits):
        held(batch.clone().requires_grad_(), labels, some)
        support += max(0.3, 1 / (count + 1)) * (batch.softmax(1)[some, labels] - support)  # a mean at first
    lasting = max(0.02, held.contradicted.item() ** 4 / 2)
    wanted = lasting * held.table()[:2].float() + (1 - lasting) * support.clamp_min(0.001)
    torch.testing.assert_close(held.confidence()[:2], wanted, atol=2e-3, rtol=0)
    assert held.confidence()[2].item() == pytest.approx(0.9, abs=1e-3)  # not visited: where C starts


@pytest.mark.parametrize(("doubts", "near"), [((4e-4, 6e-4), 0.02), ((4e-6, 6e-6), 0.05)])
def test_labels_of_which_the_model_is_nearly_sure_are_told_apart_and_followed(doubts, near):
    """In a number of 16 bits 0.9996 and 0.9994 are the same, and an average stops short of either."""
    held, labels, index = HeldLoss(2, 2), torch.zeros(2, dtype=torch.int64), torch.arange(2)
    for p_other in ((0.1, 0.1), *[doubts] * 80):
        other = torch.tensor(p_other)
        held(torch.stack([-other.log(), torch.zeros(2)], 1).requires_grad_(), labels, index)
    assert torch.sigmoid(-held.support.float()).tolist() == pytest.approx(doubts, rel=near)
    assert held.confidence()[0] > held.confidence()[1]


def test_labels_that_are_as_good_as_ruled_out_are_ranked_by_all_visits_and_the_others_by_the_last():
    held = HeldLoss(4, 10)
    held.share.fill_(0.9)
    held.support.copy_(torch.logit(torch.tensor([1e-5, 9e-4, 0.6, 0.8])))
    held.table.v.copy_(torch.tensor([-3.0, -4.0, 3.0, -3.0]))
    held.contradicted.fill_(0.4)
    assert held.confidence().argsort().tolist() == [1, 0, 2, 3]
    held.contradicted.fill_(0.9)  # where most are wrong, all visits tell more
    assert held.confidence().argsort().tolist() == [1, 0, 3, 2]


def test_an_example_costs_eight_bytes():
    held = HeldLoss(1000, 10)
    own = [held.table.v, *(value for value in held.buffers() if value.shape[:1] == (1000,))]
    assert sum(value.numel() * value.element_size() for value in own) == 8 * 1000


def test_without_hold_it_is_cross_entropy_and_evaluation_changes_nothing():
    labels, (logits,) = visits(5, 1)
    held, index = HeldLoss(N, 5, hold=0.0), torch.arange(N)
    logits.requires_grad_()
    torch.testing.assert_close(held(logits, labels, index), F.cross_entropy(logits, labels))
    before = {name: value.clone() for name, value in held.state_dict().items()}
    with torch.no_grad():
        held(logits, labels, index)
    held.eval()(logits, labels, index)
    for name, value in held.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)


def test_the_second_term_pulls_with_what_was_believed_held_fixed():
    classes = 5
    labels, batches = visits(classes, 4)
    held, index = HeldLoss(N, classes, doubt=0.0, reduction="sum").double(), torch.arange(N)
    for logits in batches:
        held(logits.double().requires_grad_(), labels, index)
    logits = logits.double().requires_grad_()
    p = logits.softmax(1)
    t = held._recalled(p.detach().clamp(1e-4, 1 - 1e-4), held._notes(index))
    # d log(1 − ⟨t, p⟩) / dz = −p ∘ (t − ⟨t, p⟩) / (1 − ⟨t, p⟩)
    inner = (t * p).sum(1, keepdim=True)
    wanted = p - F.one_hot(labels, classes) - 3.375 * p * (t - inner) / (1 - inner)
    held.eval()(logits, labels, index).backward()
    torch.testing.assert_close(logits.grad, wanted.detach(), atol=1e-9, rtol=1e-6)


@pytest.mark.parametrize(("classes", "weight"), [(2, 5.4), (3, 4.05), (10, 3.0), (100, 6.0)])
def test_few_and_many_classes_are_held_harder_than_ten(classes, weight):
    held = HeldLoss(1, classes, doubt=0.0)
    assert held._weight(held.table.v.float(), held.share).item() == pytest.approx(weight)
    held = HeldLoss(1, classes)
    held.steady.fill_(0.6)
    held.settled.fill_(0.6)
    assert held._weight(held.table.v.float(), held.share).item() == pytest.approx(weight)


def test_data_without_doubt_is_left_to_cross_entropy_but_for_what_it_contradicts():
    classes, rows = 4, 400
    true = torch.randint(classes, (rows,), generator=torch.Generator().manual_seed(0))
    labels = torch.where(torch.arange(rows) < 8, (true + 1) % classes, true)  # 2 % wrong
    held, index = HeldLoss(rows, classes), torch.arange(rows)
    for _ in range(200):
        held((8.0 * F.one_hot(true, classes)).requires_grad_(), labels, index)
    assert held.contradicted.item() == pytest.approx(0.02, abs=0.005)
    weight = held._weight(held.table.v, held.share)
    assert weight[:8].min() > 2.5
    assert weight[8:].max() < 0.3


@pytest.mark.parametrize(("contradicted", "weight"), [(0.01, 0.3), (0.035, 0.46), (0.05, 3.0), (0.4, 3.0)])
def test_all_are_held_if_more_than_a_twentieth_of_the_labels_are_contradicted(contradicted, weight):
    held = HeldLoss(1, 10)  # its C is 0.9
    held.contradicted.fill_(contradicted)
    held.steady.fill_(0.6)
    held.settled.fill_(0.6)
    assert held._weight(held.table().logit(), held.share).item() == pytest.approx(weight, abs=0.01)


@pytest.mark.parametrize(("lasting", "held_by"), [(0.0, 0.0), (0.3, 1.0), (1.0, 1.0)])
def test_beliefs_are_held_if_any_last_and_no_more_than_before(lasting, held_by):
    """Of this share of the examples every visit shows the same class, of the others the next one."""
    classes = 8
    labels = torch.randint(classes, (N,), generator=torch.Generator().manual_seed(0))
    held, index = HeldLoss(N, classes, doubt=1e-3, decay=0.0), torch.arange(N)
    for visit in range(200):
        shown = torch.where(index < lasting * N, index, visit + index) % classes
        held((8.0 * F.one_hot(shown, classes)).requires_grad_(), labels, index)
    unsure = torch.zeros(N)
    assert held._weight(held.table.v, unsure).mean().item() == pytest.approx(3 * held_by, abs=0.2)


@pytest.mark.parametrize(
    ("contradicted", "share", "weight"),
    [(0.8, 1.0, 5.46), (0.8, 0.5, 3.15), (0.8, 0.0, 3.0), (0.4, 1.0, 3.15)],
)
def test_firm_beliefs_are_held_harder_where_most_labels_are_contradicted(contradicted, share, weight):
    held = HeldLoss(1, 10)
    held.contradicted.fill_(contradicted)
    held.steady.fill_(0.6)
    held.settled.fill_(0.6)
    assert held._weight(held.table.v, torch.tensor([share])).item() == pytest.approx(weight, abs=0.01)
    assert HeldLoss(1, 10, doubt=0.0)._weight(held.table.v, torch.tensor([share])).item() == 3


def test_the_hold_waits_until_beliefs_last_no_longer_than_before():
    """Of a tenth more of the examples in each pass the model says what it said before, then of all."""
    classes, rows = 3, 200
    labels = torch.randint(classes, (rows,), generator=torch.Generator().manual_seed(0))
    held, weights = HeldLoss(rows, classes), []
    for visit in range(30):
        for index in torch.arange(rows).split(20):
            changing = (index + 7 * (index // 20)) % 20 >= 2 * visit
            shown = torch.where(changing, index + visit, index) % classes
            held((6.0 * F.one_hot(shown, classes)).requires_grad_(), labels[index], index)
        weights.append(held._weight(held.table.v, torch.zeros(rows)).max().item())
        assert (held._weight(held.table.v, held.share) >= weights[-1]).all()
    assert max(weights[:8]) < 1
    assert weights[8:] == sorted(weights[8:])
    assert weights[-1] > 2.7


@pytest.mark.parametrize(("rows", "share"), [(N, 1 / 2), (N // 4, 1 / 8)])
def test_the_share_of_beliefs_that_last_is_averaged_over_two_visits_of_every_example(rows, share):
    labels, batches = visits(3, 6)
    held, index = HeldLoss(N, 3), torch.arange(N)
    for logits in batches[:4]:
        held(logits.requires_grad_(), labels, index)
    for logits in batches[4:]:
        before = held.settled.item()
        held(logits[:rows].requires_grad_(), labels[:rows], index[:rows])
        assert abs(held.steady.item() - before) > 0.01
        wanted = before + share * (held.steady.item() - before)
        assert held.settled.item() == pytest.approx(wanted, abs=1e-6)


def test_a_first_visit_in_a_later_epoch_knows_of_no_belief():
    held, logits = HeldLoss(4, 3, doubt=0.0), torch.tensor([[0.0, 2.0, 1.0]])
    for _ in range(3):
        held(torch.randn(3, 3).requires_grad_(), torch.tensor([0, 1, 2]), torch.tensor([0, 1, 2]))
    held(logits.requires_grad_(), torch.tensor([0]), torch.tensor([3]))
    p = logits.softmax(1)[0].clamp(1e-4, 1 - 1e-4)
    assert held.leader[3] == 1
    assert held.share[3].item() == pytest.approx(0.3 * p[1].item(), rel=1e-3)


def test_rows_that_are_held_out_do_not_count_as_visited():
    labels, batches = visits(2, 6)
    held, elr, some = HeldLoss(N, 2, doubt=0.0), ELRLoss(N, 2, strength=5.4), torch.arange(0, N, 2)
    for logits in batches:
        loss = held(logits[some].clone().requires_grad_(), labels[some], some)
        wanted = elr(logits[some].clone().requires_grad_(), labels[some], some)
        torch.testing.assert_close(loss, wanted, atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("cast", ["float", "half", "double"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_any_floats_will_do(cast, dtype):
    held = getattr(HeldLoss(N, 3), cast)()
    labels, (logits,) = visits(3, 1)
    held(logits.to(dtype).requires_grad_(), labels, torch.arange(N)).backward()
    assert held.confidence().isfinite().all()


def test_a_cast_leaves_the_count_of_visits_as_it_is():
    """In 16 bits it ended at 65,504 rows, and all confidences with it."""
    held, count = HeldLoss(70_000, 2).half(), 70_000
    logits = torch.tensor([[2.0, 0.0]]).expand(count, 2).clone().requires_grad_()
    for _ in range(2):
        held(logits, torch.zeros(count, dtype=torch.int64), torch.arange(count))
    assert held._visits().item() == 2
    assert held.confidence().isfinite().all()


@pytest.mark.parametrize("cast", ["half", "bfloat16"])
def test_a_cast_makes_nothing_coarser_that_is_kept(cast):
    """In bfloat16 s̄ stood still, and the hold never came."""
    labels, batches = visits(3, 12)
    plain, held = HeldLoss(N, 3), getattr(HeldLoss(N, 3), cast)()
    for logits in batches:
        for loss in (plain, held):
            loss(logits.clone().requires_grad_(), labels, torch.arange(N))
    for name, value in plain.state_dict().items():
        assert torch.equal(held.state_dict()[name], value), name
        assert held.state_dict()[name].dtype == value.dtype


def test_a_row_that_is_not_there_is_not_remembered_in_the_place_of_another():
    held = HeldLoss(4, 3)
    compiled = torch.compile(held, backend="eager")  # where a wrong index is told later, as on a GPU
    compiled(torch.zeros(2, 3, requires_grad=True), torch.tensor([0, 1]), torch.tensor([99, 98]))
    assert held.examples_seen.item() == 0
    assert not held.share.any()
    with pytest.raises(IndexRangeError):
        held.confidence()


@pytest.mark.parametrize("wrong", [math.inf, math.nan])
def test_of_what_is_not_finite_nothing_is_remembered(wrong):
    held, index = HeldLoss(4, 3), torch.arange(4)
    labels, good = torch.tensor([0, 1, 2, 0]), torch.tensor([[3.0, 0.0, 1.0]]).repeat(4, 1)
    held(good.clone().requires_grad_(), labels, index)
    before = {name: value[1].clone() for name, value in held.state_dict().items() if value.shape == (4,)}
    bad = good.clone()
    bad[1, 0] = wrong
    held(bad.requires_grad_(), labels, index)
    assert all(torch.equal(held.state_dict()[name][1], value) for name, value in before.items())
    assert held(good.clone().requires_grad_(), labels, index).isfinite()
    assert all(value.isfinite().all() for value in held.state_dict().values())


def test_a_batch_of_which_nothing_is_finite_says_nothing_of_the_data():
    held, labels, index = HeldLoss(4, 3), torch.tensor([0, 1, 2, 0]), torch.arange(4)
    good, bad = torch.tensor([[3.0, 0.0, 1.0]]).repeat(4, 1), torch.full((4, 3), math.nan)
    held(bad.clone().requires_grad_(), labels, index)
    assert held.contradicted.item() == 1  # as at the start
    for _ in range(4):
        held(good.clone().requires_grad_(), labels, index)
    before = [held.contradicted.item(), held.steady.item(), held.settled.item()]
    assert before[0] < 1
    held(bad.requires_grad_(), labels, index)
    assert [held.contradicted.item(), held.steady.item(), held.settled.item()] == before


@pytest.mark.parametrize("place", [0, 1, 3])
@pytest.mark.parametrize(("z", "row"), [(math.nan, 3), (0.0, 99)], ids=["not finite", "not there"])
def test_a_visit_that_is_not_usable_writes_nothing_beside_good_ones_of_the_same_row(z, row, place):
    """Row 99 is not there, and is led to the last one, 3."""
    good, labels = torch.tensor([[3.0, 0.0, 1.0], [0.0, 2.0, 0.0], [2.0, 0.0, 1.0]]), torch.tensor([2, 1, 2])
    index = torch.tensor([3, 0, 3])
    held, wanted = HeldLoss(4, 3), HeldLoss(4, 3)
    compiled = torch.compile(held, backend="eager")  # where a wrong index is told later, as on a GPU
    for _ in range(3):
        wanted(good.clone().requires_grad_(), labels, index)
        logits = torch.cat([good[:place], torch.full((1, 3), z), good[place:]]).requires_grad_()
        others = torch.cat([labels[:place], torch.tensor([0]), labels[place:]])
        compiled(logits, others, torch.cat([index[:place], torch.tensor([row]), index[place:]]))
    for name in ("leader", "share", "support", "rows_seen", "examples_seen"):
        assert torch.equal(getattr(held, name), getattr(wanted, name)), name


def test_a_second_stage_remembers_nothing_of_a_visit_that_is_not_usable():
    held, labels, index = HeldLoss(4, 3), torch.tensor([2, 2]), torch.tensor([3, 3])
    p = torch.tensor([[0.7, 0.1, 0.2], [math.nan] * 3])
    held.targets(p, labels, index, live=torch.ones(()))
    alone = HeldLoss(4, 3)
    alone.targets(p[:1], labels[:1], index[:1], live=torch.ones(()))
    for name in ("leader", "share", "support"):
        assert torch.equal(getattr(held, name), getattr(alone, name)), name


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hold": -1.0}, "hold must be finite and at least 0"),
        ({"decay": 1.0}, "decay must lie in"),
        ({"reduction": "meen"}, "did you mean 'mean'"),
        ({"classes": 1}, "classes must be a whole number of at least 2, got 1"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        HeldLoss(4, **{"classes": 3, **settings})


def test_a_second_pass_for_backward_is_refused():
    held, index = HeldLoss(4, 3), torch.arange(4)
    logits = torch.randn(4, 3, requires_grad=True)
    loss = checkpoint(held, logits, torch.tensor([0, 1, 2, 0]), index, use_reentrant=False)
    with pytest.raises(TrainingError):
        loss.backward()


def test_an_index_outside_of_the_data_is_told():
    held = HeldLoss(4, 3)
    with pytest.raises(IndexRangeError, match="index 4 is not a row"):
        held(torch.zeros(1, 3, requires_grad=True), torch.tensor([0]), torch.tensor([4]))


def test_confidences_and_the_share_of_right_labels_come_from_what_was_believed():
    classes, rows = 4, 2000
    generator = torch.Generator().manual_seed(0)
    true = torch.randint(classes, (rows,), generator=generator)
    wrong = torch.rand(rows, generator=generator) < 0.3
    labels = torch.where(wrong, (true + 1) % classes, true)
    held, logits = HeldLoss(rows, classes), (6.0 * F.one_hot(true, classes)).requires_grad_()
    order = torch.arange(rows)
    for _ in range(30):
        for index in order[torch.randperm(rows, generator=generator)].split(200):
            held(logits[index], labels[index], index)
    confidence = held.confidence()
    assert (confidence[wrong] < 0.5).all()
    assert (confidence[~wrong] > 0.5).all()
    assert held.kept.tolist() == pytest.approx([0.7] * classes, abs=0.05)
    after = torch.roll(torch.eye(classes), 1, 1)
    torch.testing.assert_close(held.channel, after, atol=0.05, rtol=0)


class Remembering(Features):
    memorises = True


def blobs(kind, share=0.4):
    """Two classes with flips, and a network that is large enough to learn each label by heart."""
    generator = torch.Generator().manual_seed(0)
    true = torch.randint(2, (400,), generator=generator)
    values = torch.randn(400, 30, generator=generator) + 1.2 * (2 * true[:, None] - 1) * (
        torch.arange(30) < 4
    )
    wrong = torch.rand(400, generator=generator) < share
    return kind(values, hidden=512, dropout=0.0), torch.where(wrong, 1 - true, true), true


def test_it_keeps_a_network_from_learning_wrong_labels_by_heart():
    learned = {}
    for name, kind, loss in (("held", Remembering, "channel"), ("plain", Features, "cross_entropy")):
        inputs, labels, true = blobs(kind, 0.25)
        log_p = fit(inputs, labels, 2, plan=Plan(60, 32, 2e-3), loss=loss).log_p
        learned[name] = (log_p.argmax(1) == labels.numpy()).mean(), (log_p.argmax(1) == true.numpy()).mean()
    assert learned["plain"][0] > 0.99  # it knows the given labels
    assert learned["held"][1] > learned["plain"][1] + 0.1  # and this one the true ones


def test_the_guard_stays_shut_where_flips_have_a_direction():
    """A guard that went by the flips counted so far opened here, and they were learned by heart."""
    torch.manual_seed(0)
    pixels, digits = load_digits(return_X_y=True)
    x, right = torch.tensor(pixels / 16, dtype=torch.float32), torch.tensor(digits)
    labels, moved = add_noise("pair", right, 10, 0.4, seed=0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    held, optimizer = HeldLoss(len(x), 10), torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(40):
        for index in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            held(model(x[index]), labels[index], index).backward()
            optimizer.step()
    assert held._weight(held.table.v, held.share).min() > 2.8
    assert (model(x).argmax(1)[moved] == right[moved]).float().mean() > 0.9
    assert ((held.confidence() < 0.5) == moved).float().mean() > 0.9
