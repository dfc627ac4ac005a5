"""Lightning: a loss that is its own callback, so that its confidences are saved, resumed and kept equal."""

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor
from torch.utils.data import DistributedSampler

from icelens.errors import MissingFileError
from icelens.losses import ICELoss


class ICECallback(Callback):
    """`ICELoss` for a `LightningModule`: call it in `training_step`, and hand it to the `Trainer`.

    ```
    ice = ICECallback(len(train_set))
    trainer = Trainer(callbacks=[ice])
    trainer.fit(Module(ice), DataLoader(Indexed(train_set)))
    ice.confidence()
    ```

    The confidences are no part of the module: they are saved in the callback's part of a checkpoint, the
    module's `state_dict` and `load_from_checkpoint` stay as they are, and no precision casts them. In
    validation, call it without `index`: then it is cross entropy. A row that Lightning's distributed
    sampler repeats to give all ranks equally many counts for nothing.

    In a module that calls `save_hyperparameters()`, write `save_hyperparameters(ignore="ice")`.

    Args:
        examples: the number of training examples.
        **settings: those of `ICELoss`.
    """

    def __init__(self, examples: int, **settings: Any) -> None:
        self.loss_fn = ICELoss(examples, **settings)
        self._batches = 0  # of this epoch, so far
        self._repeats: Repeats | None = None  # in the batch at hand

    def __call__(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        """The loss of a batch; without `index`, for data that is not the training set, cross entropy."""
        if index is None or self._repeats is None:
            loss: Tensor = self.loss_fn(logits, labels, index)
            return loss
        return self._repeats.left_out(self.loss_fn, logits, labels, index)

    def confidence(self) -> Tensor:
        """The confidence C of every training example, (examples,); low = suspicious."""
        return self.loss_fn.confidence().cpu()

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Count the batches of an epoch."""
        self._batches = 0

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, *args: Any) -> None:
        """See whether the sampler repeats rows in this batch: those that fill up the last one."""
        self._batches += 1
        loader: Any = trainer.train_dataloader
        # An epoch that was resumed in its midst ends before the loader does, one that is limited too.
        at_end = hasattr(loader, "batch_sampler") and self._batches == len(loader)
        self._repeats = Repeats.in_last_batch(loader) if at_end else None

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *args: Any) -> None:
        """What was found of this batch says nothing of the next."""
        self._repeats = None

    def state_dict(self) -> dict[str, Any]:
        """The confidence logits, for the checkpoint."""
        return {name: tensor.detach().cpu().clone() for name, tensor in self.loss_fn.state_dict().items()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Put the confidence logits back as they were saved."""
        self.loss_fn.load_state_dict(state_dict)

    def on_load_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Refuse to go on with training from a checkpoint that has a model but no confidences."""
        if trainer.training and self.state_key not in checkpoint.get("callbacks", {}):
            raise MissingFileError(
                "the checkpoint holds no confidences: it was saved without ICECallback. To start from its "
                "model alone, load that with load_from_checkpoint and fit without ckpt_path"
            )


class Repeats:
    """Rows that a distributed sampler repeats, at most one a rank: the last row of the epoch.

    Args:
        ranks: how many there are.
        repeated: how many ranks end with a repeated row: the last ones, since rows are dealt out in turn.
        mine: whether this rank is one of them.
    """

    def __init__(self, ranks: int, repeated: int, mine: bool) -> None:
        self.ranks, self.repeated, self.mine = ranks, repeated, mine

    @classmethod
    def in_last_batch(cls, loader: Any) -> Repeats | None:
        """What the sampler of a loader repeats; None where nothing is."""
        sampler = getattr(loader.batch_sampler, "sampler", None)
        if not isinstance(sampler, DistributedSampler) or sampler.drop_last:
            return None
        repeated = sampler.total_size - len(sampler.dataset)  # type: ignore[arg-type]
        if not repeated or (loader.drop_last and len(sampler) % loader.batch_size):
            return None
        ranks = sampler.num_replicas
        return cls(ranks, repeated, mine=sampler.rank >= ranks - repeated)

    def left_out(self, loss_fn: ICELoss, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """The loss without the repeated row, so that the mean over ranks is the mean over examples."""
        rows = len(labels)
        if self.mine:
            labels = labels.clone()
            labels[-1] = loss_fn.ignore_index
        # Each rank has to take part, even with no row of its own: it learns here what the others saw.
        loss: Tensor = loss_fn(logits, labels, index)
        if loss_fn.reduction != "mean":
            return loss
        kept = rows - self.mine
        if not kept:
            return logits.sum() * 0.0
        return loss * (kept * self.ranks / (rows * self.ranks - self.repeated))
