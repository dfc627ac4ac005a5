"""`run_recipe` over ranks: the confidences, weights and files of one undisturbed process."""

import copy
import json
import os
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from processes import LATE, kill_this_process, preload, run, run_until_killed

from icelens.errors import InputError
from icelens.losses import LOSSES, HeldLoss, ICELoss, Problem, make_loss
from icelens.ranks import Ranks
from icelens.train import Recipe, Run, driver, loop, run_recipe
from icelens.train.distributed import check_device, check_loss, seed_step

# 1,348 digits less a fifth: the last batch of an epoch has 54 rows, no multiple of 4.
PLAIN = Recipe(
    noise_rate=0.3,
    validation=0.2,
    model_settings={"hidden": [16]},
    learning_rate=5e-3,
    iterations=200,
    batch_size=128,
    evaluations=4,
    snapshots=2,
    precision="float64",
    device="cpu",
)
# Two rows for four ranks, so that some have none in every step, and all that looks beyond its own row.
HARD = replace(
    PLAIN,
    model="cnn",
    model_settings={"width": 2, "padding": 1, "dropout": 0.0, "logit_norm": True},
    augment="crop_flip",
    mixup=1.0,
    averaging=0.9,
    loss_settings={"label_smoothing": 0.1},
    normalize=True,
    iterations=12,
    batch_size=2,
    validation=0.5,
)


@pytest.fixture(scope="module", autouse=True)
def one_import():
    preload("icelens.train.driver", *LATE)


def trained(folder, recipe, killed_at=None):
    """The tensors that this rank ends with."""
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    states, advance, rows = [], driver.advance, loop.batch_rows
    ranks = Ranks.here()

    def watched(recipe, task, iteration):
        if iteration == killed_at and ranks.rank == ranks.count - 1:
            kill_this_process()
        return rows(recipe, task, iteration)

    driver.advance = lambda *args, **settings: states.append(advance(*args, **settings))
    loop.batch_rows = watched
    try:
        run_recipe(recipe, folder if ranks.is_first else folder.with_name("not-mine"))
    finally:
        driver.advance, loop.batch_rows = advance, rows
    (state,) = states
    assert len(state.snapshots) == (3 if ranks.is_first and recipe.snapshots else 0)
    assert not folder.with_name("not-mine").exists()
    return {**state.loss.state_dict(), **state.predictor.state_dict()}


def check(results, expected, *, rounding=0.0):
    """All ranks have the same, and it is what is expected, but for how 16 bits are rounded."""
    for result in results:
        assert all(torch.equal(result[name], results[0][name]) for name in expected)
        for name, tensor in expected.items():
            near = rounding if tensor.dtype == torch.float16 else 0.0
            torch.testing.assert_close(result[name], tensor, rtol=near, atol=1e-6)


def check_files(folder, other):
    """The same files with the same numbers, but for the seconds."""
    assert {path.name for path in folder.iterdir()} == {path.name for path in other.iterdir()}
    mine, theirs = Run(folder), Run(other)
    assert json.loads((folder / "recipe.json").read_text()) == json.loads((other / "recipe.json").read_text())
    for row, expected in zip(mine.metrics(), theirs.metrics(), strict=True):
        assert {**row, "seconds": 0} == pytest.approx({**expected, "seconds": 0}, abs=1e-6)
    here, there = mine.examples(), theirs.examples()
    numbers = [name for name in ("confidence", "p_label") if name in there]
    assert here.drop(columns=numbers).equals(there.drop(columns=numbers))
    for name in numbers:
        assert here[name].to_numpy() == pytest.approx(there[name].to_numpy(), abs=1e-6, nan_ok=True)


@pytest.mark.parametrize(
    ("ranks", "steps"), [(2, 200), (4, 40), pytest.param(4, 200, marks=pytest.mark.slow)]
)
def test_ranks_end_with_the_numbers_of_one_process(ranks, steps, tmp_path):
    recipe = replace(PLAIN, iterations=steps)
    expected = trained(tmp_path / "1", recipe)
    assert expected["table.v"].std() > 0.1
    check(run(trained, ranks, tmp_path, tmp_path / "n", recipe), expected)
    check_files(tmp_path / "n", tmp_path / "1")


def test_ranks_are_held_to_the_beliefs_of_one_process(tmp_path):
    recipe = replace(PLAIN, loss="ice_held", iterations=120)
    expected = trained(tmp_path / "1", recipe)
    assert expected["steady"] > 0.6
    check(run(trained, 2, tmp_path, tmp_path / "2", recipe), expected)
    check_files(tmp_path / "2", tmp_path / "1")


def test_what_looks_beyond_its_own_row_is_that_of_one_process_too(tmp_path):
    """BatchNorm, augmentation, mixup and averaging, with ranks that have no row."""
    expected = trained(tmp_path / "1", HARD)
    check(run(trained, 4, tmp_path, tmp_path / "4", HARD), expected)
    check_files(tmp_path / "4", tmp_path / "1")


@pytest.mark.parametrize("steps", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_a_killed_run_goes_on_with_any_number_of_ranks(steps, tmp_path):
    recipe = replace(PLAIN, iterations=steps, loss="ice_power", optimizer="sgd")
    expected, folder = trained(tmp_path / "whole", recipe), tmp_path / "killed"
    run_until_killed(trained, 2, tmp_path, folder, recipe, killed_at=steps // 4 + 2)
    run_until_killed(trained, 4, tmp_path, folder, recipe, killed_at=steps // 2 + 2)
    assert [row["iteration"] for row in Run(folder).metrics()] == [steps // 4, steps // 2]
    with pytest.raises(AssertionError, match="killed"):  # one process, this one, which lives on
        trained_until(folder, recipe, steps * 3 // 4 + 2)
    check(run(trained, 2, tmp_path, folder, recipe), expected)
    check_files(folder, tmp_path / "whole")


def trained_until(folder, recipe, iteration):
    rows = loop.batch_rows

    def watched(recipe, task, at):
        assert at < iteration, "killed"
        return rows(recipe, task, at)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "batch_rows", watched)
        run_recipe(recipe, folder)


def test_a_matrix_that_is_learned_first_is_handed_round(tmp_path):
    recipe = replace(PLAIN, loss="forward", iterations=20, snapshots=0)
    check(run(trained, 2, tmp_path, tmp_path / "2", recipe), trained(tmp_path / "1", recipe))
    check_files(tmp_path / "2", tmp_path / "1")


def test_dropout_is_drawn_again_as_it_was_in_a_resumed_run(tmp_path):
    # The checkpoint after step 8 lies before the small last batch of an epoch.
    recipe = replace(PLAIN, model_settings={"hidden": [16], "dropout": 0.5}, iterations=16)
    whole = run(trained, 2, tmp_path, tmp_path / "whole", recipe)
    run_until_killed(trained, 2, tmp_path, tmp_path / "killed", recipe, killed_at=10)
    assert Run(tmp_path / "killed").metrics()[-1]["iteration"] == 8
    resumed = run(trained, 2, tmp_path, tmp_path / "killed", recipe)
    assert all(torch.equal(resumed[0][name], whole[0][name]) for name in whole[0])


def test_dropout_is_another_on_each_rank_and_in_each_step_and_left_alone_in_one_process():
    drawn = set()
    for where in [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0), (2**32 - 1, 10**6, 7), (0, 0, 1)]:
        seed, iteration, rank = where
        seed_step(seed, iteration, Ranks(rank, 8))
        drawn.add(float(torch.rand(())))
    assert len(drawn) == 5
    state = torch.get_rng_state()
    seed_step(0, 0, Ranks())
    assert torch.equal(torch.get_rng_state(), state)


def test_ranks_with_other_settings_or_a_method_that_is_not_shared_are_told(tmp_path):
    for said in run(refused, 2, tmp_path, tmp_path / "run"):
        assert said[0] == "settings and data of process 1 are not those of process 0; start all with the same"
        assert said[1].startswith(
            "loss 'elr' would learn another state in each of 2 processes; start it without"
        )
        assert said[1].endswith("ice_power, ice_held, sce")
        assert said[3] == "refine is for one process, and there are 2; set refine=0"
        assert said[2] == "compiled=true is for one process; leave it out where there are several"
    assert not (tmp_path / "run").exists()


def refused(folder):
    dist.init_process_group("gloo")
    said = []
    for changed in (
        {"seed": dist.get_rank()},
        {"loss": "elr", "snapshots": 0},
        {"compiled": True},
        {"loss": "ice_held", "refine": 1.0},
    ):
        try:
            run_recipe(replace(PLAIN, **changed), folder)
        except InputError as error:
            said.append(str(error))
    return said


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_a_method_that_keeps_something_of_a_batch_is_ice_or_refused(name):
    loss = make_loss(name, Problem(4, 2, 10, torch.eye(2)))
    before = copy.deepcopy(loss.state_dict())
    logits = torch.randn(4, LOSSES[name].outputs(2), requires_grad=True)
    loss(logits, torch.tensor([0, 1, 1, 0]), torch.arange(4)).backward()
    keeps = any(not torch.equal(value, before[key]) for key, value in loss.state_dict().items())
    check_loss(name, loss, Ranks())
    if keeps and not isinstance(loss, ICELoss | HeldLoss):
        with pytest.raises(InputError, match=f"loss '{name}'"):
            check_loss(name, loss, Ranks(0, 2))


@pytest.mark.parametrize(
    "name", ["cross_entropy", "gce", "forward", "adaptation", "ice_linear", "ice_power", "ice_held"]
)
def test_these_methods_are_shared(name):
    check_loss(name, make_loss(name, Problem(4, 2, 10, torch.eye(2))), Ranks(1, 2))


def test_one_gpu_for_all_is_refused():
    with pytest.raises(InputError, match="device cuda:1 is one GPU, but there are 2 processes"):
        check_device("cuda:1", Ranks(0, 2))
    check_device("cuda", Ranks(0, 2))
    check_device("cuda:1", Ranks())
