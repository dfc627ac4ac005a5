import dataclasses
import gc
import hashlib
import json
import weakref

import numpy as np
import pytest
import torch

from icelens.data import Examples, Split
from icelens.errors import FileError, InputError, MissingFileError, TrainingError
from icelens.losses import LOSSES, HeldLoss
from icelens.train import Recipe, Run, driver, run_recipe
from icelens.train.checkpoint import load_checkpoint, save_checkpoint
from icelens.train.loop import batch_rows, begin
from icelens.train.task import _hash, choose_device, prepare

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


def short(loss, **settings):
    """The short recipe with another loss; snapshots are for ICE."""
    return dataclasses.replace(SHORT, loss=loss, snapshots=4 if loss.startswith("ice_") else 0, **settings)


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_every_method_trains_to_a_complete_folder(loss, tmp_path):
    run = run_recipe(short(loss, epochs=4), tmp_path / "run")
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


@pytest.mark.parametrize("precision", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_features_of_any_floats_train_as_float32_does(dtype, precision, tmp_path):
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (60,), generator=generator)
    x = (
        torch.randn(60, 4, generator=generator) + labels[:, None]
    ).bfloat16()  # with digits that all can hold
    recipe = Recipe(epochs=2, device="cpu", evaluations=1, batch_size=16, precision=precision)
    seen = []
    for kind in (torch.float32, dtype):
        data = Examples(x.to(kind), labels, ("a", "b", "c"))
        run = run_recipe(recipe, tmp_path / str(kind), split=Split(data, data))
        seen.append(run.examples()["confidence"])
    assert seen[0].equals(seen[1])


def test_the_hash_of_data_is_that_of_its_type_shape_and_bytes():
    x = torch.randn(5, 3)
    wanted = hashlib.sha256(b"(torch.float32, (5, 3))" + x.numpy().tobytes()).hexdigest()
    assert _hash(x) == _hash(x.T.contiguous().T) == wanted
    assert len({_hash(x.to(kind)) for kind in (torch.float16, torch.bfloat16, torch.float64)}) == 3
    assert _hash(x[:0]) != _hash(x[:0].T)


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


@pytest.mark.parametrize("saved", [0, 2])
@pytest.mark.parametrize("loss", ["ice_linear", "dac", "elr", "forward"])
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_a_killed_run_goes_on_to_the_same_numbers(loss, optimizer, saved, tmp_path, killed_run):
    recipe = short(loss, optimizer=optimizer, augment="crop_flip")
    whole = run_recipe(recipe, tmp_path / "whole")
    killed_run(recipe, tmp_path / "killed", saved)
    assert not Run(tmp_path / "killed").finished
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


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ("inputs", "holds a run on other data"),
        ("test", "holds a run with another test set"),
        ("test labels", "holds a run with another test set"),
        ("classes", "holds a run with other class names"),
        ("clean labels", "holds a run with other clean labels"),
        ("no clean labels", "holds a run with other clean labels"),
    ],
)
def test_a_folder_of_a_run_on_other_data_is_refused(changed, message, tmp_path):
    recipe, split = dataclasses.replace(SHORT, noise_rate=0.0), known()
    run_recipe(recipe, tmp_path / "run", split=split)
    run_recipe(recipe, tmp_path / "run", split=split)  # finished, and the same
    names = {"classes": ("yes", "no")}
    other = {
        "inputs": {"train": dataclasses.replace(split.train, inputs=split.train.inputs + 1)},
        "test": {"test": dataclasses.replace(split.test, inputs=split.test.inputs + 1)},
        "test labels": {"test": dataclasses.replace(split.test, labels=1 - split.test.labels)},
        "classes": {part: dataclasses.replace(getattr(split, part), **names) for part in ("train", "test")},
        "clean labels": {"clean_labels": 1 - split.clean_labels},
        "no clean labels": {"clean_labels": None},
    }[changed]
    with pytest.raises(InputError, match=f"{message}; give another folder"):
        run_recipe(recipe, tmp_path / "run", split=dataclasses.replace(split, **other))


def known():
    """Features of which the true labels are known too."""
    split = vectors()
    return dataclasses.replace(split, clean_labels=split.train.labels.roll(1))


def test_a_folder_that_knows_its_training_data_alone_goes_on_and_is_left_alone(tmp_path, killed_run):
    whole = run_recipe(SHORT, tmp_path / "whole")
    killed_run(SHORT, tmp_path / "run", 2)
    path = tmp_path / "run" / "recipe.json"
    content = json.loads(path.read_text())
    old = {name: content[name] for name in ("settings", "data_fingerprint", "versions")}
    path.write_text(json.dumps(old))
    run = run_recipe(SHORT, tmp_path / "run")
    assert run.examples().equals(whole.examples())
    assert run_recipe(SHORT, tmp_path / "run").finished
    assert json.loads(path.read_text()) == old
    with pytest.raises(InputError, match="holds a run on other data"):
        run_recipe(SHORT, tmp_path / "run", split=vectors())


def test_recipe_json_says_what_was_run(tmp_path):
    run = run_recipe(SHORT, tmp_path / "run")
    content = json.loads((run.folder / "recipe.json").read_text())
    assert run.recipe() == SHORT
    assert content["versions"]["torch"] == torch.__version__
    assert len(content["data_fingerprint"]) == 64


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path):
    recipe = short("cross_entropy", optimizer="sgd", learning_rate=1e20)
    with pytest.raises(TrainingError, match=r"the loss is .* try a lower learning_rate"):
        run_recipe(recipe, tmp_path / "run")


def test_predictions_that_are_no_numbers_stop_the_run(tmp_path):
    split = vectors()
    inputs = split.test.inputs.clone()
    inputs[3, 1] = torch.nan
    split = dataclasses.replace(split, test=dataclasses.replace(split.test, inputs=inputs))
    with pytest.raises(TrainingError, match="1 of 40 predictions are NaN at iteration 1; if all inputs are"):
        run_recipe(SHORT, tmp_path / "run", split=split)


def test_the_data_of_a_run_goes_with_it(tmp_path, monkeypatch):
    tasks = []

    def watched(*given):
        task = prepare(*given)
        tasks.append(weakref.ref(task))
        return task

    monkeypatch.setattr(driver, "prepare", watched)
    run_recipe(SHORT, tmp_path / "run")
    gc.collect()
    assert tasks[0]() is None


def test_a_damaged_checkpoint_is_named(tmp_path):
    run = Run(tmp_path / "run")
    task = prepare(SHORT)
    run.start(SHORT, task.fingerprints())
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


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # torch's compiler looks at it, and hides this
def test_a_loss_of_many_small_operations_is_compiled_with_the_network(tmp_path, monkeypatch):
    """Whole batches run compiled, the smaller last one of an epoch as it is, and the numbers stay."""
    calls, compile_ = [], torch.compile

    def counting(module, dynamic, options=None):
        if isinstance(module, HeldLoss):
            assert options == {"triton.autotune_pointwise": False}
        compiled = compile_(module, backend="eager", dynamic=dynamic)

        def run(*args):
            calls.append((type(module).__name__, len(args[0])))
            return compiled(*args)

        return run

    plain = run_recipe(short("ice_held"), tmp_path / "plain")
    monkeypatch.setattr(torch, "compile", counting)
    compiled = run_recipe(short("ice_held", compiled=True), tmp_path / "compiled")
    losses = [row["loss"] for row in plain.metrics()]
    assert [row["loss"] for row in compiled.metrics()] == pytest.approx(losses, rel=1e-5)
    whole = 2 * (1078 // SHORT.batch_size)
    assert calls.count(("HeldLoss", SHORT.batch_size)) == whole
    assert not [size for name, size in calls if name == "HeldLoss" and size != SHORT.batch_size]
    calls.clear()
    run_recipe(short("ice_linear", compiled=True), tmp_path / "linear")
    assert not [size for name, size in calls if name == "ICELoss"]


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
    with pytest.raises(InputError, match="unknown device 'gpu'; take auto, cpu or cuda"):
        choose_device("gpu")
    with pytest.raises(InputError, match="device 'mps' cannot be used here"):
        choose_device("mps")


@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_a_gpu_where_there_is_none_is_refused_in_plain_words(name, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError) as caught:
        choose_device(name)
    assert str(caught.value) == f"device '{name}' cannot be used here: torch finds no GPU; take cpu, or auto"


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


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimizer": "adamm"}, "unknown optimizer 'adamm'"),
        ({"learning_rate": float("nan")}, "learning_rate must be at least 0.0 and finite, got nan"),
        ({"momentum": -1.0}, r"momentum must lie in \[0, 1\), got -1.0"),
        ({"seed": 2**40}, r"seed must be less than 2\^32"),
        ({"validation": 0.9999}, "leaves none to train on"),
        ({"channels_last": True, "model": "mlp", "data": "vectors"}, "channels_last is for images"),
        ({"loss": "gce"}, "snapshots is for ICE; loss 'gce' has no confidences"),
        (
            {"loss": "gce", "snapshots": 0, "confidence_schedule": "paper"},
            "confidence_schedule is for ICE; loss 'gce' has no confidences",
        ),
        ({"iterations": 30, "warmup": 30}, "warmup=30 leaves nothing of a run of 30 iterations"),
        ({"model_settings": {"hidden": 5}}, "model mlp: "),
        (
            {"loss": "label_smoothing", "snapshots": 0, "loss_settings": {"smoothing": 2.0}},
            "loss 'label_smoothing': ",
        ),
        ({"loss": "gce", "snapshots": 0, "loss_settings": {"q": "high"}}, "loss 'gce': "),
        (
            {
                "model": "cnn",
                "model_settings": {"padding": 1, "logit_norm": True},
                "loss": "adaptation",
                "snapshots": 0,
            },
            "logit_norm would undo the matrix that 'adaptation' starts from",
        ),
        (
            {"model": "cnn", "model_settings": {"padding": 1, "logit_norm": True}, "batch_size": 1077},
            "batch_size=1077 leaves a batch of one example of 1078, which model_settings.logit_norm cannot",
        ),
        (
            {"model": "resnet18", "model_settings": {}, "batch_size": 1077},
            "a batch of one example of 1078, which BatchNorm in model 'resnet18' cannot normalise",
        ),
        ({"model": "resnet18", "model_settings": {}, "batch_size": 1}, "leaves a batch of one example"),
    ],
)
def test_a_recipe_made_in_python_is_checked_before_a_folder_is_made(settings, message, tmp_path):
    split = vectors() if settings.get("data") == "vectors" else None
    with pytest.raises(InputError, match=message):
        run_recipe(dataclasses.replace(SHORT, **settings), tmp_path / "run", split=split)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "settings",
    [
        {"batch_size": 1077},
        {"batch_size": 1},
        {"model": "resnet18", "model_settings": {}, "batch_size": 1077, "iterations": 1},  # of two an epoch
    ],
)
def test_one_example_left_over_is_no_trouble_without_batchnorm_or_where_a_run_ends_before_it(settings):
    recipe, drawn = dataclasses.replace(SHORT, **settings), []
    for chosen in (recipe, dataclasses.replace(recipe, batch_size=64)):
        begin(chosen, prepare(SHORT))
        drawn.append(torch.rand(3))
    assert torch.equal(*drawn)  # looking for trouble draws nothing


def vectors():
    half = Examples(torch.randn(40, 5), torch.arange(40) % 2, ("no", "yes"))
    return Split(half, half)


def test_features_of_a_users_own_train_too(tmp_path):
    run = run_recipe(dataclasses.replace(SHORT, noise_rate=0.0), tmp_path / "run", split=vectors())
    assert set(run.examples()["label"]) == {"no", "yes"}
    empty = Examples(torch.zeros(0, 5), torch.zeros(0, dtype=torch.int64), ("no", "yes"))
    with pytest.raises(InputError, match="no test examples"):
        run_recipe(SHORT, tmp_path / "other", split=Split(vectors().train, empty))


def test_tuples_in_settings_are_the_lists_that_json_makes_of_them(tmp_path):
    recipe = dataclasses.replace(SHORT, model_settings={"hidden": (8,)})
    assert run_recipe(recipe, tmp_path / "run").finished
    assert run_recipe(recipe, tmp_path / "run").finished


def test_the_trained_network_can_be_had_again(tmp_path):
    run = run_recipe(short("dac"), tmp_path / "run")
    images, labels = prepare(SHORT).test.inputs.float() / 255, prepare(SHORT).test.labels
    guess = run.model()(images)[:, :10].argmax(1)
    assert float((guess == labels).double().mean()) == pytest.approx(run.metrics()[-1]["test_accuracy"])
    with pytest.raises(MissingFileError, match="the run has not finished"):
        Run(tmp_path).model()


def test_a_file_in_the_way_and_what_a_killed_program_left(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="cannot be a folder for a run"):
        run_recipe(SHORT, tmp_path / "file")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".recipe.json.1.part").write_text("{")
    assert run_recipe(SHORT, tmp_path / "run").finished


def test_files_of_something_else_are_named(tmp_path):
    (tmp_path / "recipe.json").write_text('{"flour": "500 g"}')
    with pytest.raises(FileError, match=r"recipe.json: not the recipe of a run"):
        run_recipe(SHORT, tmp_path)


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_an_optimizer_comes_back_in_the_layout_of_its_parameters_and_runs_as_before(kind, tmp_path):
    def parts():
        model = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
        settings = {"momentum": 0.9} if kind is torch.optim.SGD else {}
        optimizer = kind(model.parameters(), lr=0.1, fused=True, **settings)
        data = prepare(SHORT).train
        return {"model": model, "optimizer": optimizer, "data": data}

    saved, loaded = parts(), parts()
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)

    def step(of):
        of["optimizer"].zero_grad()
        of["model"](x).square().mean().backward()
        of["optimizer"].step()

    step(saved)
    for group in saved["optimizer"].param_groups:
        group["fused"] = None  # as a run on another device may have had it
    save_checkpoint(tmp_path, saved, {})
    load_checkpoint(tmp_path, loaded)
    assert all(group["fused"] for group in loaded["optimizer"].param_groups)
    weight = loaded["model"].weight
    for value in loaded["optimizer"].state[weight].values():
        assert value.shape != weight.shape or value.stride() == weight.stride()
    for of in (saved, loaded):
        step(of)
    torch.testing.assert_close(loaded["model"].weight, saved["model"].weight)
