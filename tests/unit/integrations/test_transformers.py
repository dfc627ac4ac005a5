"""ICETrainer in one process: what it learns, what it leaves as it was, what it saves and refuses."""

import datasets
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from tiny_models import Network, arguments, image_model, images, text_model, texts
from torch.utils.data import IterableDataset
from transformers import BertForSequenceClassification, Trainer, TrainerCallback, default_data_collator

from icelens.data import Indexed
from icelens.errors import FileError, InputError, MissingFileError
from icelens.integrations.transformers import ICETrainer
from icelens.losses import ICELoss

EXAMPLES = 22


class Gradients(TrainerCallback):
    def __init__(self):
        self.seen = []

    def on_pre_optimizer_step(self, args, state, control, model=None, **_):
        gradients = [weight.grad.flatten() for weight in model.parameters() if weight.grad is not None]
        self.seen.append(torch.cat(gradients).clone())


def gradients(kind, model, data, folder, parts):
    """Those of five updates with 8 examples each, in `parts` batches; ICE believes every label."""
    seen = Gradients()
    args = arguments(
        folder,
        per_device_train_batch_size=8 // parts,
        gradient_accumulation_steps=parts,
        max_steps=5,
        max_grad_norm=0,
    )
    believing = {"loss_fn": ICELoss(EXAMPLES, start=100.0, step_size=0.0)} if kind is ICETrainer else {}
    kind(model.double(), args, train_dataset=data, callbacks=[seen], **believing).train()
    assert len(seen.seen) == 5
    return torch.stack(seen.seen)


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_where_every_label_is_believed_gradients_are_those_of_the_plain_trainer(tmp_path, parts):
    data = images(EXAMPLES, dtype=torch.float64)
    plain, ours = (gradients(kind, image_model(), data, tmp_path, parts) for kind in (Trainer, ICETrainer))
    torch.testing.assert_close(ours, plain, rtol=0, atol=1e-12)


def test_accumulation_gives_the_gradients_of_the_batch_in_one_piece(tmp_path):
    """Also for a model whose own loss does not count the items, for which the plain Trainer's are larger."""
    whole, parts = (gradients(ICETrainer, text_model(), texts(EXAMPLES), tmp_path, parts) for parts in (1, 4))
    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-12)


def test_accumulation_weighs_examples_alike_in_batches_of_unequal_size(tmp_path):
    """22 in parts of 4: the last update of an epoch has 4 and 2."""
    whole, parts = (
        gradients(ICETrainer, image_model(), images(EXAMPLES, dtype=torch.float64), tmp_path, parts)
        for parts in (1, 2)
    )
    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-12)


def test_two_gpus_without_ranks_do_not_change_the_gradients(tmp_path):
    data = images(EXAMPLES, dtype=torch.float64)
    one = gradients(ICETrainer, image_model(), data, tmp_path, 1)
    seen, args = Gradients(), arguments(tmp_path, max_steps=5, max_grad_norm=0, per_device_train_batch_size=4)
    args.device  # sets the number of GPUs, which for DataParallel is two
    args._n_gpu = 2
    believing = ICELoss(EXAMPLES, start=100.0, step_size=0.0)
    ICETrainer(image_model().double(), args, train_dataset=data, callbacks=[seen], loss_fn=believing).train()
    torch.testing.assert_close(torch.stack(seen.seen), one, rtol=0, atol=1e-12)


def test_confidences_are_those_of_a_plain_loop(tmp_path):
    data = images(EXAMPLES, dtype=torch.float64)
    args = arguments(
        tmp_path, per_device_train_batch_size=EXAMPLES, max_steps=6, lr_scheduler_type="constant"
    )
    trainer = ICETrainer(Network(), args, train_dataset=data)
    trainer.train()

    model, loss_fn = Network(), ICELoss(EXAMPLES)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    x = torch.stack([item["pixel_values"] for item in data])
    labels = torch.tensor([item["label"] for item in data])
    for _ in range(6):
        optimizer.zero_grad()
        loss_fn(model(x)["logits"], labels, torch.arange(EXAMPLES)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    torch.testing.assert_close(trainer.confidence(), loss_fn.confidence(), rtol=0, atol=1e-6)
    assert loss_fn.confidence().std() > 0.05


@pytest.mark.parametrize("parts", [1, 4])
def test_with_class_weights_the_mean_is_that_of_cross_entropy(tmp_path, parts):
    """Divided by the number of examples, weights of 1 over the size of a class made it that much smaller."""
    data = images(EXAMPLES, dtype=torch.float64)
    x = torch.stack([item["pixel_values"] for item in data])
    labels = torch.tensor([item["label"] for item in data])
    weight, seen = 1 / labels.bincount().double(), Gradients()
    args = arguments(
        tmp_path,
        per_device_train_batch_size=-(-EXAMPLES // parts),
        gradient_accumulation_steps=parts,
        max_steps=1,
        max_grad_norm=0,
    )
    loss_fn = ICELoss(EXAMPLES, start=100.0, step_size=0.0, weight=weight)
    model, wanted = Network(), Network()
    F.cross_entropy(wanted(x)["logits"], labels, weight).backward()
    trainer = ICETrainer(
        model, args, train_dataset=data, eval_dataset=data[:8], loss_fn=loss_fn, callbacks=[seen]
    )
    trainer.args.per_device_eval_batch_size = 8
    evaluated = trainer.evaluate()["eval_loss"]
    with torch.no_grad():
        expected = F.cross_entropy(model(x[:8])["logits"], labels[:8], weight).item()
    assert evaluated == pytest.approx(expected)
    trainer.train()
    gradient = torch.cat([parameter.grad.flatten() for parameter in wanted.parameters()])
    torch.testing.assert_close(seen.seen[0], gradient, rtol=0, atol=1e-12)


def table_of_texts():
    rows = texts(EXAMPLES)
    table = datasets.Dataset.from_list([{"text": f"row {row}", **item} for row, item in enumerate(rows)])
    kind = datasets.ClassLabel(names=["no", "maybe", "yes"])
    return table.cast_column("label", kind)


def picky_collator(items):
    """Knows two keys and breaks at any other, as many people's do."""
    assert all(set(item) == {"pixel_values", "label"} for item in items)
    return {
        "pixel_values": torch.stack([item["pixel_values"] for item in items]),
        "labels": torch.tensor([item["label"] for item in items]),
    }


def untouched(batch):
    """A transform that makes inputs of a column with another name, and gives nothing else."""
    return {"pixel_values": [torch.tensor(x) for x in batch["picture"]], "label": batch["label"]}


def table_with_transform():
    rows = [{"picture": item["pixel_values"].tolist(), "label": item["label"]} for item in images(EXAMPLES)]
    return datasets.Dataset.from_list(rows).with_transform(untouched)


KINDS = {
    "table of texts": lambda: (text_model(), table_of_texts(), None),
    "table with a transform": lambda: (image_model(), table_with_transform(), None),
    "list and a picky collator": lambda: (image_model(), images(EXAMPLES), picky_collator),
    "already indexed": lambda: (image_model(), Indexed(images(EXAMPLES)), default_data_collator),
}


@pytest.mark.parametrize("removed", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_any_training_set_gets_its_index_and_each_row_is_visited_once_an_epoch(tmp_path, kind, removed):
    model, data, collator = KINDS[kind]()
    if kind == "table of texts" and not removed:
        data = data.remove_columns("text")
    args = arguments(tmp_path, max_steps=3, remove_unused_columns=removed)
    trainer = ICETrainer(model, args, train_dataset=data, data_collator=collator)
    seen = []
    compute_loss = trainer.compute_loss
    trainer.compute_loss = lambda model, inputs, **other: (
        seen.append((inputs["index"], inputs["labels"])),
        compute_loss(model, inputs, **other),
    )[1]
    trainer.train()
    index, labels = (torch.cat(parts) for parts in zip(*seen, strict=True))
    assert sorted(index.tolist()) == list(range(EXAMPLES))
    given = torch.tensor([data[row]["label"] for row in range(EXAMPLES)])
    assert torch.equal(labels, given[index])
    assert (trainer.confidence() != 0.5).all()
    assert trainer.train_dataset is data


def test_evaluation_is_cross_entropy_and_moves_nothing(tmp_path):
    held_out = [{**item, "index": 0} for item in images(10, seed=1)]  # a column of the user's own
    args = arguments(tmp_path, eval_strategy="steps", eval_steps=1, per_device_eval_batch_size=5)
    trainer = ICETrainer(image_model(), args, train_dataset=images(EXAMPLES), eval_dataset=held_out)
    trainer.train()
    before = trainer.confidence()
    said = trainer.evaluate()["eval_loss"]
    with torch.no_grad():
        logits = trainer.model(torch.stack([item["pixel_values"] for item in held_out])).logits
    labels = torch.tensor([item["label"] for item in held_out])
    assert said == pytest.approx(F.cross_entropy(logits, labels).item(), abs=1e-6)
    assert torch.equal(trainer.confidence(), before)
    assert len([entry for entry in trainer.state.log_history if "eval_loss" in entry]) == 4


def test_evaluation_needs_no_training_set(tmp_path):
    trainer = ICETrainer(image_model(), arguments(tmp_path), eval_dataset=images(10))
    assert trainer.evaluate()["eval_loss"] > 0
    with pytest.raises(InputError, match="no confidences without a train_dataset"):
        trainer.confidence()


@pytest.mark.parametrize(
    "setting",
    [
        {"bf16": True},
        {"fp16": True},
        {"gradient_checkpointing": True},
        {"label_smoothing_factor": 0.1},
        {"dataloader_num_workers": 1},
        {"train_sampling_strategy": "group_by_length"},
        {"train_sampling_strategy": "batch_rebalance"},
        {"auto_find_batch_size": True},
        {"average_tokens_across_devices": False, "gradient_accumulation_steps": 2},
    ],
    ids=str,
)
def test_it_learns_with_any_setting_of_the_trainer(tmp_path, setting):
    args = arguments(tmp_path, num_train_epochs=2, max_steps=-1, **setting)
    trainer = ICETrainer(text_model(), args, train_dataset=table_of_texts())
    trainer.train()
    v = trainer.loss_fn.table.v
    assert v.dtype == torch.float32
    assert v.isfinite().all()
    assert (v != 0).all()


def test_a_compiled_model_learns_the_same(tmp_path):
    data, found = images(EXAMPLES), []
    for compiled in (False, True):
        args = arguments(
            tmp_path, torch_compile=compiled, torch_compile_backend="eager" if compiled else None
        )
        trainer = ICETrainer(Network(torch.float32), args, train_dataset=data)
        trainer.train()
        found.append(trainer.confidence())
    assert hasattr(trainer.model_wrapped, "_orig_mod")  # it was compiled
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-6)


def test_label_smoothing_is_that_of_the_loss(tmp_path):
    args = arguments(tmp_path, label_smoothing_factor=0.2)
    trainer = ICETrainer(image_model(), args, eval_dataset=images(10))
    with torch.no_grad():
        logits = trainer.model(torch.stack([item["pixel_values"] for item in images(10)])).logits
    labels = torch.tensor([item["label"] for item in images(10)])
    expected = F.cross_entropy(logits, labels, label_smoothing=0.2).item()
    args.per_device_eval_batch_size = 10
    assert trainer.evaluate()["eval_loss"] == pytest.approx(expected, abs=1e-6)


def test_a_new_model_starts_with_new_confidences(tmp_path):
    trainer = ICETrainer(
        model_init=lambda: image_model(seed=0), args=arguments(tmp_path), train_dataset=images(EXAMPLES)
    )
    trainer.train()
    first = trainer.confidence()
    trainer.train()
    assert torch.equal(trainer.confidence(), first)
    assert first.std() > 0


def trainer_with_checkpoints(folder, steps, **changes):
    args = arguments(
        folder, max_steps=steps, save_strategy="steps", save_steps=2, lr_scheduler_type="constant", **changes
    )
    return ICETrainer(text_model(), args, train_dataset=texts(EXAMPLES))


@pytest.mark.parametrize("resumed", [True, "checkpoint-2"])
def test_a_resumed_run_ends_with_the_same_confidences(tmp_path, resumed):
    straight = trainer_with_checkpoints(tmp_path / "straight", 6)
    straight.train()
    trainer_with_checkpoints(tmp_path / "parts", 4).train()
    again = trainer_with_checkpoints(tmp_path / "parts", 6)
    again.train(resume_from_checkpoint=resumed if resumed is True else str(tmp_path / "parts" / resumed))
    assert torch.equal(again.confidence(), straight.confidence())


def test_a_checkpoint_is_the_model_and_beside_it_the_confidences(tmp_path):
    trainer = trainer_with_checkpoints(tmp_path, 2)
    trainer.train()
    folder = tmp_path / "checkpoint-2"
    assert set(load_file(folder / "model.safetensors")) == set(text_model().state_dict())
    saved = load_file(folder / "confidence.safetensors")
    assert list(saved) == ["v"]
    assert torch.equal(saved["v"].sigmoid(), trainer.confidence())
    BertForSequenceClassification.from_pretrained(folder)
    trainer.save_model(tmp_path / "final")
    assert (tmp_path / "final" / "confidence.safetensors").exists()


def test_a_checkpoint_that_a_kill_cut_short_is_passed_over(tmp_path):
    trainer_with_checkpoints(tmp_path, 4).train()
    expected = trainer_with_checkpoints(tmp_path / "straight", 6)
    expected.train()
    state = tmp_path / "checkpoint-4" / "trainer_state.json"
    state.write_text(state.read_text()[:100])
    again = trainer_with_checkpoints(tmp_path, 6)
    with pytest.warns(UserWarning, match="checkpoint-4 was not written to its end"):
        again.train(resume_from_checkpoint=True)
    assert torch.equal(again.confidence(), expected.confidence())


def test_checkpoints_of_other_runs_are_refused(tmp_path):
    trainer_with_checkpoints(tmp_path, 2).train()
    checkpoint = str(tmp_path / "checkpoint-2")
    other = ICETrainer(text_model(), arguments(tmp_path), train_dataset=texts(5))
    with pytest.raises(FileError, match="holds 22 confidences, but the training set has 5 examples"):
        other.train(resume_from_checkpoint=checkpoint)
    (tmp_path / "checkpoint-2" / "confidence.safetensors").unlink()
    with pytest.raises(MissingFileError, match=r"has no confidence\.safetensors"):
        trainer_with_checkpoints(tmp_path, 4).train(resume_from_checkpoint=checkpoint)


def test_the_training_set_comes_back_with_what_was_learned(tmp_path):
    data = table_of_texts()
    # Of unequal length, and evaluation sorted by it: rows must come back in their own order all the same.
    data = data.map(lambda row, n: {name: row[name][: 2 + n % 5] for name in INPUTS}, with_indices=True)
    args = arguments(tmp_path, train_sampling_strategy="group_by_length", per_device_eval_batch_size=4)
    trainer = ICETrainer(
        text_model(), args, train_dataset=data, data_collator=padded, compute_metrics=metrics
    )
    trainer.train()
    result = trainer.dataset_with_confidence()
    assert result.column_names == [*data.column_names, "confidence", "guess", "p_label"]
    assert result["text"][:] == data["text"][:]
    assert result.features["guess"] == data.features["label"]
    torch.testing.assert_close(torch.tensor(result["confidence"][:]), trainer.confidence())
    trainer.model.eval()
    for row in result:
        with torch.no_grad():
            p = trainer.model(torch.tensor([row["input_ids"]])).logits.softmax(-1)[0]
        assert row["guess"] == p.argmax()
        assert row["p_label"] == pytest.approx(p[row["label"]].item(), abs=1e-5)
    assert trainer.compute_metrics is metrics


@pytest.mark.parametrize(
    "setting",
    [{"dataloader_drop_last": True}, {"eval_do_concat_batches": False}, {"batch_eval_metrics": True}],
    ids=str,
)
def test_all_rows_come_back_whatever_evaluation_leaves_out(tmp_path, setting):
    args = arguments(tmp_path, per_device_eval_batch_size=4, **setting)
    trainer = ICETrainer(
        text_model(), args, train_dataset=table_of_texts(),
        compute_metrics=lambda predictions, compute_result=None: {},
    )  # fmt: skip
    found = trainer.dataset_with_confidence()
    usual = ICETrainer(text_model(), arguments(tmp_path), train_dataset=table_of_texts())
    expected = usual.dataset_with_confidence()
    assert found["guess"][:] == expected["guess"][:]
    assert found["p_label"][:] == pytest.approx(expected["p_label"][:])
    assert trainer.args is args
    assert all(getattr(args, name) == value for name, value in setting.items())


INPUTS = ("input_ids", "attention_mask")


def metrics(predictions):
    return {"accuracy": (predictions.predictions.argmax(-1) == predictions.label_ids).mean()}


def padded(items):
    longest = max(len(item["input_ids"]) for item in items)
    rows = {name: [item[name] + [0] * (longest - len(item[name])) for item in items] for name in INPUTS}
    return {name: torch.tensor(values) for name, values in rows.items()} | {
        "labels": torch.tensor([item["label"] for item in items])
    }


def test_a_data_set_with_a_transform_comes_back_as_it_was_stored(tmp_path):
    trainer = ICETrainer(image_model(), arguments(tmp_path), train_dataset=table_with_transform())
    trainer.train()
    result = trainer.dataset_with_confidence()
    assert set(result[0]) == {"picture", "label", "confidence", "guess", "p_label"}


def test_columns_are_added_to_tables_only_and_to_none_that_has_them(tmp_path):
    trainer = ICETrainer(image_model(), arguments(tmp_path), train_dataset=images(EXAMPLES))
    with pytest.raises(
        InputError, match=r"train_dataset is a list; columns can be added to a datasets\.Dataset"
    ):
        trainer.dataset_with_confidence()
    data = table_of_texts().add_column("guess", [0] * EXAMPLES)
    trainer = ICETrainer(text_model(), arguments(tmp_path), train_dataset=data)
    with pytest.raises(InputError, match="already has a column 'guess'"):
        trainer.dataset_with_confidence()


class Stream(IterableDataset):
    def __iter__(self):
        yield from images(4)


class WithoutLogits(Network):
    def forward(self, pixel_values, labels=None):
        return {"hidden": self.layers(pixel_values)}


WRONG = {
    "ICETrainer computes the loss itself": {"compute_loss_func": lambda *_, **__: 0},
    "a stream has no stable index": {"train_dataset": Stream()},
    "train_dataset has 22 examples but loss_fn was made for 5": {"loss_fn": ICELoss(5)},
    "loss_fn needs ignore_index=-100": {"loss_fn": ICELoss(EXAMPLES, ignore_index=7)},
    "set it in one place": {"loss_fn": ICELoss(EXAMPLES, label_smoothing=0.5)},
}


@pytest.mark.parametrize("message", WRONG)
def test_what_cannot_be_is_refused_when_the_trainer_is_made(tmp_path, message):
    args = arguments(tmp_path, label_smoothing_factor=0.1 if "one place" in message else 0.0)
    settings = {"train_dataset": images(EXAMPLES), **WRONG[message]}
    with pytest.raises(InputError, match=message):
        ICETrainer(image_model(), args, **settings)


def test_what_is_wrong_with_batches_and_outputs_is_said(tmp_path):
    args = arguments(tmp_path)
    unlabelled = [{"pixel_values": item["pixel_values"]} for item in images(4)]
    with pytest.raises(InputError, match="needs a tensor 'labels' of classes; it holds pixel_values, index"):
        ICETrainer(image_model(), args, train_dataset=unlabelled).train()
    with pytest.raises(InputError, match="has no logits, only hidden"):
        ICETrainer(WithoutLogits(torch.float32), args, train_dataset=images(4)).train()
    taken = table_of_texts().add_column("index", list(range(EXAMPLES)))
    with pytest.raises(InputError, match="train_dataset has a column 'index'"):
        ICETrainer(text_model(), args, train_dataset=taken).train()


@pytest.mark.gpu
def test_half_precision_with_a_loss_scale_learns_nearly_the_same(tmp_path):
    """On a GPU fp16 scales the loss and skips updates, neither of which a confidence may feel."""
    found = []
    for half in (False, True):
        args = arguments(tmp_path, use_cpu=False, fp16=half, learning_rate=0.0, max_steps=6)
        trainer = ICETrainer(text_model(), args, train_dataset=texts(EXAMPLES))
        trainer.train()
        found.append(trainer.confidence())
    assert trainer.accelerator.scaler is not None
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-3)
