"""ICELoss in an Accelerate loop, on handwritten digits of which a fifth have a wrong label.

torchrun --nproc-per-node 2 examples/accelerate_digits.py
"""

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from sklearn.datasets import load_digits
from sklearn.metrics import average_precision_score
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from icelens import ICELoss, Indexed

accelerator = Accelerator(cpu=True)
set_seed(0)
X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X.astype("float32") / 16, y, stratify=y, random_state=0)
wrong = np.random.default_rng(0).random(len(y)) < 0.2
y[wrong] = (y[wrong] + np.random.default_rng(1).integers(1, 10, wrong.sum())) % 10

train_set = Indexed(TensorDataset(torch.tensor(X), torch.tensor(y)))
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loss_fn = ICELoss(len(train_set))
loader = DataLoader(train_set, batch_size=32, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for _ in range(30):
    for x, labels, index in loader:
        loss = loss_fn(model(x), labels, index)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()

guess = accelerator.unwrap_model(model)(torch.tensor(X_test)).argmax(-1)
accelerator.print(f"test accuracy {(guess.numpy() == y_test).mean():.3f}")
confidence = loss_fn.confidence()  # the same on every rank
precision = average_precision_score(wrong, -confidence)
accelerator.print(f"average precision of the wrong labels: {precision:.3f} (by chance {wrong.mean():.3f})")
suspects = confidence.argsort()[: wrong.sum()]
accelerator.print(f"of the {wrong.sum()} least trusted, {wrong[suspects].mean():.0%} are wrong")
