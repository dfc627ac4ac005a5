"""ICE with label smoothing, mixup and averaged weights: each does what it says, alone and with the others."""

import copy
import dataclasses
import json

import numpy as np
import pytest
import torch
from torch import nn

from icelens.errors import InputError
from icelens.losses import LOSSES, ICELoss, Problem, make_loss
from icelens.train import Recipe, Run, run_recipe
from icelens.train import loop as loop_module
from icelens.train.averaging import move_average, start_average
from icelens.train.loop import advance, begin
from icelens.train.mixup import draw_share, mixed, mixed_loss, partner
from icelens.train.task import prepare

SHORT = Recipe(
    noise_rate=0.3,
    validation=0.2,
    model_settings={"hidden": [32], "dropout": 0.5},
    learning_rate=5e-3,
    epochs=2,
    evaluations=4,
    device="cpu",
)
ALL = dataclasses.replace(SHORT, loss_settings={"label_smoothing": 0.1}, mixup=1.0, averaging=0.9)

every_loss = pytest.mark.parametrize("name", LOSSES)


def problem(name, rows=6, classes=4, examples=9):
    loss = make_loss(name, Problem(examples, classes, steps=10, transition=torch.eye(classes)))
    outputs = torch.randn(rows, LOSSES[name].outputs(classes), requires_grad=True)
    return loss, outputs, torch.arange(rows) % classes, torch.randperm(examples)[:rows]


def same(state, other):
    return all(torch.equal(value, other[key]) for key, value in state.items())


def weights(model):
    return torch.cat([p.detach().double().flatten() for p in model.parameters()])


def finished(recipe):
    task = prepare(recipe)
    return advance(recipe, task, begin(recipe, task), title="")


class TestMixup:
    @every_loss
    def test_with_all_of_the_share_it_is_the_plain_step_where_a_second_call_may_be_made(self, name):
        loss, outputs, labels, index = problem(name)
        plain = copy.deepcopy(loss)
        expected = plain(outputs, labels, index)
        seen = mixed_loss(loss, outputs, labels, index, torch.tensor(1.0))
        assert same(loss.state_dict(), plain.state_dict()) == LOSSES[name].mixes
        if LOSSES[name].mixes:
            assert torch.equal(seen, expected)
            assert torch.equal(*(torch.autograd.grad(x, outputs)[0] for x in (seen, expected)))

    @pytest.mark.parametrize("name", [name for name, method in LOSSES.items() if method.mixes])
    def test_with_none_of_it_the_partner_has_all(self, name):
        loss, outputs, labels, index = problem(name)
        plain = copy.deepcopy(loss)
        expected = plain(outputs, partner(labels), partner(index))
        assert torch.equal(mixed_loss(loss, outputs, labels, index, torch.tensor(0.0)), expected)
        assert same(loss.state_dict(), plain.state_dict())

    def test_cross_entropy_of_a_mixed_label_is_the_mixed_cross_entropy(self):
        loss, outputs, labels, index = problem("cross_entropy")
        target = mixed(nn.functional.one_hot(labels, 4).float(), torch.tensor(0.3))
        torch.testing.assert_close(
            mixed_loss(loss, outputs, labels, index, torch.tensor(0.3)),
            nn.functional.cross_entropy(outputs, target),
        )

    @pytest.mark.parametrize("step_size", [0.8, torch.tensor(0.8)])
    def test_confidences_move_by_each_label_as_far_as_it_counts(self, step_size):
        _, outputs, labels, index = problem("ice_linear")
        loss, expected = ICELoss(9, step_size=step_size), ICELoss(9)
        mixed_loss(loss, outputs, labels, index, torch.tensor(0.25))
        expected.step_size = 0.2
        expected(outputs, labels, index)
        expected.step_size = 0.6
        expected(outputs, partner(labels), partner(index))
        torch.testing.assert_close(loss.table.v, expected.table.v)
        assert loss.step_size is step_size  # a recorded step reads this very tensor

    def test_the_step_size_is_put_back_after_an_error(self):
        loss, outputs, labels, index = problem("ice_linear")
        with pytest.raises(InputError):
            mixed_loss(loss, outputs, labels + 4, index, torch.tensor(0.5))
        assert loss.step_size == 1.0

    @pytest.mark.parametrize("a", [0.2, 1.0, 8.0])
    def test_shares_are_drawn_from_the_beta_distribution_by_seed_and_iteration(self, a):
        recipe = Recipe(mixup=a)
        shares = np.array([draw_share(recipe, iteration) for iteration in range(2000)])
        assert shares[7] == draw_share(recipe, 7)
        assert shares[7] != draw_share(dataclasses.replace(recipe, seed=1), 7)
        assert shares.mean() == pytest.approx(0.5, abs=0.03)
        assert shares.var() == pytest.approx(1 / (4 * (2 * a + 1)), rel=0.1)

    def test_a_run_in_which_nothing_is_mixed_is_the_plain_run(self, tmp_path, monkeypatch):
        plain = run_recipe(SHORT, tmp_path / "plain")
        monkeypatch.setattr(loop_module, "draw_share", lambda recipe, iteration: 1.0)
        run = run_recipe(dataclasses.replace(SHORT, mixup=1.0), tmp_path / "mixed")
        assert [row["loss"] for row in run.metrics()] == [row["loss"] for row in plain.metrics()]
        assert run.examples().equals(plain.examples())

    def test_every_batch_has_a_share_of_its_own(self, monkeypatch):
        drawn = []
        monkeypatch.setattr(loop_module, "mixed", lambda x, share, **_: drawn.append(float(share)) or x)
        finished(dataclasses.replace(SHORT, mixup=1.0))
        assert len(drawn) == len(set(drawn)) == 34

    @pytest.mark.parametrize("loss", [name for name, method in LOSSES.items() if not method.mixes])
    def test_it_is_refused_where_a_loss_counts_its_calls(self, loss, tmp_path):
        with pytest.raises(InputError, match=f"mixup calls the loss twice in a step, and '{loss}' would"):
            run_recipe(dataclasses.replace(SHORT, loss=loss, mixup=0.4), tmp_path / "run")
        assert not (tmp_path / "run").exists()


class TestAveraging:
    def test_it_is_the_weighted_sum_of_all_that_was_and_counts_are_copied(self):
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).double()
        average, history = start_average(model), [copy.deepcopy(model.state_dict())]
        for _ in range(5):
            model(torch.randn(8, 3, dtype=torch.float64)).sum().backward()  # moves BatchNorm's statistics
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(torch.randn_like(parameter))
            move_average(average, model, 0.7)
            history.append(copy.deepcopy(model.state_dict()))
        factors = [0.7**5, *(0.3 * 0.7**age for age in (4, 3, 2, 1, 0))]
        for name, value in average.state_dict().items():
            if value.is_floating_point():
                expected = sum(f * state[name] for f, state in zip(factors, history, strict=True))
                torch.testing.assert_close(value, expected)
        assert average[1].num_batches_tracked == 5

    def test_of_weights_that_do_not_move_it_is_the_weights(self):
        state = finished(dataclasses.replace(SHORT, learning_rate=0.0, averaging=0.9))
        assert same(state.average.state_dict(), state.model.state_dict())

    def test_training_goes_on_with_the_weights_and_the_average_is_of_them(self, monkeypatch):
        seen = []

        def move(average, model, decay):
            move_average(average, model, decay)
            seen.append(weights(model))

        monkeypatch.setattr(loop_module, "move_average", move)
        plain, state = finished(SHORT), finished(dataclasses.replace(SHORT, averaging=0.9))
        assert same(state.model.state_dict(), plain.model.state_dict())
        late = torch.stack(seen[len(seen) // 2 :]).mean(0)
        near, far = ((weights(model) - late).norm() for model in (state.average, state.model))
        assert near < far
        mine, theirs = ([row["test_accuracy"] for row in s.metrics] for s in (state, plain))
        assert mine != theirs

    def test_what_is_measured_predicted_and_saved_is_the_average(self, tmp_path):
        run = run_recipe(dataclasses.replace(SHORT, averaging=0.9), tmp_path / "run")
        state = finished(dataclasses.replace(SHORT, averaging=0.9))
        assert same(run.model().state_dict(), state.average.state_dict())
        task = prepare(SHORT)
        log_p = run.model()(task.test.inputs.float() / 255)
        accuracy = float((log_p.argmax(1) == task.test.labels).double().mean())
        assert run.metrics()[-1]["test_accuracy"] == pytest.approx(accuracy)
        guess = run.model()(task.train.inputs.float() / 255).argmax(1)
        assert [int(name) for name in run.examples()["guess"]] == guess.tolist()

    @pytest.mark.parametrize("loss", ["forward", "adaptation", "dac", "elr", "sop"])
    def test_it_goes_with_every_kind_of_loss(self, loss, tmp_path):
        run = run_recipe(dataclasses.replace(SHORT, loss=loss, averaging=0.9, epochs=4), tmp_path / "run")
        assert run.metrics()[-1]["test_accuracy"] > 0.2


@pytest.mark.parametrize("loss", ["ice_linear", "ice_power"])
@pytest.mark.parametrize("saved", [0, 2])
def test_all_three_killed_go_on_to_the_same_numbers(loss, saved, tmp_path, killed_run):
    recipe = dataclasses.replace(ALL, loss=loss, augment="crop_flip")
    whole = run_recipe(recipe, tmp_path / "whole")
    killed_run(recipe, tmp_path / "killed", saved)
    resumed = run_recipe(recipe, tmp_path / "killed")
    for mine, theirs in zip(resumed.metrics(), whole.metrics(), strict=True):
        assert (mine["loss"], mine["test_accuracy"]) == (theirs["loss"], theirs["test_accuracy"])
    assert resumed.examples().equals(whole.examples())
    assert same(resumed.model().state_dict(), whole.model().state_dict())


@pytest.mark.parametrize("change", [{"loss_settings": {}}, {"mixup": 0.0}, {"averaging": 0.0}])
def test_each_of_them_changes_the_numbers(change, tmp_path):
    usual = run_recipe(ALL, tmp_path / "all").metrics()[-1]
    other = run_recipe(dataclasses.replace(ALL, **change), tmp_path / "less").metrics()[-1]
    assert any(usual[key] != other[key] for key in ("loss", "test_accuracy", "valid_accuracy"))


def test_confidences_tell_flipped_labels_apart_with_all_three(tmp_path):
    table = run_recipe(dataclasses.replace(ALL, epochs=15), tmp_path / "run").examples()
    table = table[~table["held_out"]]
    means = table.groupby("moved")["confidence"].mean()
    assert means[False] - means[True] > 0.3


def test_a_run_from_before_a_setting_was_known_goes_on(tmp_path):
    run = run_recipe(SHORT, tmp_path / "run")
    path = run.folder / "recipe.json"
    content = json.loads(path.read_text())
    del content["settings"]["mixup"]
    path.write_text(json.dumps(content))
    assert run_recipe(SHORT, tmp_path / "run").finished
    with pytest.raises(InputError, match=r"holds a run with mixup=0.0, not 1.0; give another folder"):
        run_recipe(dataclasses.replace(SHORT, mixup=1.0), tmp_path / "run")
    assert Run(run.folder).recipe() == SHORT
