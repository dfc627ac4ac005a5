"""Trials on images: what is recorded, and that nothing finished is trained again."""

import dataclasses
import json
import subprocess
from pathlib import Path

import pytest

from icelens.errors import InputError, TrainingError
from icelens.reproduce import images, store
from icelens.reproduce.experiment import (
    Experiment,
    Place,
    expanded,
    names,
    read_experiment,
    recipe_path,
    settings_of,
)
from icelens.reproduce.images import Trial, missing, recipe_of, trials_of
from icelens.reproduce.runner import run_experiment
from icelens.reproduce.store import circumstances, read_trials

DIGITS = Experiment(
    title="digits",
    kind="images",
    table="table1",
    trials=2,
    methods=("forward", "cross_entropy", "ice_linear"),
    train={
        "data": "digits",
        "noise_rate": 0.4,
        "validation": 0.2,
        "model": "mlp",
        "model_settings": {"dropout": 0.1},
        "iterations": 40,
        "evaluations": 4,
    },
    method={"ice_linear": {"learning_rate": 3e-3, "snapshots": 3, "model_settings": {"hidden": [32]}}},
    keep="ridgeline",
)


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path / "data", tmp_path / "results", tmp_path / "work", "cpu")


def test_every_experiment_of_the_package_can_be_read_and_says_how_to_run_it():
    assert len(names()) >= 12
    for name in names():
        experiment = read_experiment(name)
        if experiment.kind == "images":
            for trial in trials_of(experiment):
                recipe_of(experiment, trial, Place(*map(Path, ("data", "results", "work")), "cpu"))


def test_every_recipe_file_starts_with_its_command():
    for name in names():
        first, second = recipe_path(name).read_text().splitlines()[:2]
        assert f"{first} ".startswith(f"# icelens reproduce run {name} ")
        assert second.startswith("# ")


def test_a_methods_own_settings_replace_those_of_all_inside_tables_too():
    assert settings_of(DIGITS, "ice_linear")["model_settings"] == {"dropout": 0.1, "hidden": [32]}
    assert settings_of(DIGITS, "forward")["model_settings"] == {"dropout": 0.1}


def test_methods_that_start_from_a_matrix_come_after_cross_entropy():
    order = [trial.method for trial in trials_of(DIGITS)]
    assert order == ["cross_entropy", "ice_linear", "forward"] * 2


def test_a_killed_experiment_goes_on_without_repeating_what_is_finished(place, monkeypatch):
    trained, real = [], images.advance

    def advance(recipe, *arguments, **settings):
        trained.append((recipe.loss, recipe.seed))
        if len(trained) == 3:
            raise KeyboardInterrupt
        return real(recipe, *arguments, **settings)

    monkeypatch.setattr(images, "advance", advance)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(DIGITS, place)
    finished = {(record["method"], record["seed"]) for record in read_trials(place.results, "table1")}
    assert ("cross_entropy", 0) in finished
    before = len(finished)
    assert run_experiment(DIGITS, place) == 6 - before
    assert not set(trained[3:]) & finished
    assert missing(DIGITS, trials_of(DIGITS), place) == []
    assert run_experiment(DIGITS, place) == 0


def test_the_record_of_a_trial(place):
    run_experiment(DIGITS, place, methods=["cross_entropy", "ice_linear"], trials=1)
    ce, ice = read_trials(place.results, "table1")
    assert (ce["method"], ce["score"]) == ("cross_entropy", "p_label")
    assert (ice["method"], ice["score"]) == ("ice_linear", "confidence")
    for record in (ce, ice):
        assert 0 < record["accuracy"] <= 1
        assert 0.5 < record["auroc"] <= 1
        assert 0.4 < record["average_precision"] <= 1
        assert record["curve"][-1] == [40, record["accuracy"]]
        best = max(value for _, value in record["curve"])
        assert record["accuracy_at_best_validation"] <= best
        assert {"versions", "hardware", "commit", "seconds", "settings"} <= set(record)
        assert "root" not in json.dumps(record)
    assert (place.results / "figures" / "ridgeline_digits_ice_linear.npz").exists()


def test_the_matrix_of_cross_entropy_is_used_and_not_trained_again(place, monkeypatch):
    run_experiment(DIGITS, place, methods=["cross_entropy"], trials=1)
    from icelens.train import pretrain

    monkeypatch.setattr(pretrain, "advance", None)
    run_experiment(DIGITS, place, methods=["forward"], trials=1)
    assert len(read_trials(place.results, "table1")) == 2


def test_trials_at_once_have_the_numbers_of_one_after_the_other_and_one_that_fails_stops_none(tmp_path):
    broken = dataclasses.replace(DIGITS, method={"gce": {"optimizer": "sgd", "learning_rate": 1e30}})
    found = {}
    for workers in (1, 2):
        place = Place(tmp_path / "data", tmp_path / f"results{workers}", tmp_path / f"work{workers}", "cpu")
        with pytest.raises(TrainingError) as failed:
            run_experiment(broken, place, methods=["gce", "cross_entropy"], trials=2, workers=workers)
        said, *trials = str(failed.value).splitlines()
        assert said == "2 of 4 trials failed"
        assert sorted(line.partition(" is nan")[0] for line in trials) == [
            "digits, gce, seed 0: the loss",
            "digits, gce, seed 1: the loss",
        ]
        keys = ("method", "seed", "accuracy", "auroc", "curve")
        found[workers] = [{key: r[key] for key in keys} for r in read_trials(place.results, "table1")]
    assert [(r["method"], r["seed"]) for r in found[1]] == [("cross_entropy", 0), ("cross_entropy", 1)]
    assert found[1] == found[2]


VARIANTS = dataclasses.replace(
    DIGITS,
    table="combine",
    methods=("cross_entropy", "ice_linear", "ice_linear+both"),
    method={
        **DIGITS.method,
        "ice_linear+both": {"loss": "ice_linear", "mixup": 1.0, "model_settings": {"dropout": 0.2}},
        "cross_entropy+mixup": {"loss": "cross_entropy", "mixup": 1.0},
    },
)


def test_a_variant_has_the_settings_of_its_loss_below_its_own(place):
    recipe = recipe_of(VARIANTS, Trial("ice_linear+both", 1), place)
    assert (recipe.loss, recipe.mixup, recipe.learning_rate, recipe.seed) == ("ice_linear", 1.0, 3e-3, 1)
    assert recipe.model_settings == {"dropout": 0.2, "hidden": [32]}
    assert recipe_of(VARIANTS, Trial("ice_linear", 1), place).mixup == 0


def test_a_variant_is_a_row_of_its_own_and_keeps_no_figure(place):
    run_experiment(VARIANTS, place, trials=1)
    records = {record["method"]: record for record in read_trials(place.results, "combine")}
    assert set(records) == set(VARIANTS.methods)
    both = records["ice_linear+both"]
    assert (both["loss"], both["settings"]["mixup"]) == ("ice_linear", 1.0)
    assert "mixup" not in records["ice_linear"]["settings"]
    assert (place.results / "combine" / "digits-ice_linear-both-0.json").exists()
    assert [path.name for path in place.work.iterdir() if path.name.startswith("combine")] == [
        "combine-digits-ice_linear"
    ]
    assert missing(VARIANTS, trials_of(VARIANTS, count=1), place) == []


def test_a_variant_of_cross_entropy_leaves_the_matrix_of_the_plain_one(place):
    run_experiment(VARIANTS, place, methods=["cross_entropy"], trials=1)
    (matrix,) = place.work.glob("*/transition.safetensors")
    before = matrix.read_bytes()
    run_experiment(VARIANTS, place, methods=["cross_entropy+mixup"], trials=1)
    assert matrix.read_bytes() == before


@pytest.mark.parametrize("name", ["combine-fashion-mnist", "combine-cifar10"])
def test_the_combinations_differ_from_table_1_in_what_they_add_alone(name, place):
    combine, table1 = read_experiment(name), read_experiment(name.replace("combine", "table1"))
    assert len(combine.methods) == 10
    assert set(combine.method) == {"ice_linear", *(method for method in combine.methods if "+" in method)}
    added = {"loss", "loss_settings", "mixup", "averaging"}
    for method in combine.methods:
        base = dataclasses.asdict(recipe_of(table1, Trial(method.split("+")[0], 3), place))
        recipe = dataclasses.asdict(recipe_of(combine, Trial(method, 3), place))
        different = {key for key in base if recipe[key] != base[key]} - {"snapshots"}
        assert different <= added
        assert bool(different) == ("+" in method)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"methods": ["nonsense"]}, "unknown loss 'nonsense'"),
        ({"workers": 0}, "workers must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_run_is_refused(place, change, message):
    with pytest.raises(InputError, match=message):
        run_experiment(DIGITS, place, **change)


def test_on_original_labels_classes_and_pairs_are_counted(place):
    train = {key: value for key, value in DIGITS.train.items() if key not in ("noise_rate", "validation")}
    original = dataclasses.replace(DIGITS, table="original", train=train, keep="gallery")
    run_experiment(original, place, methods=["ice_linear"], trials=1)
    (record,) = read_trials(place.results, "original")
    assert list(record["confidence_by_class"]) == list("0123456789")
    assert sum(count for _, _, count in record["lowest_pairs"]) <= record["lowest"]
    assert "auroc" not in record
    assert (place.results / "figures" / "gallery_digits_ice_linear.npz").exists()


def test_a_record_of_other_settings_is_refused(place):
    run_experiment(DIGITS, place, methods=["cross_entropy"], trials=1)
    other = dataclasses.replace(DIGITS, train={**DIGITS.train, "iterations": 41})
    with pytest.raises(InputError, match=r"was made with iterations=40, not 41; give another --results"):
        run_experiment(other, place, methods=["cross_entropy"], trials=1)


def test_a_matrix_belongs_to_the_settings_of_its_cross_entropy_run(place, tmp_path):
    quick = dataclasses.replace(DIGITS, table="quick", train={**DIGITS.train, "iterations": 1})
    run_experiment(DIGITS, place, methods=["cross_entropy"], trials=1)
    run_experiment(quick, place, methods=["cross_entropy"], trials=1)
    run_experiment(DIGITS, place, methods=["forward"], trials=1)
    fresh = Place(place.root, tmp_path / "fresh", tmp_path / "fresh_work", "cpu")
    run_experiment(DIGITS, fresh, methods=["forward"], trials=1)
    (alone,) = read_trials(fresh.results, "table1")
    _, after = read_trials(place.results, "table1")
    assert after["method"] == alone["method"] == "forward"
    assert after["curve"] == alone["curve"]


def test_the_hardware_is_that_of_the_device():
    assert "threads" in circumstances("cpu")["hardware"]


def test_the_commit_is_that_of_these_sources_alone(tmp_path, monkeypatch):
    monkeypatch.delenv("ICELENS_COMMIT", raising=False)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    monkeypatch.setattr(store, "__file__", str(tmp_path / "site-packages" / "store.py"))
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "store.py").write_text("")
    assert store.commit.__wrapped__() is None
    monkeypatch.setenv("ICELENS_COMMIT", "abc")
    assert store.commit.__wrapped__() == "abc"


def test_a_family_of_experiments_goes_by_one_name():
    assert expanded(["table1", "table2-cola"]) == [
        *(n for n in names() if n.startswith("table1-")),
        "table2-cola",
    ]
    assert expanded(["nonsense"]) == ["nonsense"]
