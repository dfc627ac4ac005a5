"""ICECallback under DDP and after a kill: the confidences of one undisturbed process, on every rank."""

import warnings

import pytest
import torch
from lightning.pytorch import Callback
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning_module import Module, rows, trainer
from processes import kill_this_process, preload, run, run_until_killed
from torch.utils.data import DataLoader, DistributedSampler

from icelens.data import Indexed
from icelens.integrations.lightning import ICECallback

pytestmark = pytest.mark.filterwarnings("ignore:::lightning")
# Not a multiple of the ranks: the sampler repeats rows, and the last batches are of unequal size.
EXAMPLES, GLOBAL_BATCH = 41, 8


@pytest.fixture(scope="module", autouse=True)
def one_import():
    preload("icelens.integrations.lightning")


class Kill(Callback):
    def __init__(self, step, ranks):
        self.step, self.rank = step, ranks - 1

    def on_train_batch_end(self, trainer, *_):
        if trainer.global_step == self.step and trainer.global_rank == self.rank:
            kill_this_process()


def trained(folder, ranks, epochs, *, killed_at=None, resume=None, every=1):
    """A float64 network and its confidences; ranks share global batches of 8."""
    warnings.filterwarnings("ignore", module="lightning")
    ice = ICECallback(EXAMPLES)
    keep = ModelCheckpoint(dirpath=folder, save_top_k=-1, filename="{epoch}", every_n_epochs=every)
    callbacks = [keep] if killed_at is None else [keep, Kill(killed_at, ranks)]
    fit = trainer(
        folder,
        ice,
        max_epochs=epochs,
        devices=ranks,
        strategy="ddp" if ranks > 1 else "auto",
        enable_checkpointing=True,
        callbacks=callbacks,
    )
    module, data = Module(ice), Indexed(rows(EXAMPLES))
    # In one process Lightning adds no sampler; this one gives it the order of the ranks together.
    sampler = DistributedSampler(data, num_replicas=1, rank=0) if ranks == 1 else None
    shuffled = DataLoader(data, batch_size=GLOBAL_BATCH // ranks, sampler=sampler, shuffle=ranks > 1 or None)
    fit.fit(module, shuffled, ckpt_path=resume)
    assert fit.world_size == ranks
    return {"v": ice.loss_fn.table.v, **module.state_dict()}


def check(results, expected):
    for result in results:
        assert torch.equal(result["v"], results[0]["v"])
        for name, tensor in expected.items():
            torch.testing.assert_close(result[name], tensor, rtol=0, atol=1e-6)


def check_ranks_against_one_process(folder, epochs, ranks, **settings):
    expected = trained(folder / "one", 1, epochs, **settings)
    assert expected["v"].std() > 0.1
    for count in ranks:
        check(run(trained, count, folder, folder / f"{count}", count, epochs, **settings), expected)


def test_every_rank_holds_the_confidences_of_one_process(tmp_path):
    check_ranks_against_one_process(tmp_path, 4, (2, 4))


def test_a_killed_run_of_two_ranks_resumes_to_the_same_numbers(tmp_path):
    expected, folder = trained(tmp_path / "one", 1, 4), tmp_path / "two"
    run_until_killed(trained, 2, tmp_path, folder, 2, 4, killed_at=14)
    assert sorted(path.name for path in folder.iterdir()) == ["epoch=0.ckpt", "epoch=1.ckpt"]
    check(run(trained, 2, tmp_path, folder, 2, 4, resume=folder / "epoch=1.ckpt"), expected)


@pytest.mark.slow
def test_ranks_and_a_killed_run_after_204_steps(tmp_path):
    check_ranks_against_one_process(tmp_path, 34, (1, 2, 4), every=10)
    expected, folder = trained(tmp_path / "again", 1, 34, every=10), tmp_path / "killed"
    run_until_killed(trained, 4, tmp_path, folder, 4, 34, killed_at=137, every=10)
    check(run(trained, 4, tmp_path, folder, 4, 34, resume=folder / "epoch=19.ckpt", every=10), expected)
