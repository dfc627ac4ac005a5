"""Hugging Face transformers: a Trainer that learns how far to trust each label of its training set."""

from __future__ import annotations

import sys
from copy import copy
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import Trainer, TrainingArguments

from icelens.data import Indexed
from icelens.errors import InputError
from icelens.integrations.batches import IGNORED, IndexedCollator, guess_and_p_label, labels_of, logits_of
from icelens.integrations.checkpoints import last_whole_checkpoint, load_confidences, save_confidences
from icelens.losses import ICELoss


class ICETrainer(Trainer):
    """A `Trainer` for single-label classification whose loss is `ICELoss`.

    For texts, images or anything else, as long as the model's output has `.logits` of (batch, classes).
    Row i of `confidence()` belongs to `train_dataset[i]`. The index of an example is added to its batch
    and taken out again before the model sees it, so neither the model, the data collator nor the columns
    change. Evaluation is plain cross entropy. Each checkpoint folder gets a `confidence.safetensors` of
    its own; the model's files hold nothing but the model.

    The loss of an update is the mean over all its examples, weighted where `loss_fn` has class weights,
    whatever the accumulation steps and ranks.
    Rows that Accelerate repeats to give all ranks equal batches count for nothing.

    Args:
        *args: those of `transformers.Trainer`.
        loss_fn: an `ICELoss(len(train_dataset), ...)` with settings of your own; its reduction is not used.
        **kwargs: those of `transformers.Trainer`.
    """

    # Since transformers 5.2x, the word for a loss that is already the mean over the accumulated batches.
    loss_is_scaled_for_ga = True

    def __init__(self, *args: Any, loss_fn: ICELoss | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.compute_loss_func is not None:
            raise InputError("ICETrainer computes the loss itself; leave compute_loss_func out")
        self.loss_fn = self._default_loss() if loss_fn is None else self._checked(loss_fn)
        self.loss_fn.reduction = "sum"
        if self.loss_fn.table.capacity is None:
            self.loss_fn.table.capacity = self._largest_batch()
        self._in_order = False
        self._first_v = None if self.model_init is None else self.loss_fn.table.v.clone()
        # In all versions, the Trainer takes a loss of this kind as scaled and leaves it as it is.
        self.compute_loss_func = self.loss_fn

    def _default_loss(self) -> ICELoss:
        # Without a training set there is evaluation only, for which the table is not read.
        examples = 1 if self.train_dataset is None else len(Indexed(self.train_dataset))
        return ICELoss(examples, label_smoothing=self.args.label_smoothing_factor)

    def _checked(self, loss_fn: ICELoss) -> ICELoss:
        self._check_length(loss_fn)
        if loss_fn.ignore_index != IGNORED:
            raise InputError(f"the Trainer ignores label {IGNORED}, so loss_fn needs ignore_index={IGNORED}")
        if self.args.label_smoothing_factor not in (0, loss_fn.label_smoothing):
            raise InputError(
                f"label_smoothing_factor is {self.args.label_smoothing_factor} but loss_fn has "
                f"label_smoothing={loss_fn.label_smoothing}; set it in one place"
            )
        return loss_fn

    def _check_length(self, loss_fn: ICELoss) -> None:
        rows = self.train_dataset
        if rows is not None and len(Indexed(rows)) != loss_fn.table.examples:
            raise InputError(
                f"train_dataset has {len(Indexed(rows))} examples but loss_fn was made for "
                f"{loss_fn.table.examples}; pass loss_fn=ICELoss(len(train_dataset))"
            )

    def _largest_batch(self) -> int:
        if getattr(self.args, "train_sampling_strategy", None) != "batch_rebalance":
            return int(self.args.train_batch_size)
        every = self.args.gradient_accumulation_steps * self.accelerator.num_processes
        return int(self.args.train_batch_size * every)

    def get_train_dataloader(self) -> Any:
        """The Trainer's own, over items that tell which row of the training set they are."""
        rows: Any = self.train_dataset
        if rows is None:
            return super().get_train_dataloader()  # which says that there is none
        self._check_length(self.loss_fn)
        self.train_dataset = self._indexed(rows)
        try:
            return super().get_train_dataloader()
        finally:
            self.train_dataset = rows

    def _indexed(self, rows: Any) -> Indexed:
        if isinstance(rows, Indexed):
            return rows
        if _is_table(rows):
            if "index" in rows.column_names:
                raise InputError("train_dataset has a column 'index', a name ICETrainer needs; rename it")
            # Spares reading columns that the collator would drop; a transform may need them.
            if rows.format["type"] != "custom":
                rows = self._remove_unused_columns(rows, description="training")
        return Indexed(rows)

    def _get_collator_with_removed_columns(self, *args: Any, **kwargs: Any) -> Any:
        return IndexedCollator(super()._get_collator_with_removed_columns(*args, **kwargs))

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: torch.device) -> Any:
        """The batches of one update, repeated rows taken out, and what their mean loss is divided by."""
        batches = [self._without_repeats(batch) for batch in islice(epoch_iterator, num_batches)]
        if not batches:
            return batches, None
        items = torch.stack([self._items(labels_of(batch).to(device)) for batch in batches]).sum()
        if self.args.average_tokens_across_devices and self.accelerator.num_processes > 1:
            items = self.accelerator.gather(items).sum()
        return batches, items

    def _items(self, labels: Tensor) -> Tensor:
        """How many rows count; with class weights the sum of these, as in `nn.CrossEntropyLoss`."""
        kept, weight = labels.ne(IGNORED), self.loss_fn.weight
        if weight is None:
            return kept.sum()
        # A label that is no class is told by the loss.
        return (kept * weight.to(labels.device)[labels.long().clamp(0, len(weight) - 1)]).sum()

    def _without_repeats(self, batch: dict[str, Any]) -> dict[str, Any]:
        """The batch with labels of −100 where Accelerate filled the last one up with rows from the start.

        What it adds comes last: of the last batch of all ranks together, in the order of the ranks, the
        first (examples modulo batch) rows are real. `gather_for_metrics` relies on the same.
        """
        accelerator, labels = self.accelerator, labels_of(batch)
        ranks = accelerator.num_processes
        if ranks == 1 or not accelerator.even_batches or not accelerator.gradient_state.end_of_dataloader:
            return batch
        if self.args.dataloader_drop_last or self._largest_batch() != self.args.train_batch_size:
            return batch
        together = self._train_batch_size * (1 if accelerator.split_batches else ranks)
        real = self.loss_fn.table.examples % together or together
        position = torch.arange(len(labels), device=labels.device) + accelerator.process_index * len(labels)
        batch["labels"] = labels.masked_fill(position >= real, IGNORED)
        return batch

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """ICELoss of a training batch, cross entropy of any other."""
        inputs = dict(inputs)
        labels, index = labels_of(inputs), inputs.pop("index", None)
        del inputs["labels"]
        outputs = model(**inputs)
        items, ranks = self._items(labels), 1
        if not torch.is_grad_enabled():  # an index of other data would be some training row's
            index = None
        elif num_items_in_batch is not None:
            items = num_items_in_batch
            # DDP takes the mean over ranks of what is here a share of one mean.
            ranks = self.accelerator.num_processes if self.args.average_tokens_across_devices else 1
        # A rank may have nothing but repeated rows.
        loss = self.loss_fn(logits_of(outputs), labels, index) * ranks / items.masked_fill(items == 0, 1)
        return (loss, outputs) if return_outputs else loss

    def train(self, resume_from_checkpoint: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Train as `Trainer` does; with a checkpoint, from the confidences that it holds.

        With `resume_from_checkpoint=True` a last checkpoint that a killed run left unfinished is passed over.
        """
        if self._first_v is not None:  # model_init: another model, another run
            self.loss_fn.table.v.copy_(self._first_v)
        if resume_from_checkpoint is True:
            resume_from_checkpoint = last_whole_checkpoint(self._folder()) or True
        if resume_from_checkpoint not in (None, False, True):
            load_confidences(Path(resume_from_checkpoint), self.loss_fn)
        return super().train(resume_from_checkpoint, *args, **kwargs)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the model as `Trainer` does, and the confidences beside it."""
        if self.args.should_save and self.train_dataset is not None:
            # First: a folder that has the model's files has this one too.
            save_confidences(self._folder(output_dir), self.loss_fn)
        super().save_model(output_dir, _internal_call)

    def _folder(self, output_dir: str | None = None) -> Path:
        return Path(output_dir or self.args.output_dir or ".")

    def confidence(self) -> Tensor:
        """The confidence C of every row of `train_dataset`, (examples,); low = suspicious."""
        if self.train_dataset is None:
            raise InputError("there are no confidences without a train_dataset")
        return self.loss_fn.confidence().cpu()

    def dataset_with_confidence(self) -> Any:
        """The training set (a `datasets.Dataset`) with what was learned of each row, in three more columns.

        `confidence`; `guess`, the class that the model says now; `p_label`, the probability it gives
        the label in the data. Runs the model once over the training set. A transform of the data set is
        not in the result: it has the columns as they were stored.
        """
        rows: Any = self.train_dataset
        if not _is_table(rows):
            raise InputError(
                f"train_dataset is a {type(rows).__name__}; columns can be added to a datasets.Dataset only"
            )
        added = ("confidence", "guess", "p_label")
        taken = [name for name in added if name in rows.column_names]
        if taken:
            raise InputError(f"train_dataset already has a column '{taken[0]}'; rename it")
        guess, p_label = self._guesses(rows)
        result = rows.with_format(None)
        for name, values in zip(added, (self.confidence(), guess, p_label), strict=True):
            result = result.add_column(name, values.numpy())
        kind = next((result.features[name] for name in ("label", "labels") if name in result.features), None)
        return result.cast_column("guess", kind) if hasattr(kind, "names") else result

    def _guesses(self, rows: Any) -> tuple[Tensor, Tensor]:
        """The class that the model says and the probability of the given label, of all rows."""
        kept = self.preprocess_logits_for_metrics, self.compute_metrics, self.args
        # Reduced batch by batch, since all logits of a large set with many classes would not fit.
        self.preprocess_logits_for_metrics, self.compute_metrics = guess_and_p_label, None
        self.args, self._in_order = _for_all_rows(self.args), True
        try:
            loader = self.get_test_dataloader(self._indexed(rows))
            said = self.evaluation_loop(loader, description="Training set", prediction_loss_only=False)
        finally:
            self.preprocess_logits_for_metrics, self.compute_metrics, self.args = kept
            self._in_order = False
        found = torch.as_tensor(said.predictions)
        return found[:, 0].long(), found[:, 1]

    def _get_eval_sampler(self, *args: Any, **kwargs: Any) -> Any:
        # Grouped by length, rows would come back in another order than they stand in.
        return None if self._in_order else super()._get_eval_sampler(*args, **kwargs)


def _for_all_rows(args: TrainingArguments) -> TrainingArguments:
    """The same settings, but for those by which rows are left out, or left in their batches."""
    args = copy(args)
    args.dataloader_drop_last, args.eval_do_concat_batches, args.batch_eval_metrics = False, True, False
    return args


def _is_table(rows: Any) -> bool:
    # Who has one has imported the library; nobody else has to have it.
    datasets = sys.modules.get("datasets")
    return datasets is not None and isinstance(rows, datasets.Dataset)
