"""Recorded training steps, on CUDA: they must do what the same steps do one operation at a time."""

from dataclasses import replace

import pytest
import torch

from icelens.data import Examples, Split
from icelens.losses import LOSSES
from icelens.train import Recipe, run_recipe

CNN = Recipe(
    data="random",
    noise_rate=0.3,
    validation=0.1,
    model="cnn",
    model_settings={"padding": 1, "dropout": 0.0},
    confidence_schedule="paper",
    iterations=40,
    batch_size=64,
    evaluations=4,
    device="cuda",
)


@pytest.fixture(autouse=True)
def same_arithmetic(monkeypatch):
    """The same algorithms and no TensorFloat32: what differs then is the order of sums in a few kernels."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)


def images(count, seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(4, (count,), generator=generator)
    pixels = torch.randint(0, 120, (count, 3, 8, 8), generator=generator, dtype=torch.uint8)
    pixels[torch.arange(count), :, labels] += 100
    return Examples(pixels, labels, ("a", "b", "c", "d"))


SPLIT = Split(images(300, 0), images(100, 1))  # batches of 64, 64, 64, 64 and 14 of the 270 that are left


def train(recipe, folder):
    return run_recipe(recipe, folder, split=SPLIT)


@pytest.mark.gpu
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_recorded_steps_are_the_plain_ones(tmp_path, optimizer):
    recipe = replace(CNN, optimizer=optimizer, warmup=5, augment="crop_flip")
    plain = train(replace(recipe, eager=True), tmp_path / "plain")
    recorded = train(recipe, tmp_path / "recorded")
    for mine, theirs in zip(recorded.metrics(), plain.metrics(), strict=True):
        assert mine["loss"] == pytest.approx(theirs["loss"], rel=2e-3)
        assert mine["learning_rate"] == pytest.approx(theirs["learning_rate"])
    difference = recorded.examples()["confidence"] - plain.examples()["confidence"]
    assert difference.abs().max() < 0.01


@pytest.mark.gpu
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_can_be_recorded(tmp_path, loss):
    recipe = replace(CNN, loss=loss, confidence_schedule="constant", precision="bfloat16", channels_last=True)
    losses = [row["loss"] for row in train(recipe, tmp_path / "recorded").metrics()]
    plain = train(replace(recipe, eager=True), tmp_path / "plain")
    assert losses == pytest.approx([row["loss"] for row in plain.metrics()], rel=0.05, abs=0.02)


NORMED = replace(
    CNN,
    model_settings={"padding": 1, "dropout": 0.0, "logit_norm": True},  # its statistics are averaged too
    confidence_schedule="constant",
)
ADDED = [
    {"mixup": 1.0},
    {"averaging": 0.8},
    {"loss_settings": {"label_smoothing": 0.1}},
    {"mixup": 1.0, "averaging": 0.8, "loss_settings": {"label_smoothing": 0.1}},
]


@pytest.mark.gpu
@pytest.mark.parametrize("loss", ["ice_linear", "ice_power"])
@pytest.mark.parametrize("added", ADDED, ids="+".join)
def test_recorded_steps_with_other_training_methods_are_the_plain_ones(tmp_path, loss, added):
    recipe = replace(NORMED, loss=loss, optimizer="sgd", learning_rate=0.02, **added)
    plain = train(replace(recipe, eager=True), tmp_path / "plain")
    recorded = train(recipe, tmp_path / "recorded")
    for mine, theirs in zip(recorded.metrics(), plain.metrics(), strict=True):
        assert mine["loss"] == pytest.approx(theirs["loss"], rel=5e-3)
        assert mine["test_accuracy"] == pytest.approx(theirs["test_accuracy"], abs=0.03)
    difference = recorded.examples()["confidence"] - plain.examples()["confidence"]
    assert difference.abs().max() < 0.02
    ours, theirs = recorded.model().state_dict(), plain.model().state_dict()
    for name, value in ours.items():
        torch.testing.assert_close(value, theirs[name], rtol=0.05, atol=0.01)


@pytest.mark.gpu
def test_recorded_steps_of_a_second_stage_are_the_plain_ones(tmp_path):
    recipe = replace(
        NORMED,
        loss="ice_held",
        iterations=30,
        refine=6.0,
        optimizer="sgd",
        learning_rate=0.02,
        augment="crop_flip",
    )
    plain = train(replace(recipe, eager=True), tmp_path / "plain")
    recorded = train(recipe, tmp_path / "recorded")
    for mine, theirs in zip(recorded.metrics(), plain.metrics(), strict=True):
        assert mine["loss"] == pytest.approx(theirs["loss"], rel=0.02, abs=0.01)
    difference = recorded.examples()["confidence"] - plain.examples()["confidence"]
    assert difference.abs().max() < 0.05


@pytest.mark.gpu
def test_a_recorded_step_reads_the_share_of_its_own_batch(tmp_path, monkeypatch):
    recipe = replace(NORMED, loss="cross_entropy", learning_rate=0.0)
    plain = train(recipe, tmp_path / "plain")
    from icelens.train import loop

    # Both sizes of batch have been recorded by then.
    monkeypatch.setattr(loop, "draw_share", lambda _, iteration: 0.5 if 20 <= iteration < 30 else 1.0)
    run = train(replace(recipe, mixup=1.0), tmp_path / "mixed")
    ratios = [a["loss"] / b["loss"] for a, b in zip(run.metrics(), plain.metrics(), strict=True)]
    assert [ratios[0], ratios[1], ratios[3]] == pytest.approx([1.0] * 3, rel=1e-3)
    assert ratios[2] != pytest.approx(1.0, rel=3e-3)


@pytest.mark.gpu
def test_dropout_draws_anew_in_every_recorded_step(tmp_path):
    recipe = replace(CNN, model_settings={"padding": 1, "dropout": 0.9}, learning_rate=0.0, evaluations=40)
    run = train(replace(recipe, loss="cross_entropy", confidence_schedule="constant"), tmp_path)
    assert len({row["loss"] for row in run.metrics()}) == 40


@pytest.mark.gpu
@pytest.mark.parametrize("added", [{}, ADDED[-1]], ids=lambda added: "+".join(added) or "plain")
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_a_recorded_run_that_was_stopped_goes_on(tmp_path, killed_run, added, optimizer):
    recipe = replace(CNN, augment="crop_flip", channels_last=True, optimizer=optimizer, **added)
    whole = train(recipe, tmp_path / "whole")
    killed_run(recipe, tmp_path / "stopped", 2, split=SPLIT)
    resumed = train(recipe, tmp_path / "stopped")
    for mine, theirs in zip(resumed.metrics(), whole.metrics(), strict=True):
        assert mine["loss"] == pytest.approx(theirs["loss"], rel=2e-3)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # of torch's compiler
@pytest.mark.parametrize("loss", ["ice_linear", "ice_held"])  # the second is compiled too
def test_a_compiled_network_is_the_plain_one(tmp_path, loss):
    recipe = replace(CNN, loss=loss)
    plain = train(replace(recipe, eager=True), tmp_path / "plain")
    compiled = train(replace(recipe, compiled=True), tmp_path / "compiled")
    for mine, theirs in zip(compiled.metrics(), plain.metrics(), strict=True):
        assert mine["loss"] == pytest.approx(theirs["loss"], rel=1e-2, abs=1e-2)
    difference = compiled.examples()["confidence"] - plain.examples()["confidence"]
    assert difference.abs().max() < 0.05
