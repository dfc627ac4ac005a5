"""Laws over all models, then what is particular to each."""

import inspect

import pytest
import torch
from torch import nn

from icelens.errors import InputError
from icelens.models import MODELS, network

IMAGES = ["cnn", "resnet18", "resnet18_paper"]
# Images as small as a model takes keep the tests quick.
SHAPES = {"mlp": (1, 5, 3), "cnn": (2, 12, 11), "resnet18": (3, 8, 8), "resnet18_paper": (3, 25, 25)}


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.fixture(params=sorted(MODELS))
def name(request):
    return request.param


def test_every_model_has_a_shape_to_be_tested_with():
    assert set(SHAPES) == set(MODELS)


def test_maps_a_batch_to_logits(name):
    model = network(name, SHAPES[name], 7)
    assert model(torch.rand(3, *SHAPES[name])).shape == (3, 7)
    assert isinstance(model.head, nn.Linear)
    assert model.head.out_features == 7


def test_gradient_reaches_every_parameter(name):
    model = network(name, SHAPES[name], 4)
    model(torch.randn(8, *SHAPES[name])).pow(2).sum().backward()
    still = [key for key, value in model.named_parameters() if value.grad is None or not value.grad.any()]
    assert still == []


def test_the_seed_decides_the_weights(name):
    def weights(seed):
        torch.manual_seed(seed)
        return nn.utils.parameters_to_vector(network(name, SHAPES[name], 4).parameters())

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


def test_bf16_autocast_trains(name):
    model = network(name, SHAPES[name], 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(torch.rand(4, *SHAPES[name]))
    assert logits.dtype == torch.bfloat16
    logits.float().logsumexp(-1).sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("name", IMAGES)
def test_channels_last_gives_the_same_logits(name):
    model, x = network(name, SHAPES[name], 4).eval(), torch.rand(2, *SHAPES[name])
    plain = model(x)
    model.to(memory_format=torch.channels_last)
    torch.testing.assert_close(
        model(x.contiguous(memory_format=torch.channels_last)), plain, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_compiles_as_one_graph(name):
    model, x = network(name, SHAPES[name], 4).eval(), torch.rand(2, *SHAPES[name])
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), model(x))


@pytest.mark.parametrize("name", IMAGES)
def test_logit_norm_standardises_each_logit_without_parameters(name):
    plain, normed = (network(name, SHAPES[name], 4, logit_norm=norm) for norm in (False, True))
    assert parameters(plain) == parameters(normed)
    assert isinstance(normed.head, nn.Linear)
    # Enough spread between the images that BatchNorm's epsilon does not show.
    x = torch.randn(16, *SHAPES[name]) * torch.linspace(1, 100, 16)[:, None, None, None]
    logits = normed(x)
    torch.testing.assert_close(logits.mean(0), torch.zeros(4), rtol=0, atol=1e-4)
    torch.testing.assert_close(logits.var(0, unbiased=False), torch.ones(4), rtol=0, atol=0.02)


@pytest.mark.parametrize("name", ["resnet18", "resnet18_paper"])
def test_feature_norm_standardises_what_enters_the_last_layer_without_parameters(name):
    plain, normed = (network(name, SHAPES[name], 4, feature_norm=norm) for norm in (False, True))
    assert parameters(plain) == parameters(normed)
    x = 1000 * torch.randn(16, *SHAPES[name]) * torch.linspace(1, 100, 16)[:, None, None, None]
    features = normed.features(x)
    torch.testing.assert_close(features.mean(0), torch.zeros(features.shape[1]), rtol=0, atol=1e-3)
    moving = features.var(0, unbiased=False)
    torch.testing.assert_close(moving, torch.ones_like(moving), rtol=0, atol=0.02)
    torch.testing.assert_close(normed(x), normed.head(features))


def test_mlp_parameters_by_hand():
    assert parameters(network("mlp", (64,), 10)) == (64 + 1) * 256 + (256 + 1) * 256 + (256 + 1) * 10
    assert parameters(network("mlp", (8, 8), 10, hidden=[])) == 65 * 10


def test_cnn_parameters_by_hand():
    convolutions = (9 * 1 + 1) * 32 + (9 * 32 + 1) * 32 + (9 * 32 + 1) * 64 + (9 * 64 + 1) * 64
    linear = (64 * 10 * 10 + 1) * 128 + (128 + 1) * 10
    assert parameters(network("cnn", (1, 28, 28), 10)) == convolutions + linear == 885_610


def test_cnn_drops_before_the_last_relu():
    assert [type(layer).__name__ for layer in network("cnn", (1, 28, 28), 10).features[-3:]] == [
        "Linear",
        "Dropout",
        "ReLU",
    ]


def test_resnet18_parameters_by_hand():
    stem, head = 9 * 3 * 64, (512 + 1) * 10
    halving = [(64, 128), (128, 256), (256, 512)]
    convolutions = 4 * 9 * 64**2 + sum(9 * a * b + 3 * 9 * b**2 + a * b for a, b in halving)
    # A BatchNorm has two parameters a channel. Within the branches there are two of each width ...
    inner = 2 * 2 * (64 + 128 + 256 + 512)
    # ... and at the input of each block one: all of the textbook's, the projecting of the paper's.
    projecting, identity = 2 * (64 + 128 + 256), 2 * (64 + 64 + 128 + 256 + 512)
    shared = stem + convolutions + inner + projecting + head
    assert parameters(network("resnet18_paper", (3, 32, 32), 10)) == shared == 11_169_098
    assert parameters(network("resnet18", (3, 32, 32), 10)) == shared + identity + 2 * 512 == 11_172_170


@pytest.mark.parametrize(("size", "features"), [(25, 512), (28, 512), (32, 512), (64, 4 * 512)])
def test_paper_resnet_sizes_its_head_from_the_image(size, features):
    assert network("resnet18_paper", (1, size, size), 10).head.in_features == features


@pytest.mark.parametrize(
    ("name", "shape", "settings", "message"),
    [
        ("resnet", (3, 32, 32), {}, "unknown model 'resnet'; did you mean 'resnet18'?"),
        ("cnn", (1, 28, 28), {"droput": 0.1}, "model cnn: unknown setting 'droput'; did you mean 'dropout'?"),
        (
            "mlp",
            (4,),
            {"logit_norm": True},
            "model mlp: unknown setting 'logit_norm'; known are dropout, hidden",
        ),
        ("cnn", (1, 9, 28), {}, "at least 10 x 10 pixels for this model, got 1 x 9 x 28"),
        ("resnet18_paper", (3, 24, 32), {}, "at least 25 x 25 pixels"),
        ("resnet18", (64,), {}, "images must have shape (channels, height, width), got (64,)"),
        ("cnn", (1, 28, 28), {"dropout": 1.2}, "dropout must lie in [0, 1), got 1.2"),
        (
            "mlp",
            (4,),
            {"hidden": (8, 0)},
            "model mlp: every layer needs at least 1 unit, got inputs (4,) and hidden (8, 0)",
        ),
        ("mlp", (4,), {"hidden": 5}, "model mlp: hidden must be a list of whole numbers, got 5"),
        ("mlp", (4,), {"hidden": "64"}, "model mlp: hidden must be a list of whole numbers, got '64'"),
        ("mlp", (4,), {"hidden": [8.0]}, "model mlp: hidden must be a list of whole numbers, got [8.0]"),
        ("mlp", (4,), {"dropout": "x"}, "model mlp: dropout must be a number, got 'x'"),
        ("mlp", (4,), {"dropout": float("nan")}, "model mlp: dropout must lie in [0, 1), got nan"),
        ("cnn", (1, 28, 28), {"width": 0}, "model cnn: width must be at least 1, got 0"),
        ("cnn", (1, 28, 28), {"width": 8.0}, "model cnn: width must be a whole number, got 8.0"),
        ("cnn", (1, 28, 28), {"padding": True}, "model cnn: padding must be a whole number, got True"),
        ("cnn", (1, 28, 28), {"padding": 2}, "model cnn: padding must be 0 or 1, got 2"),
        ("resnet18", (3, 8, 8), {"logit_norm": 1}, "model resnet18: logit_norm must be true or false, got 1"),
    ],
)
def test_errors_say_what_is_wrong(name, shape, settings, message):
    with pytest.raises(InputError) as error:
        network(name, shape, 10, **settings)
    assert message in str(error.value)


def test_defaults_can_be_given_as_settings(name):
    settings = inspect.signature(MODELS[name]).parameters.values()
    defaults = {p.name: p.default for p in settings if p.kind is p.KEYWORD_ONLY}
    assert defaults
    network(name, SHAPES[name], 2, **defaults)


def test_a_model_without_outputs_is_refused():
    with pytest.raises(InputError, match="at least 1 output, got 0"):
        network("mlp", (4,), 0)
