"""A float64 network as a LightningModule, data for it, and the settings all tests share."""

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from icelens.data import Indexed

CLASSES = 3


def rows(count, seed=0, dtype=torch.float64):
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 4, generator=draw, dtype=dtype)
    return TensorDataset(x, torch.randint(CLASSES, (count,), generator=draw))


def loader(count, size, **settings):
    return DataLoader(Indexed(rows(count, **settings)), batch_size=size)


class Module(pl.LightningModule):
    def __init__(self, ice, dtype=torch.float64):
        super().__init__()
        torch.manual_seed(0)
        self.ice = ice
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, CLASSES)).to(dtype)
        self.gradients = []

    def training_step(self, batch, _):
        x, labels, index = batch
        return self.ice(self.layers(x), labels, index)

    def validation_step(self, batch, _):
        x, labels = batch
        self.log("val_loss", self.ice(self.layers(x), labels))

    def on_before_optimizer_step(self, _):
        self.gradients.append(torch.cat([weight.grad.flatten() for weight in self.parameters()]).clone())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


def trainer(folder, ice, **changes):
    settings = {
        "default_root_dir": folder,
        "accelerator": "cpu",
        "devices": 1,
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    callbacks = [ice, *changes.pop("callbacks", [])]
    return pl.Trainer(callbacks=callbacks, **{**settings, **changes})
