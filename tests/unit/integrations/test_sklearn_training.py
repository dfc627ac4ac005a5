"""The run behind ICEClassifier, and what it says of the labels it was trained on."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import make_blobs

from icelens.auditing.inputs import Features, Plan
from icelens.errors import TrainingError
from icelens.integrations import quality, training
from icelens.integrations.quality import judge_labels
from icelens.integrations.training import train
from icelens.models import mlp

PLAN = Plan(4, 32, 2e-3, 1e-2)


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(120, centers=3, random_state=0)
    given = y.copy()
    given[:12] = (given[:12] + 1) % 3
    values = torch.from_numpy(((X - X.mean(0)) / X.std(0)).astype(np.float32))
    return Features(values, hidden=16), torch.from_numpy(given.astype(np.int64))


@pytest.mark.parametrize(("rate", "knows"), [(3e-2, True), (1e-6, False)])
def test_confidences_start_from_the_share_that_is_agreed_with(blobs, monkeypatch, rate, knows):
    seen, agreed = [], []

    class Watched(training.ICELoss):
        def forward(self, logits, labels, index):
            seen.append(self.confidence().clone())
            agreed.extend((logits.argmax(1) == labels).tolist())
            return super().forward(logits, labels, index)

    monkeypatch.setattr(training, "ICELoss", Watched)
    train(*blobs, 3, Plan(10, 32, rate), seed=0)
    assert all((confidence == 0.5).all() for confidence in seen[:6])  # 0.15 of 40 steps
    share = (sum(agreed[64:184]) + 1) / 122  # the rows of the last four of these
    assert (share > 0.5) == knows
    assert seen[6].numpy() == pytest.approx(np.full(120, max(share, 0.5)))
    assert len(set(seen[7].tolist())) > 1


def test_with_cross_entropy_it_is_the_plain_loop(blobs):
    inputs, labels = blobs
    found = train(inputs, labels, 3, PLAN, seed=0, ice=False)
    torch.manual_seed(0)
    network = mlp((2,), 3, hidden=(16,), dropout=0.2)
    adam = torch.optim.AdamW(network.parameters(), 2e-3, weight_decay=1e-2)
    done = 0
    for epoch in range(4):
        order = torch.randperm(120, generator=torch.Generator().manual_seed(epoch))
        for index in order.split(32):
            adam.param_groups[0]["lr"] = 1e-3 * (1 + np.cos(np.pi * done / 16))
            adam.zero_grad()
            F.cross_entropy(network(inputs.values[index]), labels[index]).backward()
            adam.step()
            done += 1
    assert np.allclose(found.layers[-1][0].T, network.head.weight.detach(), atol=1e-5)
    assert (found.confidence == 1).all()


def test_a_loss_that_is_not_finite_is_told(blobs):
    with pytest.raises(TrainingError, match=r"the loss is .* in epoch \d; lower learning_rate"):
        train(*blobs, 3, Plan(5, 32, 1e30), seed=0)


def test_labels_that_a_sure_network_contradicts_are_issues():
    labels = np.arange(300) % 3
    log_p = np.full((300, 3), np.log(0.01))
    log_p[np.arange(300), labels] = np.log(0.98)
    given = labels.copy()
    given[:20] = (given[:20] + 1) % 3
    found = judge_labels(log_p, given)
    assert found.issues[:20].all()
    assert not found.issues[20:].any()
    assert (found.guess == labels).all()
    assert (found.label == given).all()


def test_the_noise_of_many_rows_is_read_from_some(monkeypatch):
    generator = np.random.default_rng(0)
    labels = generator.integers(3, size=3000)
    log_p = np.log(generator.dirichlet([1, 1, 1], 3000) * 0.1 + 0.9 * np.eye(3)[labels] + 1e-6)
    given = np.where(generator.random(3000) < 0.1, (labels + 1) % 3, labels)
    whole = judge_labels(log_p, given).trust
    monkeypatch.setattr(quality, "ROWS", 500)
    some = judge_labels(log_p, given).trust
    assert not np.array_equal(whole, some)
    assert abs(whole - some).mean() < 0.02
