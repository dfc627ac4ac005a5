import dataclasses
import json

import numpy as np
import pytest
import torch

from icelens.errors import FileError, InputError, MissingFileError, TrainingError
from icelens.losses import LOSSES
from icelens.train import Recipe, Run, run_recipe
from icelens.train import driver as driver_module
from icelens.train.loop import batch_rows
from icelens.train.task import choose_device, prepare

SHORT = Recipe(
    noise_rate=0.3,
    validation=0.2,
    model_settings={"hidden": [32], "dropout": 0.5},
    learning_rate=5e-3,
    epochs=2,
    evaluations=4,
    snapshots=4,
    device="cpu",
)


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_every_method_trains_to_a_complete_folder(loss, tmp_path):
    run = run_recipe(dataclasses.replace(SHORT, loss=loss, epochs=4), tmp_path / "run")
    last = run.metrics()[-1]
    assert last["test_accuracy"] > 0.2
    assert last["valid_accuracy"] > 0.2
    assert len(run.metrics()) == 4
    table = run.examples()
    assert len(table) == 1348
    assert list(table["index"]) == list(range(1348))
    assert ((table["label"] != table["clean_label"]) == table["moved"]).all()
    assert table["held_out"].sum() == 270
    has_confidence = loss.startswith("ice")
    assert ("confidence" in table) == has_confidence
    names = {path.name for path in run.folder.iterdir()}
    expected = {"recipe.json", "metrics.jsonl", "examples.parquet", "model.safetensors"}
    expected |= {"history.safetensors"} if has_confidence else set()
    expected |= {"transition.safetensors"} if LOSSES[loss].pretrain else set()
    assert names == expected


def test_held_out_rows_have_no_confidence(tmp_path):
    table = run_recipe(SHORT, tmp_path / "run").examples()
    assert (table["confidence"].isna() == table["held_out"]).all()


def test_the_same_seed_gives_the_same_numbers_and_another_does_not(tmp_path):
    runs = [
        run_recipe(dataclasses.replace(SHORT, seed=seed), tmp_path / str(n))
        for n, seed in enumerate((0, 0, 1))
    ]
    first, again, other = (run.examples()["confidence"].to_numpy() for run in runs)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other, equal_nan=True)


class KilledError(Exception):
    pass


@pytest.mark.parametrize("loss", ["ice_linear", "dac", "elr"])
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_a_killed_run_goes_on_to_the_same_numbers(loss, optimizer, tmp_path, monkeypatch):
    recipe = dataclasses.replace(SHORT, loss=loss, optimizer=optimizer)
    whole = run_recipe(recipe, tmp_path / "whole")
    save, calls = driver_module.save_checkpoint, []

    def save_twice_then_die(*arguments):
        if len(calls) == 2:
            raise KilledError
        calls.append(save(*arguments))

    monkeypatch.setattr(driver_module, "save_checkpoint", save_twice_then_die)
    with pytest.raises(KilledError):
        run_recipe(recipe, tmp_path / "killed")
    assert not Run(tmp_path / "killed").finished
    monkeypatch.setattr(driver_module, "save_checkpoint", save)
    resumed = run_recipe(recipe, tmp_path / "killed")
    assert [row["iteration"] for row in resumed.metrics()] == [row["iteration"] for row in whole.metrics()]
    for mine, theirs in zip(resumed.metrics(), whole.metrics(), strict=True):
        assert mine["loss"] == theirs["loss"]
        assert mine["test_accuracy"] == theirs["test_accuracy"]
    assert resumed.examples().equals(whole.examples())
    if loss == "ice_linear":
        assert torch.equal(resumed.history()[0], whole.history()[0])
        assert torch.equal(resumed.history()[1], whole.history()[1])


def test_a_finished_run_is_left_alone(tmp_path):
    run = run_recipe(SHORT, tmp_path / "run")
    before = {path: path.stat().st_mtime_ns for path in run.folder.iterdir()}
    run_recipe(SHORT, tmp_path / "run")
    assert before == {path: path.stat().st_mtime_ns for path in run.folder.iterdir()}


def test_a_folder_of_another_recipe_or_of_something_else_is_refused(tmp_path):
    run_recipe(SHORT, tmp_path / "run")
    with pytest.raises(InputError, match="holds a run with seed=0, not 5; give another folder"):
        run_recipe(dataclasses.replace(SHORT, seed=5), tmp_path / "run")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("do not touch")
    with pytest.raises(InputError, match="is not empty and holds no run"):
        run_recipe(SHORT, tmp_path / "full")
    assert (tmp_path / "full" / "thesis.tex").read_text() == "do not touch"


def test_recipe_json_says_what_was_run(tmp_path):
    run = run_recipe(SHORT, tmp_path / "run")
    content = json.loads((run.folder / "recipe.json").read_text())
    assert run.recipe() == SHORT
    assert content["versions"]["torch"] == torch.__version__
    assert len(content["data_fingerprint"]) == 64


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path):
    recipe = dataclasses.replace(SHORT, loss="cross_entropy", optimizer="sgd", learning_rate=1e20)
    with pytest.raises(TrainingError, match=r"the loss is .* try a lower learning_rate"):
        run_recipe(recipe, tmp_path / "run")


def test_a_damaged_checkpoint_is_named(tmp_path):
    run = Run(tmp_path / "run")
    task = prepare(SHORT)
    run.start(SHORT, task.fingerprint)
    (run.folder / "checkpoint.safetensors").write_bytes(b"not tensors")
    with pytest.raises(FileError, match=r"checkpoint.safetensors: not a readable safetensors file"):
        run_recipe(SHORT, tmp_path / "run")


def test_what_is_not_there_is_said(tmp_path):
    with pytest.raises(MissingFileError, match="is not a run"):
        Run(tmp_path).recipe()
    with pytest.raises(MissingFileError, match="the run has not finished"):
        Run(tmp_path).examples()
    with pytest.raises(MissingFileError, match="train with snapshots=20"):
        Run(tmp_path).history()


def test_an_epoch_visits_each_training_row_once():
    task = prepare(SHORT)
    for epoch in (0, 1):
        rows = torch.cat([batch_rows(SHORT, task, 17 * epoch + number) for number in range(17)])
        assert torch.equal(rows.sort().values, task.train_rows)
    assert not torch.equal(batch_rows(SHORT, task, 0), batch_rows(SHORT, task, 17))


def test_validation_rows_and_training_rows_make_up_the_data_set():
    task = prepare(SHORT)
    assert torch.equal(torch.cat([task.train_rows, task.valid_rows]).sort().values, torch.arange(1348))


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(InputError, match="device 'gpu' cannot be used here"):
        choose_device("gpu")


def test_bfloat16_and_channels_last_train_too(tmp_path):
    recipe = dataclasses.replace(
        SHORT,
        model="cnn",
        model_settings={"width": 4, "padding": 1},
        precision="bfloat16",
        channels_last=True,
        augment="crop_flip",
        normalize=True,
        epochs=1,
        snapshots=0,
    )
    run = run_recipe(recipe, tmp_path / "run")
    assert np.isfinite(run.metrics()[-1]["loss"])
