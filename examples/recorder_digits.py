"""A plain PyTorch loop on handwritten digits of which a fifth have a wrong label, with a flight recorder.

python examples/recorder_digits.py && icelens dynamics flight
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import average_precision_score
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from icelens import FlightRecorder, Indexed, read_dynamics

torch.manual_seed(0)
X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X.astype("float32") / 16, y, stratify=y, random_state=0)
wrong = np.random.default_rng(0).random(len(y)) < 0.2
y[wrong] = (y[wrong] + np.random.default_rng(1).integers(1, 10, wrong.sum())) % 10

train_set = TensorDataset(torch.tensor(X), torch.tensor(y))
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
with FlightRecorder("flight", len(train_set), resume_at=0) as recorder:
    for _ in range(20):
        for x, labels, index in DataLoader(Indexed(train_set), batch_size=64, shuffle=True):
            logits = model(x)
            loss = F.cross_entropy(logits, labels)
            recorder.log(logits, labels, index)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

accuracy = (model(torch.tensor(X_test)).argmax(-1).numpy() == y_test).mean()
print(f"test accuracy {accuracy:.3f}")
examples = read_dynamics("flight").examples
precision = average_precision_score(wrong, -examples["aum"])
print(f"average precision of the wrong labels by AUM: {precision:.3f} (by chance {wrong.mean():.3f})")
lowest = examples.nsmallest(wrong.sum(), "aum")["index"]
print(f"of the {wrong.sum()} with the lowest AUM, {wrong[lowest].mean():.0%} are wrong")
