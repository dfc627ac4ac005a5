"""An Accelerate loop on handwritten digits of which a fifth have a wrong label.

torchrun --nproc-per-node 2 examples/plain/accelerate_digits.py
"""

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True)
set_seed(0)
X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X.astype("float32") / 16, y, stratify=y, random_state=0)
wrong = np.random.default_rng(0).random(len(y)) < 0.2
y[wrong] = (y[wrong] + np.random.default_rng(1).integers(1, 10, wrong.sum())) % 10

train_set = TensorDataset(torch.tensor(X), torch.tensor(y))
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loss_fn = nn.CrossEntropyLoss()
loader = DataLoader(train_set, batch_size=32, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for _ in range(30):
    for x, labels in loader:
        loss = loss_fn(model(x), labels)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()

guess = accelerator.unwrap_model(model)(torch.tensor(X_test)).argmax(-1)
accelerator.print(f"test accuracy {(guess.numpy() == y_test).mean():.3f}")
