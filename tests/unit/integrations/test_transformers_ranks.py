"""ICETrainer under DDP and after a kill: the confidences of one undisturbed process, on every rank."""

import pytest
import torch
from processes import kill_this_process, preload, run, run_until_killed
from tiny_models import Network, arguments, images
from transformers import TrainerCallback

from icelens.integrations.transformers import ICETrainer

# Of the last batch of 8 two are real; Accelerate fills it up, for some ranks all of it, with earlier rows.
EXAMPLES, GLOBAL_BATCH = 42, 8


@pytest.fixture(scope="module", autouse=True)
def one_import():
    preload("icelens.integrations.transformers")


class Kill(TrainerCallback):
    def __init__(self, step, rank):
        self.step, self.rank = step, rank

    def on_step_end(self, args, state, control, **_):
        if state.global_step == self.step and args.process_index == self.rank:
            kill_this_process()


def trained(folder, ranks, steps, *, killed_at=None, resume=False, **changes):
    """A float64 network and its confidences; ranks and accumulation share global batches of 8."""
    parts = ranks * changes.get("gradient_accumulation_steps", 1)
    settings = {"save_strategy": "steps", "save_steps": 4, "ddp_find_unused_parameters": False, **changes}
    args = arguments(folder, max_steps=steps, per_device_train_batch_size=GLOBAL_BATCH // parts, **settings)
    callbacks = [] if killed_at is None else [Kill(killed_at, ranks - 1)]
    data = images(EXAMPLES, dtype=torch.float64)
    trainer = ICETrainer(Network(), args, train_dataset=data, callbacks=callbacks)
    trainer.train(resume_from_checkpoint=resume)
    assert trainer.accelerator.num_processes == ranks
    weights = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    return {"v": trainer.loss_fn.table.v, **weights}


def check(results, expected):
    for result in results:
        assert torch.equal(result["v"], results[0]["v"])
        for name, tensor in expected.items():
            torch.testing.assert_close(result[name], tensor, rtol=0, atol=1e-6)


def check_ranks_against_one_process(folder, steps, ranks, **changes):
    expected = trained(folder / "one", 1, steps, **changes)
    assert expected["v"].std() > 0.1
    for count in ranks:
        check(run(trained, count, folder, folder / f"{count}", count, steps, **changes), expected)


def test_every_rank_holds_the_confidences_of_one_process(tmp_path):
    check_ranks_against_one_process(tmp_path, 14, (2, 4))


def test_every_rank_holds_the_confidences_of_one_process_under_accumulation(tmp_path):
    check_ranks_against_one_process(tmp_path, 14, (2,), gradient_accumulation_steps=2)


def test_a_killed_run_of_two_ranks_resumes_to_the_same_numbers(tmp_path):
    expected, folder = trained(tmp_path / "one", 1, 14), tmp_path / "two"
    run_until_killed(trained, 2, tmp_path, folder, 2, 14, killed_at=10)
    assert sorted(path.name for path in folder.iterdir()) == ["checkpoint-4", "checkpoint-8"]
    check(run(trained, 2, tmp_path, folder, 2, 14, resume=True), expected)


@pytest.mark.slow
def test_ranks_and_a_killed_run_after_200_steps(tmp_path):
    check_ranks_against_one_process(tmp_path, 200, (1, 2, 4), save_steps=50)
    expected, folder = trained(tmp_path / "again", 1, 200, save_steps=50), tmp_path / "killed"
    run_until_killed(trained, 4, tmp_path, folder, 4, 200, killed_at=117, save_steps=50)
    check(run(trained, 4, tmp_path, folder, 4, 200, resume=True, save_steps=50), expected)
