"""ICETrainer on CUDA in half precision, where the Trainer scales the loss and skips updates."""

import pytest
import torch
from tiny_models import arguments, text_model, texts

from icelens.integrations.transformers import ICETrainer
from icelens.losses import ICELoss

pytestmark = pytest.mark.gpu
EXAMPLES = 22
every_precision = pytest.mark.parametrize("precision", ["fp16", "bf16"])
accumulated = pytest.mark.parametrize("parts", [1, 2])


def model():
    """With opinions: at the weights of a random start all classes are alike, and no confidence moves."""
    made = text_model()
    with torch.no_grad():
        for weight in made.parameters():
            weight.mul_(10 if weight.dim() == 2 else 1)
    return made


def trainer(folder, precision=None, *, parts=1, **changes):
    """Six updates of 8 examples each, two visits to every row, every loss logged as it is."""
    settings = {
        "use_cpu": False,
        "max_steps": 6,
        "per_device_train_batch_size": 8 // parts,
        "gradient_accumulation_steps": parts,
        "lr_scheduler_type": "constant",
        "logging_strategy": "steps",
        "logging_steps": 1,
        "logging_nan_inf_filter": False,  # which would log a NaN as the loss of the step before it
        **({precision: True} if precision else {}),
    }
    args = arguments(folder, **{**settings, **changes})
    loss_fn = ICELoss(EXAMPLES, step_size=10.0)  # so that two visits move a confidence far
    return ICETrainer(model(), args, train_dataset=texts(EXAMPLES), loss_fn=loss_fn)


def losses(done):
    return torch.tensor([entry["loss"] for entry in done.state.log_history if "loss" in entry])


def scale(done, value=None):
    """The factor of the loss; sets it where a value is given."""
    scaler = done.accelerator.scaler
    if value is not None:
        scaler.load_state_dict({**scaler.state_dict(), "scale": value})
    return scaler.get_scale()


def assert_learned(done):
    v = done.loss_fn.table.v
    assert v.is_cuda
    assert v.dtype == torch.float32
    confidence = done.confidence()
    assert confidence.shape == (EXAMPLES,)
    assert confidence.isfinite().all()
    assert (confidence != 0.5).all()
    assert confidence.std() > 0.1
    assert len(losses(done)) == 6
    assert losses(done).isfinite().all()


@every_precision
@accumulated
def test_half_precision_learns_nearly_what_float32_does(tmp_path, precision, parts):
    full, half = (trainer(tmp_path, given, parts=parts) for given in (None, precision))
    for run in (full, half):
        run.train()
        assert_learned(run)
    assert (half.accelerator.scaler is not None) == (precision == "fp16")
    torch.testing.assert_close(half.confidence(), full.confidence(), rtol=0, atol=0.02)
    torch.testing.assert_close(losses(half), losses(full), rtol=0, atol=0.01)


@accumulated
def test_updates_that_the_scaler_skips_move_confidences_all_the_same(tmp_path, parts):
    """At this scale every gradient is infinite, so no weight moves: the run of a learning rate of zero."""
    skipping, still = trainer(tmp_path, "fp16", parts=parts), trainer(tmp_path, "fp16", learning_rate=0.0)
    start = scale(skipping, 2.0**60)
    for run in (skipping, still):
        run.train()
        assert_learned(run)
    assert scale(skipping) == start / 2**6
    torch.testing.assert_close(dict(skipping.model.named_parameters()), dict(still.model.named_parameters()))
    torch.testing.assert_close(skipping.confidence(), still.confidence(), rtol=0, atol=1e-3)


def test_training_goes_on_after_skipped_updates(tmp_path):
    run = trainer(tmp_path, "fp16", max_steps=30)
    start = scale(run, 2.0**30)
    run.train()
    assert 2.0**8 < scale(run) < start
    assert (run.model.classifier.weight.cpu() != model().classifier.weight).any()
    assert run.confidence().isfinite().all()
    assert losses(run)[-3:].mean() < losses(run)[:3].mean()


@every_precision
@accumulated
def test_a_resumed_run_ends_with_the_same_confidences(tmp_path, precision, parts):
    saved = {"save_strategy": "steps", "save_steps": 2}
    straight = trainer(tmp_path / "straight", precision, parts=parts)
    straight.train()
    first = trainer(tmp_path / "parts", precision, parts=parts, max_steps=4, **saved)
    first.train()
    again = trainer(tmp_path / "parts", precision, parts=parts, **saved)
    again.train(resume_from_checkpoint=True)
    assert_learned(again)
    assert (first.confidence() - straight.confidence()).abs().max() > 0.1
    torch.testing.assert_close(again.confidence(), straight.confidence(), rtol=0, atol=1e-3)
