"""A LightningModule on handwritten digits of which a fifth have a wrong label.

python examples/plain/lightning_digits.py
"""

import lightning.pytorch as pl
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Digits(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))

    def training_step(self, batch, _):
        x, labels = batch
        return F.cross_entropy(self.layers(x), labels)

    def validation_step(self, batch, _):
        x, labels = batch
        logits = self.layers(x)
        self.log("loss", F.cross_entropy(logits, labels))
        self.log("accuracy", (logits.argmax(-1) == labels).float().mean())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


pl.seed_everything(0)
X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X.astype("float32") / 16, y, stratify=y, random_state=0)
wrong = np.random.default_rng(0).random(len(y)) < 0.2
y[wrong] = (y[wrong] + np.random.default_rng(1).integers(1, 10, wrong.sum())) % 10

train_set = TensorDataset(torch.tensor(X), torch.tensor(y))
test_set = TensorDataset(torch.tensor(X_test), torch.tensor(y_test))
trainer = pl.Trainer(max_epochs=30, accelerator="cpu", logger=False, enable_progress_bar=False)
trainer.fit(Digits(), DataLoader(train_set, batch_size=64, shuffle=True))
(scores,) = trainer.validate(dataloaders=DataLoader(test_set, batch_size=len(test_set)), verbose=False)

print(f"test accuracy {scores['accuracy']:.3f}")
