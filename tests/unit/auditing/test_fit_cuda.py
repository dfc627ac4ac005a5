"""The training run of an audit on CUDA: recorded steps do what the same steps do one operation at a time."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from icelens.auditing.fit import fit
from icelens.auditing.inputs import Features, Pictures, Plan

pytestmark = pytest.mark.gpu


@dataclass(frozen=True, eq=False)
class PlainFeatures(Features):
    recordable = False


@dataclass(frozen=True, eq=False)
class PlainPictures(Pictures):
    recordable = False


def features(kind):
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (500,), generator=generator)
    values = torch.randn(500, 8, generator=generator) + 2 * torch.eye(8)[labels]
    return kind(values.cuda(), dropout=0.0), labels.cuda()


def pictures(kind):
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (500,), generator=generator)
    pixels = torch.randint(0, 120, (500, 3, 8, 8), generator=generator, dtype=torch.uint8)
    pixels[torch.arange(500), labels] += 100
    return kind(pixels.cuda(), torch.tensor(0.4).cuda(), torch.tensor(0.2).cuda()), labels.cuda()


@pytest.mark.parametrize("loss", ["channel", "cross_entropy"])
@pytest.mark.parametrize(
    ("make", "kinds"), [(features, (Features, PlainFeatures)), (pictures, (Pictures, PlainPictures))]
)
def test_a_recorded_run_is_the_plain_one(make, kinds, loss, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    monkeypatch.setattr(torch.nn.Dropout, "forward", lambda self, x: x)  # draws differ inside a graph
    runs = []
    for kind in kinds:
        inputs, labels = make(kind)
        runs.append(fit(inputs, labels, 3, plan=Plan(6, 64, 1e-3), loss=loss, keep=True))
    recorded, plain = runs
    np.testing.assert_allclose(recorded.log_p, plain.log_p, atol=0.05)
    if loss == "channel":
        np.testing.assert_allclose(recorded.confidence, plain.confidence, atol=0.02)
    assert recorded.weights.keys() == plain.weights.keys()


def test_the_large_network_learns_in_recorded_steps():
    inputs, labels = pictures(Pictures)
    large = Pictures(inputs.pixels, inputs.mean, inputs.std, large=True)
    found = fit(large, labels, 3, plan=Plan(8, 64, 1e-3, 5e-2))
    assert (found.log_p.argmax(1) == labels.cpu().numpy()).mean() > 0.95
    assert len(np.unique(found.confidence)) > 100
