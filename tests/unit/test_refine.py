"""ICE+: the second stage teaches what is trusted and believed, from distorted and mixed images."""

import copy
import dataclasses

import pytest
import torch
from torch import nn

from icelens.data import Examples, OnDevice, Split
from icelens.data.distort import distorted
from icelens.errors import InputError
from icelens.losses import HeldLoss
from icelens.train import driver as driver_module
from icelens.train import make_recipe, run_recipe
from icelens.train.loop import advance, begin
from icelens.train.refine import Refinement, as_in_training, share_of
from icelens.train.task import prepare

ROWS, SIZE = 240, 12
NOW, LATER = torch.ones(()), torch.zeros(())


def bars(rows, seed):
    """A bright bar, lying or standing, on noise: two classes that a small network can learn."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(2, (rows,), generator=generator)
    images = torch.randint(60, (rows, 1, SIZE, SIZE), generator=generator, dtype=torch.uint8)
    for image, label in zip(images, labels, strict=True):
        image[0, 5:7] += 150 * (1 - int(label))
        image[0, :, 5:7] += 150 * int(label)
    return Examples(images, labels, ("lying", "standing"))


def split(share=0.3):
    train = bars(ROWS, 0)
    wrong = torch.rand(ROWS, generator=torch.Generator().manual_seed(1)) < share
    given = dataclasses.replace(train, labels=torch.where(wrong, 1 - train.labels, train.labels))
    return Split(given, bars(100, 2), clean_labels=train.labels)


def recipe(**changes):
    settings = {
        "data": "mnist", "model": "cnn", "loss": "ice_held", "epochs": 2.0, "refine": 3.0, "batch_size": 48,
        "learning_rate": 3e-3, "augment": "crop_flip", "evaluations": 5, "device": "cpu",
    }  # fmt: skip
    return make_recipe({**settings, **changes})


def test_a_target_is_the_label_as_far_as_it_is_trusted():
    loss, labels, index = HeldLoss(3, 3), torch.tensor([0, 1, 2]), torch.arange(3)
    p = torch.tensor([[0.9, 0.05, 0.05]]).expand(3, 3)
    for _ in range(60):
        target = loss.targets(p, labels, index, live=NOW)
    torch.testing.assert_close(target.sum(1), torch.ones(3))
    assert target.argmax(1).tolist() == [0, 0, 0]  # two labels were flipped, by what is believed of them
    assert loss.confidence()[0] > 0.85
    assert loss.confidence()[1:].max() < 0.2
    confidence = loss.table()[1].item()
    sharp = 0.9**2 / (0.9**2 + 2 * 0.05**2)
    assert target[1, 0].item() == pytest.approx((1 - confidence) * sharp, rel=0.01)


def test_nothing_moves_as_long_as_it_may_not():
    loss, labels, index = HeldLoss(3, 3), torch.tensor([0, 1, 2]), torch.arange(3)
    for _ in range(3):
        loss(torch.tensor([[0.2, 0.9, 0.1]]).repeat(3, 1).requires_grad_(), labels, index)
    before = {name: value.clone() for name, value in loss.state_dict().items()}
    for _ in range(5):
        loss.targets(torch.tensor([[0.98, 0.01, 0.01]]).expand(3, 3), labels, index, live=LATER)
    for name, value in before.items():
        assert torch.equal(loss.state_dict()[name], value), name


def test_an_example_that_was_never_visited_is_believed_as_it_is_predicted():
    loss = HeldLoss(2, 3, doubt=0.0)
    p = torch.tensor([[0.7, 0.2, 0.1]])
    target = loss.targets(p, torch.tensor([2]), torch.tensor([1]), live=LATER)
    sharp = p.square() / p.square().sum()
    wanted = 0.9 * torch.tensor([[0.0, 0.0, 1.0]]) + 0.1 * sharp  # C starts at 0.9
    torch.testing.assert_close(target, wanted, atol=1e-3, rtol=0)


def test_support_follows_the_average_too_and_an_empty_batch_changes_nothing():
    loss, index = HeldLoss(2, 3), torch.arange(2)
    loss.share.fill_(0.5)
    p = torch.tensor([[0.7, 0.2, 0.1]]).expand(2, 3)
    loss.targets(p, torch.tensor([0, 1]), index, live=NOW)
    assert loss.support.sigmoid().tolist() == pytest.approx([0.52, 0.47], abs=1e-3)  # they start at one half
    fresh = HeldLoss(2, 3)
    assert torch.equal(loss.flipped, fresh.flipped)  # what is known of the flips stays
    assert torch.equal(loss.stayed, fresh.stayed)
    before = {name: value.clone() for name, value in loss.state_dict().items()}
    assert loss.targets(p[:0], index[:0], index[:0], live=NOW).shape == (0, 3)
    assert all(torch.equal(loss.state_dict()[name], value) for name, value in before.items())


def test_of_predictions_that_are_not_finite_nothing_is_remembered():
    loss, labels, index = HeldLoss(2, 3), torch.tensor([0, 1]), torch.arange(2)
    p = torch.tensor([[0.7, 0.2, 0.1]]).repeat(2, 1)
    loss.targets(p, labels, index, live=NOW)
    before = {name: value[1].clone() for name, value in loss.state_dict().items() if value.shape == (2,)}
    p[1] = float("nan")
    assert loss.targets(p, labels, index, live=NOW).isfinite().all()
    assert all(torch.equal(loss.state_dict()[name][1], value) for name, value in before.items())


def test_beliefs_follow_the_average_once_they_may():
    loss, index = HeldLoss(2, 3), torch.arange(2)
    loss.share.fill_(0.8)
    loss.rows_seen.fill_(60)  # thirty visits each, of which class 0 had 0.8
    loss.examples_seen.fill_(2)
    p = torch.tensor([[0.0, 1.0, 0.0]]).expand(2, 3)
    loss.targets(p, torch.tensor([0, 1]), index, live=NOW)
    assert loss.leader.tolist() == [0, 0]
    assert loss.share.tolist() == pytest.approx([0.72] * 2, abs=1e-3)
    for _ in range(30):
        loss.targets(p, torch.tensor([0, 1]), index, live=NOW)
    assert loss.leader.tolist() == [1, 1]
    assert loss.confidence()[0] < 0.5 < loss.confidence()[1]


def test_a_label_is_trusted_as_far_as_it_is_believed_however_often_flips_were_counted():
    loss, label, p = HeldLoss(1, 3), torch.tensor([1]), torch.tensor([[0.55, 0.35, 0.1]])
    loss.stayed.fill_(1e-3)  # nearly all labels count as flipped
    loss.rows_seen.fill_(30)
    loss.examples_seen.fill_(1)
    for _ in range(200):
        loss.targets(p, label, torch.tensor([0]), live=NOW)
    assert loss.table().item() == pytest.approx(0.35**2 / (0.35**2 + 0.55**2), abs=2e-3)


def test_the_average_predicts_in_the_second_stage_and_the_network_before_it():
    task, chosen = prepare(recipe(), split()), recipe()
    state = begin(chosen, task)
    assert state.first == 2 * 5
    assert state.iterations == 5 * 5
    seen = []
    advance(chosen, task, state, title="", evaluated=lambda s: seen.append(s.predictor is s.average))
    assert seen == [False, False, True, True, True]
    weights = zip(state.average.parameters(), state.model.parameters(), strict=True)
    assert any(not torch.equal(mean, value) for mean, value in weights)


def test_the_average_moves_slowly_from_where_the_first_stage_ended():
    chosen = recipe(refine=1.0, epochs=1.0)
    task = prepare(chosen, split())
    state = begin(chosen, task)
    state.iteration = state.first
    second = Refinement(chosen, task, state, lambda _, model: model)
    before = [value.clone() for value in state.model.parameters()]
    second.set(state.first)
    second.step(torch.arange(48))
    for old, new, mean in zip(before, state.model.parameters(), state.average.parameters(), strict=True):
        torch.testing.assert_close(mean, torch.lerp(old, new.detach(), 0.005))


def second_stage(**changes):
    """A run that has come to its second stage, of eight iterations unless changed."""
    chosen = recipe(epochs=1.0, **{"refine": 1.6, **changes})
    task = prepare(chosen, split())
    state = begin(chosen, task)
    state.iteration = state.first
    return Refinement(chosen, task, state, lambda _, model: model)


def test_the_average_has_statistics_of_the_images_that_it_sees_and_not_those_of_the_network():
    second = second_stage(model_settings={"logit_norm": True}, augment="none")
    state, rows = second.state, torch.arange(48)
    second.set(state.first)
    seen = copy.deepcopy(second.average)
    seen(second.task.train.plain(rows))
    second.step(rows)
    for name in ("running_mean", "running_var"):
        assert torch.equal(getattr(second.average.norm, name), getattr(seen.norm, name))
        assert not torch.equal(getattr(state.model.norm, name), getattr(seen.norm, name))


def test_beliefs_move_in_steps_after_the_first_quarter_alone():
    second, moved = second_stage(), []
    for iteration in range(second.state.first, second.state.iterations):
        before = copy.deepcopy(second.loss.state_dict())
        second.set(iteration)
        second.step(torch.arange(48))
        after = second.loss.state_dict()
        moved.append(any(not torch.equal(after[name], value) for name, value in before.items()))
    assert moved == [False] * 2 + [True] * 6


def test_it_finds_wrong_labels_and_learns_the_right_ones():
    chosen = recipe(epochs=20.0, refine=8.0, evaluations=2)
    task = prepare(chosen, split())
    state = begin(chosen, task)
    advance(chosen, task, state, title="")
    confidence = state.loss.confidence()
    assert ((confidence < 0.5) == task.moved).float().mean() > 0.95
    assert state.metrics[-1]["test_accuracy"] > 0.9


def test_a_run_that_was_killed_in_the_second_stage_ends_with_the_same_numbers(tmp_path, monkeypatch):
    whole = run_recipe(recipe(), tmp_path / "whole", split=split())
    saved = []

    def killed(*given):
        save(*given)
        saved.append(1)
        if len(saved) == 4:
            raise KeyboardInterrupt

    save = driver_module.save_checkpoint
    monkeypatch.setattr(driver_module, "save_checkpoint", killed)
    with pytest.raises(KeyboardInterrupt):
        run_recipe(recipe(), tmp_path / "other", split=split())
    other = run_recipe(recipe(), tmp_path / "other", split=split())
    assert len(saved) == 5
    for ours, theirs in zip(whole.metrics(), other.metrics(), strict=True):
        assert ours["loss"] == theirs["loss"]
        assert ours["test_accuracy"] == theirs["test_accuracy"]
    one, two = whole.examples(), other.examples()
    assert one["confidence"].equals(two["confidence"])
    assert one["p_label"].equals(two["p_label"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": "elr"}, "refine goes on from the beliefs of ice_held; loss 'elr' has none"),
        ({"averaging": 0.9}, "refine has an average of the weights of its own"),
        ({"refine": -1.0}, "refine must be at least 0"),
    ],
)
def test_a_second_stage_that_cannot_be_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        begin(recipe(**changes), prepare(recipe(), split()))


def test_features_cannot_be_refined():
    rows = Examples(torch.randn(40, 4), torch.randint(2, (40,)), ("a", "b"))
    chosen = recipe(model="mlp", augment="none")
    with pytest.raises(InputError, match=r"images of uint8; an example here is torch\.float32"):
        begin(chosen, prepare(chosen, Split(rows, rows)))


def test_the_average_has_statistics_of_its_batches_and_no_dropout():
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Dropout(0.5))
    as_in_training(model)
    x = torch.randn(8, 2) + 3
    assert torch.equal(model(x), model(x))
    torch.testing.assert_close(model(x).mean(0), torch.zeros(2), atol=1e-5, rtol=0)
    assert model[0].running_mean.abs().min() > 0.1


def test_a_stage_shorter_than_a_batch_has_one():
    chosen = recipe(refine=0.001)
    assert begin(chosen, prepare(chosen, split())).iterations == 10 + 1


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (3, 20, 33)])
def test_distorted_images_are_images_still_and_the_same_for_the_same_seed(shape):
    images = torch.rand(6, *shape, generator=torch.Generator().manual_seed(0))
    one, two = (distorted(images, torch.Generator().manual_seed(4)) for _ in range(2))
    assert one.shape == images.shape
    assert one.min() >= 0
    assert one.max() <= 1
    assert torch.equal(one, two)
    assert not torch.equal(one, distorted(images, torch.Generator().manual_seed(5)))


def test_only_some_images_of_a_batch_are_distorted():
    data = OnDevice(bars(200, 0), generator=torch.Generator().manual_seed(0))
    plain = data.plain(torch.arange(200))
    same = (data.distorted(torch.arange(200), 0.5) == plain).flatten(1).all(1)
    assert 70 < int(same.sum()) < 130
    assert (data.distorted(torch.arange(200), 0.0) == plain).all()


def test_the_share_of_mixup_favours_the_image_itself():
    shares = [share_of(recipe(), iteration) for iteration in range(200)]
    assert 0.5 <= min(shares) < 0.52
    assert 0.98 < max(shares) <= 1
