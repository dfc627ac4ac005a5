"""What networks are fed: the same numbers as the plain matrices they stand for."""

import numpy as np
import pytest
import scipy.sparse
import torch

from icelens.auditing.inputs import Bags, Features, Pictures, SparseLinear, bags_of

CPU = torch.device("cpu")


def matrix(rows=40, width=15, density=0.2, seed=0):
    """A sparse matrix with empty rows, the first and the last among them."""
    found = scipy.sparse.random(
        rows, width, density=density, format="lil", random_state=np.random.default_rng(seed), dtype=np.float32
    )
    for row in (0, 7, rows - 1):
        found[row] = 0
    return found.tocsr()


def dense_of(batch, width):
    """The rows that a batch of bags stands for."""
    columns, offsets, weights = batch
    ends = [*offsets.tolist()[1:], len(columns)]
    rows = torch.zeros(len(offsets), width)
    for row, (start, end) in enumerate(zip(offsets.tolist(), ends, strict=True)):
        rows[row].index_add_(0, columns[start:end], weights[start:end])
    return rows


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_a_batch_of_bags_is_the_rows_of_the_matrix(kind):
    sparse = matrix()
    bags = bags_of(sparse.asformat(kind))
    assert len(bags) == 40
    for rows in ([3], [0], [5, 0, 7, 39, 5, 12], list(range(40))):
        batch = bags.batch(torch.tensor(rows), training=False)
        np.testing.assert_array_equal(dense_of(batch, 15), sparse[rows].toarray())


def test_dropout_keeps_the_mean_and_drops_half():
    bags = bags_of(matrix(rows=2000, density=0.5))
    rows = torch.arange(2000)
    whole = bags.batch(rows, training=False)
    dropped = bags.batch(rows, training=True)
    torch.testing.assert_close(dropped[:2], whole[:2])
    zero = dropped[2] == 0
    assert zero.float().mean().item() == pytest.approx(bags.dropout, abs=0.02)
    torch.testing.assert_close(dropped[2][~zero], whole[2][~zero] / (1 - bags.dropout))
    assert dropped[2].mean().item() == pytest.approx(whole[2].mean().item(), rel=0.03)
    kept = Bags(bags.starts, bags.columns, bags.weights, bags.width, dropout=0.0)
    torch.testing.assert_close(kept.batch(rows, training=True), whole)


def test_a_sparse_layer_is_a_dense_product():
    sparse = matrix()
    bags, layer = bags_of(sparse), SparseLinear(15, 3)
    torch.nn.init.normal_(layer.weight.weight)
    torch.nn.init.normal_(layer.bias)
    rows = torch.tensor([0, 4, 7, 9, 39])
    logits = layer(bags.batch(rows, training=False))
    dense = torch.from_numpy(sparse[rows.numpy()].toarray())
    torch.testing.assert_close(logits, dense @ layer.weight.weight + layer.bias)
    logits.square().sum().backward()
    gradient = layer.weight.weight.grad.to_dense()
    torch.testing.assert_close(gradient, dense.T @ (2 * logits.detach()))
    torch.testing.assert_close(layer.bias.grad, (2 * logits.detach()).sum(0))


def test_a_batch_of_empty_rows_alone_has_the_bias_for_logits():
    bags, layer = bags_of(matrix()), SparseLinear(15, 3)
    with torch.no_grad():
        layer.bias.copy_(torch.tensor([1.0, 2.0, 3.0]))
    logits = layer(bags.batch(torch.tensor([0, 7]), training=True))
    torch.testing.assert_close(logits, torch.tensor([[1.0, 2.0, 3.0]] * 2))
    logits.sum().backward()
    torch.optim.SparseAdam(list(layer.weight.parameters())).step()
    assert layer.weight.weight.isfinite().all()


def pictures(rows=6, channels=1, side=8, large=False):
    pixels = torch.randint(256, (rows, channels, side, side), dtype=torch.uint8)
    ones = torch.ones(channels, 1, 1)
    return Pictures(pixels, 0.5 * ones, 0.25 * ones, large)


EVERY_KIND = {
    "features": Features(torch.randn(6, 3)),
    "bags": bags_of(matrix(rows=12)),
    "small": pictures(),
    "large": pictures(channels=3, side=32, large=True),
}


@pytest.mark.parametrize("inputs", EVERY_KIND.values(), ids=list(EVERY_KIND))
def test_each_kind_makes_a_network_that_takes_its_batches(inputs):
    rows = torch.tensor([1, 4, 2])
    for mode in (True, False):
        network = inputs.network(5).train(mode)
        logits = network(inputs.batch(rows, training=mode))
        assert logits.shape == (3, 5)
        assert logits.isfinite().all()
    assert len(inputs.to(CPU)) == len(inputs)
    moved = inputs.to(CPU)
    torch.testing.assert_close(
        moved.batch(rows, training=False), inputs.batch(rows, training=False), rtol=0, atol=0
    )
    assert moved.model == inputs.model
    torch.manual_seed(3)
    first = inputs.network(5).state_dict()
    torch.manual_seed(3)
    torch.testing.assert_close(inputs.network(5).state_dict(), first)


def test_images_are_normalised_and_only_photographs_are_moved():
    small = pictures()
    rows = torch.arange(6)
    expected = (small.pixels.float() / 255 - 0.5) / 0.25
    for training in (True, False):
        torch.testing.assert_close(small.batch(rows, training=training), expected)
    large = pictures(channels=3, side=32, large=True)
    plain = large.batch(rows, training=False)
    assert not torch.equal(large.batch(rows, training=True), plain)
    assert large.batch(rows, training=True).shape == plain.shape


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 2, 5), (1, 8, 8), (3, 17, 32), (4, 32, 32)])
def test_the_small_network_takes_images_of_any_size(shape):
    pixels = torch.randint(256, (4, *shape), dtype=torch.uint8)
    inputs = Pictures(pixels, torch.zeros(shape[0], 1, 1), torch.ones(shape[0], 1, 1))
    assert inputs.network(3)(inputs.batch(torch.arange(4), training=True)).shape == (4, 3)


def sized(kind, rows):
    """Inputs that say they have so many rows, with no memory behind it."""
    if kind == "features":
        return Features(torch.zeros(1, 1).expand(rows, 1))
    if kind == "bags":
        return Bags(torch.zeros(1, dtype=torch.int64).expand(rows + 1), torch.zeros(0), torch.zeros(0), 1)
    one = torch.zeros(1, 1, 1, 1, dtype=torch.uint8).expand(rows, 1, 1, 1)
    return Pictures(one, torch.zeros(1, 1, 1), torch.ones(1, 1, 1), kind == "large")


@pytest.mark.parametrize("kind", ["features", "bags", "small", "large"])
def test_with_more_examples_each_is_seen_less_often_but_the_steps_are_more(kind):
    sizes = [20, 500, 5000, 50_000, 1_000_000]
    plans = [sized(kind, rows).plan() for rows in sizes]
    epochs = [plan.epochs for plan in plans]
    assert epochs == sorted(epochs, reverse=True)
    assert epochs[0] > epochs[-1] >= 3
    seen = [plan.epochs * rows for plan, rows in zip(plans, sizes, strict=True)]
    assert seen == sorted(seen)
    batches = [plan.batch_size for plan in plans]
    assert batches == sorted(batches)
    assert all(plan.learning_rate > 0 for plan in plans)


def test_names_of_models_are_for_people():
    assert Features(torch.zeros(2, 30)).model == "an MLP (30 features, 256 hidden)"
    assert bags_of(scipy.sparse.csr_matrix((2, 20_000))).model == "a linear layer over 20,000 n-grams"
    assert pictures().model == "three convolutions on 8 x 8 pixels"
    assert pictures(side=32, large=True).model == "ResNet-18 on 32 x 32 pixels"
