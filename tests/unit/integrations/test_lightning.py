"""ICECallback in one process: what it learns, what it leaves as it was, what it saves and refuses."""

import copy

import pytest
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning_module import Module, loader, rows, trainer
from torch.utils.data import DataLoader

from icelens.errors import MissingFileError
from icelens.integrations.lightning import ICECallback
from icelens.losses import ICELoss

# Lightning's own: a call that torch wants written in another way, advice on workers, a folder that exists.
pytestmark = pytest.mark.filterwarnings("ignore:::lightning")
EXAMPLES = 24


class Plain(Module):
    def training_step(self, batch, _):
        x, labels, _ = batch
        return F.cross_entropy(self.layers(x), labels)


def gradients(folder, kind, size, **changes):
    ice = ICECallback(EXAMPLES, start=100.0, step_size=0.0)
    module = kind(ice)
    trainer(folder, ice, max_epochs=2, **changes).fit(module, loader(EXAMPLES, size))
    return torch.stack(module.gradients)


def test_where_every_label_is_believed_gradients_are_those_of_cross_entropy(tmp_path):
    for parts in (1, 4):
        plain, ours = (
            gradients(tmp_path, kind, 8 // parts, accumulate_grad_batches=parts) for kind in (Plain, Module)
        )
        assert len(ours) == 6
        torch.testing.assert_close(ours, plain, rtol=0, atol=1e-12)


def test_accumulation_gives_the_gradients_of_the_batch_in_one_piece(tmp_path):
    whole = gradients(tmp_path, Module, 8)
    parts = gradients(tmp_path, Module, 2, accumulate_grad_batches=4)
    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-12)


def test_confidences_are_those_of_a_plain_loop(tmp_path):
    ice = ICECallback(EXAMPLES, transform="power")
    trainer(tmp_path, ice, max_epochs=4).fit(Module(ice), loader(EXAMPLES, 8))

    loss_fn = ICELoss(EXAMPLES, transform="power")
    module = Module(loss_fn)
    optimizer = module.configure_optimizers()
    for _ in range(4):
        for batch in loader(EXAMPLES, 8):
            optimizer.zero_grad()
            module.training_step(batch, 0).backward()
            optimizer.step()
    assert torch.equal(ice.confidence(), loss_fn.confidence())
    assert ice.confidence().std() > 0.05


def test_validation_is_cross_entropy_and_moves_nothing(tmp_path):
    ice, held_out = ICECallback(EXAMPLES), rows(10, seed=1)
    module, run = Module(ice), trainer(tmp_path, ice, max_epochs=2)
    run.fit(module, loader(EXAMPLES, 8), DataLoader(held_out, batch_size=10))  # begins with a sanity check
    expected = F.cross_entropy(module.layers(held_out.tensors[0]), held_out.tensors[1]).item()
    assert run.callback_metrics["val_loss"].item() == pytest.approx(expected, abs=1e-6)
    before = ice.confidence()
    run.validate(module, DataLoader(held_out, batch_size=10), verbose=False)
    assert torch.equal(ice.confidence(), before)


@pytest.mark.parametrize("precision", ["bf16-true", "bf16-mixed", "32-true"])
def test_no_precision_shortens_the_table(tmp_path, precision):
    ice = ICECallback(EXAMPLES, step_size=1e-3, start=1.0)
    module = Module(ice, dtype=torch.float32)
    run = trainer(tmp_path, ice, max_epochs=1, precision=precision)
    run.fit(module, loader(EXAMPLES, 8, dtype=torch.float32))
    v = ice.loss_fn.table.v
    assert v.dtype == torch.float32
    # Steps of this size are lost in bfloat16, whose neighbours of 1 are 0.996 and 1.008.
    assert (v != 1.0).all()
    assert (v - 1.0).abs().max() < 2e-3


def test_the_module_and_its_part_of_a_checkpoint_do_not_know_of_the_table(tmp_path):
    ice = ICECallback(EXAMPLES)
    module = Module(ice)
    run = trainer(tmp_path, ice, max_epochs=1, enable_checkpointing=True)
    run.fit(module, loader(EXAMPLES, 8))
    path = tmp_path / "saved.ckpt"
    run.save_checkpoint(path)
    saved = torch.load(path, weights_only=True)
    assert set(saved["state_dict"]) == {
        "layers.0.weight",
        "layers.0.bias",
        "layers.2.weight",
        "layers.2.bias",
    }
    assert torch.equal(saved["callbacks"]["ICECallback"]["table.v"], ice.loss_fn.table.v)
    Module.load_from_checkpoint(path, ice=None)
    assert not list(copy.deepcopy(module).ice.loss_fn.parameters())


def fitted(folder, epochs, resume=None):
    ice = ICECallback(EXAMPLES)
    keep = ModelCheckpoint(dirpath=folder, save_top_k=-1, filename="{epoch}")
    run = trainer(folder, ice, max_epochs=epochs, enable_checkpointing=True, callbacks=[keep])
    run.fit(Module(ice), loader(EXAMPLES, 8), ckpt_path=resume)
    return ice.confidence()


def test_a_resumed_run_ends_with_the_same_confidences(tmp_path):
    straight = fitted(tmp_path / "straight", 5)
    fitted(tmp_path / "parts", 3)
    assert torch.equal(fitted(tmp_path / "parts", 5, tmp_path / "parts" / "epoch=1.ckpt"), straight)


def test_checkpoints_of_other_runs_are_refused(tmp_path):
    fitted(tmp_path, 1)
    other, path = ICECallback(5), tmp_path / "epoch=0.ckpt"
    with pytest.raises(RuntimeError, match="table has 24 rows, but the data set has 5"):
        trainer(tmp_path, other, max_epochs=2).fit(Module(other), loader(5, 5), ckpt_path=path)
    saved = torch.load(path, weights_only=True)
    del saved["callbacks"]["ICECallback"]
    torch.save(saved, path)
    with pytest.raises(MissingFileError, match="saved without ICECallback"):
        fitted(tmp_path, 2, path)


def test_settings_are_those_of_the_loss():
    assert ICECallback(3, start=2.0).confidence().tolist() == pytest.approx([0.8808] * 3, abs=1e-4)
    with pytest.raises(TypeError, match="transfrom"):
        ICECallback(3, transfrom="power")
