"""The blocks against the same arithmetic written out with functions."""

import pytest
import torch
import torch.nn.functional as F

from icelens.models import network
from icelens.models.residual import PreActivationBlock, RawInputBlock

PLACES = pytest.mark.parametrize(("inputs", "filters", "stride"), [(4, 4, 1), (4, 6, 2)])


def settled(block):
    """The block in eval mode with weights and statistics that no formula could pass by chance."""
    generator = torch.Generator().manual_seed(0)
    for value in block.state_dict().values():
        if value.is_floating_point():
            value.copy_(torch.rand(value.shape, generator=generator) - 0.3)
    for module in block.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_var.abs_()
    return block.double().eval()


def norm_relu(x, norm):
    mean, var = norm.running_mean[:, None, None], norm.running_var[:, None, None]
    scale, shift = norm.weight[:, None, None], norm.bias[:, None, None]
    return ((x - mean) / (var + norm.eps).sqrt() * scale + shift).clamp(min=0)


def branch(x, block, stride):
    first, norm, _, second = block.branch
    return F.conv2d(norm_relu(F.conv2d(x, first.weight, None, stride, 1), norm), second.weight, None, 1, 1)


@PLACES
def test_raw_input_block(inputs, filters, stride):
    block, x = settled(RawInputBlock(inputs, filters, stride)), torch.randn(2, inputs, 8, 8).double()
    expected = branch(x, block, stride)
    if stride == 1:
        expected = expected + x
    else:
        expected = expected + F.conv2d(
            norm_relu(x, block.activation[0]), block.projection.weight, None, stride
        )
    torch.testing.assert_close(block(x), expected)


@PLACES
def test_pre_activation_block(inputs, filters, stride):
    block, x = settled(PreActivationBlock(inputs, filters, stride)), torch.randn(2, inputs, 8, 8).double()
    active = norm_relu(x, block.activation[0])
    shortcut = x if stride == 1 else F.conv2d(active, block.projection.weight, None, stride)
    torch.testing.assert_close(block(x), branch(active, block, stride) + shortcut)


@pytest.mark.parametrize("name", ["resnet18", "resnet18_paper"])
def test_stages_narrow_the_image(name):
    sizes, x = [], torch.rand(1, 3, 32, 32)
    for layer in network(name, (3, 32, 32), 10).eval().features[:9]:
        x = layer(x)
        sizes.append((x.shape[1], x.shape[2]))
    assert sizes == [(64, 32)] * 3 + [(128, 16)] * 2 + [(256, 8)] * 2 + [(512, 4)] * 2


def test_the_paper_form_ends_in_a_bare_average_pool():
    ends = [type(layer).__name__ for layer in network("resnet18_paper", (3, 32, 32), 10).features[9:]]
    assert ends == ["AvgPool2d", "Flatten"]
    ends = [type(layer).__name__ for layer in network("resnet18", (3, 32, 32), 10).features[9:]]
    assert ends == ["BatchNorm2d", "ReLU", "AdaptiveAvgPool2d", "Flatten"]
