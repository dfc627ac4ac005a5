import json
from dataclasses import replace

import numpy as np
import pytest
from text_files import write_task

from icelens.errors import FileError, InputError
from icelens.reproduce import text_trials
from icelens.reproduce.experiment import Place, read_experiment
from icelens.reproduce.paper_text import EPOCHS, LISTED, TABLE2, TITLES
from icelens.reproduce.runner import run_experiment
from icelens.reproduce.store import read_trials
from icelens.reproduce.text import run_text_trial
from icelens.reproduce.text_choice import Candidate, candidates, choices, choices_markdown, run_choice
from icelens.reproduce.text_experiment import choose, text_recipe
from icelens.reproduce.text_recipe import TextRecipe
from icelens.reproduce.text_tables import summary
from icelens.reproduce.text_trials import Trial, is_finished, run_missing, run_one

SMALL = {"epochs": 1, "batch_size": 8, "max_length": 32, "precision": "float32", "device": "cpu"}


def trial(encoder, folder, *, keep_rows=False, **settings):
    recipe = TextRecipe(encoder=encoder, **{**SMALL, **settings})
    path = folder / f"{recipe.data}-{recipe.method}-{recipe.seed}.json"
    return Trial(recipe, path, keep_rows)


def test_the_paper_is_complete():
    assert TABLE2.keys() == EPOCHS.keys() == LISTED.keys() == TITLES.keys()
    assert {data: len(rows) for data, rows in LISTED.items()} == {
        "cola": 20, "sst2": 19, "mrpc": 5, "qqp": 5, "mnli": 5, "qnli": 5, "rte": 3, "wnli": 5
    }  # fmt: skip


def test_recipes_of_the_table_are_the_papers():
    for data, epochs in EPOCHS.items():
        experiment = read_experiment(f"table2-{data}")
        recipe = text_recipe(experiment, "cross_entropy", "bert-base-cased")
        assert (recipe.data, recipe.epochs) == (data, epochs)
        assert (recipe.batch_size, recipe.weight_decay, recipe.learning_rate) == (32, 0.01, 5e-5)
        for method, step_size in (("ice_linear", 1.0), ("ice_power", 4.0)):
            ice = text_recipe(experiment, method, "x")
            assert (ice.step_size, ice.start, ice.rise) == (step_size, 2.0, 1.0)


def test_a_setting_that_is_none_is_refused():
    experiment = replace(read_experiment("table2-cola"), train={"data": "cola", "epoch": 3})
    with pytest.raises(InputError, match="CoLA: unknown setting 'epoch'; did you mean 'epochs'"):
        text_recipe(experiment, "ice_power", "x")


def test_a_record_says_what_was_done_and_by_what_but_not_where(tmp_path, encoder):
    write_task(tmp_path, "mrpc")
    run_one(trial(encoder, tmp_path / "out", data="mrpc", method="ice_power", seed=3), str(tmp_path))
    (record,) = read_trials(tmp_path, "out")
    assert (record["data"], record["method"], record["seed"]) == ("mrpc", "ice_power", 3)
    assert list(record["scores"]) == ["f1", "accuracy"]
    assert record["scored_on"] == "dev"
    assert {"step_size", "start", "learning_rate", "epochs", "held_out"} <= set(record["settings"])
    assert {"torch", "python", "icelens", "transformers"} <= set(record["versions"])
    assert {"hardware", "commit", "seconds", "losses"} <= set(record)
    assert str(tmp_path) not in json.dumps(record)
    assert encoder.endswith(f"/{record['encoder']}")
    assert not list((tmp_path / "out").glob("*.npz"))


def test_rows_are_kept_where_asked_for(tmp_path, encoder):
    write_task(tmp_path, "cola")
    kept = trial(encoder, tmp_path / "out", method="ice_linear", keep_rows=True)
    run_one(kept, str(tmp_path))
    result = run_text_trial(kept.recipe, tmp_path)
    with np.load(kept.path.with_suffix(".npz")) as rows:
        np.testing.assert_array_equal(rows["confidence"], result.confidence.numpy())
        np.testing.assert_array_equal(rows["guess"], result.guess.numpy())
        np.testing.assert_allclose(rows["p_label"], result.p_label.numpy(), atol=1e-3)
        assert (rows["confidence"].dtype, rows["guess"].dtype) == (np.float32, np.int8)


def test_a_finished_trial_is_not_run_again(tmp_path, encoder, monkeypatch):
    write_task(tmp_path, "cola")
    trials = [trial(encoder, tmp_path / "out", method="ice_power", seed=seed) for seed in (0, 1)]
    ran = []
    real = text_trials.run_text_trial
    monkeypatch.setattr(
        text_trials, "run_text_trial", lambda r, *a, **k: ran.append(r.seed) or real(r, *a, **k)
    )
    run_missing(trials[:1], tmp_path)
    run_missing(trials, tmp_path)
    run_missing(trials, tmp_path)
    assert ran == [0, 1]


def test_a_record_of_other_settings_is_refused(tmp_path, encoder):
    write_task(tmp_path, "cola")
    done = trial(encoder, tmp_path / "out", method="ice_power")
    run_missing([done], tmp_path)
    other = replace(done, recipe=replace(done.recipe, step_size=7.0))
    with pytest.raises(InputError, match=r"was made with step_size=1\.0, not 7\.0; give another folder"):
        run_missing([other], tmp_path)
    with pytest.raises(InputError, match=r"was made with encoder='tiny-bert0', not 'bert'"):
        is_finished(replace(done, recipe=replace(done.recipe, encoder="models/bert")))
    assert is_finished(replace(done, recipe=replace(done.recipe, device="auto")))
    done.path.write_text("{")
    with pytest.raises(FileError, match="not the record of a trial"):
        is_finished(done)


@pytest.mark.slow
def test_several_processes_give_what_one_gives(tmp_path, encoder):
    write_task(tmp_path, "cola")
    for jobs in (1, 2):
        trials = [trial(encoder, tmp_path / f"out{jobs}", method="ice_linear", seed=seed) for seed in (0, 1)]
        run_missing(trials, tmp_path, jobs=jobs)
    one, two = read_trials(tmp_path, "out1"), read_trials(tmp_path, "out2")
    assert len(one) == 2
    for first, second in zip(one, two, strict=True):
        assert (first["scores"], first["losses"]) == (second["scores"], second["losses"])
    with pytest.raises(InputError, match="jobs must be at least 1, got 0"):
        run_missing([], tmp_path, jobs=0)


def tiny(data):
    """The experiment on a task, short enough for a CPU."""
    experiment = read_experiment(f"table2-{data}")
    return replace(experiment, train={**experiment.train, **SMALL}, trials=2)


def test_the_whole_table_of_a_task(tmp_path, encoder):
    write_task(tmp_path, "wnli")
    place = Place(tmp_path, tmp_path / "out", tmp_path, "cpu")
    assert run_experiment(tiny("wnli"), place, encoder=encoder) == 6
    assert run_experiment(tiny("wnli"), place, encoder=encoder) == 0
    cells = summary(read_trials(tmp_path / "out", "table2"))
    assert [(cell.method, cell.n, cell.paper) for cell in cells] == [
        ("cross_entropy", 2, 50.70), ("ice_linear", 2, None), ("ice_power", 2, 56.34)
    ]  # fmt: skip
    assert sorted(path.name for path in (tmp_path / "out/table2").glob("*.npz")) == [
        "wnli-cross_entropy-0.npz", "wnli-ice_linear-0.npz", "wnli-ice_power-0.npz"
    ]  # fmt: skip
    with pytest.raises(InputError, match="WNLI needs an encoder"):
        run_experiment(tiny("wnli"), place)


def test_candidates_are_compared_on_held_out_rows(tmp_path, encoder):
    write_task(tmp_path, "cola")
    write_task(tmp_path, "mrpc")
    compared = candidates(["cross_entropy", "ice_power"], [1, 4], [0], [0.5])
    assert compared == [
        Candidate("cross_entropy"), Candidate("ice_power", 1, 0, 0.5), Candidate("ice_power", 4, 0, 0.5)
    ]  # fmt: skip
    recipes = [TextRecipe(data, encoder=encoder, held_out=0.2, **SMALL) for data in ("cola", "mrpc")]
    found = run_choice(recipes, tmp_path, tmp_path / "out", compared, seeds=[0, 1])
    records = read_trials(tmp_path / "out", "table2_choice")
    assert len(records) == 12
    assert {record["scored_on"] for record in records} == {"held out"}
    assert {choice.candidate for choice in found} == set(compared)
    assert [choice.mean for choice in found] == sorted((choice.mean for choice in found), reverse=True)
    assert all(choice.n == 2 and set(choice.tasks) == {"cola", "mrpc"} for choice in found)
    assert choices_markdown(found).count("\n") == 5


def test_a_candidate_counts_by_the_mean_over_seeds_then_tasks():
    def record(data, scores, step):
        return {
            "data": data,
            "method": "ice_power",
            "scores": scores,
            "settings": {"step_size": step, "start": 0},
        }

    found = choices([
        record("cola", {"matthews": 0.2}, 1), record("cola", {"matthews": 0.4}, 1),
        record("mrpc", {"f1": 0.9, "accuracy": 0.1}, 1), record("mrpc", {"f1": 0.8, "accuracy": 0.1}, 4),
    ])  # fmt: skip
    assert [choice.candidate.step_size for choice in found] == [4, 1]
    assert found[1].tasks == pytest.approx({"cola": 30, "mrpc": 90})
    assert found[1].mean == pytest.approx(60)


@pytest.mark.parametrize("held_out", [0.0, 1.0, -0.1, float("nan")])
def test_settings_are_not_chosen_by_the_dev_set(tmp_path, encoder, held_out):
    place = Place(tmp_path, tmp_path / "out", tmp_path, "cpu")
    grid = {"step_sizes": [4.0], "starts": [0.0], "rises": [1.0]}
    with pytest.raises(InputError, match=r"held_out must lie in \(0, 1\), got .*dev set"):
        choose([tiny("wnli")], place, encoder, **grid, held_out=held_out, trials=1)


def test_settings_are_chosen_by_held_out_rows_of_the_experiments(tmp_path, encoder):
    write_task(tmp_path, "wnli", train=60)
    place = Place(tmp_path, tmp_path / "out", tmp_path, "cpu")
    grid = {"step_sizes": [4.0], "starts": [0.0], "rises": [1.0]}
    found = choose([tiny("wnli")], place, encoder, **grid, held_out=0.2, trials=1)
    assert {choice.candidate.method for choice in found} == {"cross_entropy", "ice_linear", "ice_power"}
    records = read_trials(tmp_path / "out", "table2_choice")
    assert {record["scored_on"] for record in records} == {"held out"}
    # What an earlier comparison left is not among the candidates.
    again = choose([tiny("wnli")], place, encoder, **{**grid, "starts": [1.0]}, held_out=0.2, trials=1)
    assert {choice.candidate.start for choice in again} == {None, 1.0}
