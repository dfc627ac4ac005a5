"""A LightningModule on handwritten digits of which a fifth have a wrong label.

python examples/lightning_digits.py
"""

import lightning.pytorch as pl
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import average_precision_score
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from icelens import Indexed
from icelens.integrations.lightning import ICECallback


class Digits(pl.LightningModule):
    def __init__(self, ice):
        super().__init__()
        self.ice = ice
        self.layers = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))

    def training_step(self, batch, _):
        x, labels, index = batch
        return self.ice(self.layers(x), labels, index)

    def validation_step(self, batch, _):
        x, labels = batch
        logits = self.layers(x)
        self.log("loss", self.ice(logits, labels))  # without an index: cross entropy
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
ice = ICECallback(len(train_set))
trainer = pl.Trainer(
    max_epochs=30, accelerator="cpu", callbacks=[ice], logger=False, enable_progress_bar=False
)
trainer.fit(Digits(ice), DataLoader(Indexed(train_set), batch_size=64, shuffle=True))
(scores,) = trainer.validate(dataloaders=DataLoader(test_set, batch_size=len(test_set)), verbose=False)

print(f"test accuracy {scores['accuracy']:.3f}")
precision = average_precision_score(wrong, -ice.confidence())
print(f"average precision of the wrong labels: {precision:.3f} (by chance {wrong.mean():.3f})")
suspects = ice.confidence().argsort()[: wrong.sum()]
print(f"of the {wrong.sum()} least trusted, {wrong[suspects].mean():.0%} are wrong")
