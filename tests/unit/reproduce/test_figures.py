"""The paper's figures: the formulas behind them, the stored arrays, and drawing all of them."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from matplotlib.patches import FancyArrowPatch
from numpy.testing import assert_array_equal

from icelens.data import Examples, Split, digits
from icelens.errors import FileError, InputError, MissingFileError
from icelens.losses import confidence_cross_entropy, hard_bootstrapping, label_smoothing, soft_bootstrapping
from icelens.plots.simplices import place
from icelens.reproduce.figures import FIGURES, demo, demo_training, draw_all, likelihood, mixing, transitions
from icelens.reproduce.figures.belief import believed, best_confidence, log_belief
from icelens.reproduce.figures.confidences import ridge_arrays, store_ridges
from icelens.reproduce.figures.galleries import gallery_arrays, store_gallery
from icelens.reproduce.figures.stored import store, stored, stored_path
from icelens.reproduce.paper import DATA
from icelens.train import Recipe, run_recipe

TINY = Recipe(
    data="digits", validation=0.2, model="mlp", model_settings={"hidden": [16]}, iterations=40, device="cpu",
    evaluations=1, snapshots=3,
)  # fmt: skip
THEORY = [
    "noise-models",
    "simplex-transforms",
    "simplex-rows",
    "contours-probability",
    "contours-simplex",
    "smoothing",
]


def linear(p, confidence):
    return confidence * p + (1 - confidence) / p.shape[-1]


def power(p, confidence):
    return p**confidence / (p**confidence).sum(-1, keepdims=True)


CLOSED = {"linear": linear, "power": power}


@pytest.fixture(scope="module")
def noisy_run(tmp_path_factory):
    recipe = dataclasses.replace(TINY, noise_rate=0.3)
    return run_recipe(recipe, tmp_path_factory.mktemp("runs") / "noisy", split=digits())


@pytest.fixture(scope="module")
def original_run(tmp_path_factory):
    return run_recipe(TINY, tmp_path_factory.mktemp("runs") / "original", split=digits())


# h(p; C) and the log-likelihood


@pytest.mark.parametrize("transform", CLOSED)
@pytest.mark.parametrize("confidence", [0.1, 0.6, 1.0])
def test_belief_is_the_closed_form(transform, confidence):
    p = np.random.default_rng(0).dirichlet(np.ones(4), 20)
    assert believed(transform, p, confidence) == pytest.approx(CLOSED[transform](p, confidence))
    each = np.linspace(0.1, 0.9, 20)
    expected = np.log(CLOSED[transform](p, each[:, None]))
    assert log_belief(transform, p, each) == pytest.approx(expected)


@pytest.mark.parametrize("transform", CLOSED)
@pytest.mark.parametrize("confidence", [0.05, 0.4, 0.95])
def test_the_best_confidence_is_found_again(transform, confidence):
    p = np.array([0.7, 0.2, 0.1])
    q = CLOSED[transform](p, confidence)
    assert best_confidence(transform, p, q) == pytest.approx(confidence, abs=1e-5)


@pytest.mark.parametrize("transform", CLOSED)
@pytest.mark.parametrize("classes", likelihood.CLASS_COUNTS)
def test_contours_over_probability_show_the_closed_form(transform, classes):
    p_i, confidence = np.linspace(0, 1, 6), np.linspace(0, 1, 5)
    found = likelihood.likelihood(transform, p_i, confidence, classes)
    for row, c in enumerate(confidence):
        for column, share in enumerate(p_i):
            p = np.array([share] + [(1 - share) / (classes - 1)] * (classes - 1))
            with np.errstate(divide="ignore"):
                expected = math.log(1 / classes) if c == 0 else np.log(CLOSED[transform](p, c)[0])
            assert found[row, column] == pytest.approx(expected)


@pytest.mark.parametrize("transform", CLOSED)
@pytest.mark.parametrize("confidence", likelihood.CONFIDENCES)
def test_the_slope_is_the_derivative_and_vanishes_where_the_paper_says(transform, confidence):
    p = np.random.default_rng(1).dirichlet(np.ones(3), 50)
    step = 1e-5
    up, down = (np.log(CLOSED[transform](p, confidence + sign * step)[:, 0]) for sign in (1, -1))
    slope = likelihood.slope(transform, p, confidence)
    assert slope == pytest.approx((up - down) / (2 * step), rel=1e-5, abs=1e-6)
    q = CLOSED[transform](p, confidence)
    boundary = 1 / 3 if transform == "linear" else np.exp((q * np.log(p)).sum(1))
    assert_array_equal(slope > 0, p[:, 0] > boundary)


def test_the_contours_of_the_linear_likelihood_are_horizontal_at_the_right_height():
    figure = FIGURES["contours-simplex"](None)
    ax = figure.axes[2]  # linear, C = 0.5
    lines = ax.collections[1]
    for level, path in zip(likelihood.LEVELS, lines.get_paths(), strict=True):
        if len(path.vertices) > 2:
            p_i = (math.exp(level) - 0.5 / 3) / 0.5
            # Straight between grid points of a curved function, so not exact.
            assert path.vertices[:, 1] == pytest.approx(p_i * math.sqrt(0.75), abs=1e-3)


# Pictures on the simplex


def test_no_transition_matrix_with_that_first_row_leaves_the_region():
    rng = np.random.default_rng(2)
    for certainty in transitions.CERTAINTIES:
        p = np.array([certainty, 0.6 * (1 - certainty), 0.4 * (1 - certainty)])
        corners = transitions.reachable(p, transitions.TRANSITION[0])
        for rows in rng.dirichlet(np.ones(3), (100, 2)):
            q = p @ np.vstack([transitions.TRANSITION[0], rows])
            assert np.linalg.solve(corners.T, q).min() >= -1e-12
        sides = np.linalg.norm(place(corners) - np.roll(place(corners), 1, axis=0), axis=1)
        assert sides == pytest.approx(np.full(3, 1 - certainty))


def test_the_numbers_of_the_picture_are_what_its_caption_says():
    true, wrong = transitions.TRANSITION, transitions.ESTIMATED
    for matrix in (true, wrong):
        assert matrix.sum(1) == pytest.approx(np.ones(3))
    assert_array_equal((true == wrong).all(1), [True, False, False])
    q = transitions.CLEAN @ true
    assert q.argmax() == transitions.CLEAN.argmax() == 0
    # The rows are far off, the posterior is not.
    assert np.abs(true - wrong).sum(1)[1:].min() > 0.5
    assert np.abs(q - transitions.CLEAN @ wrong).sum() < 0.15


def test_transforms_are_drawn_at_the_posteriors_they_give():
    figure = FIGURES["simplex-transforms"](None)
    noisy = transitions.CLEAN @ transitions.TRANSITION
    for ax in figure.axes[1:]:
        spots = [np.array(line.get_data()).ravel() for line in ax.lines if len(line.get_xdata()) == 1]
        assert any(np.allclose(spot, place(noisy)) for spot in spots)
        assert any(np.allclose(spot, place(transitions.CLEAN)) for spot in spots)
        assert sum(isinstance(patch, FancyArrowPatch) for patch in ax.patches) == 1


def test_each_noise_model_has_its_arrows():
    figure = FIGURES["noise-models"](None)
    arrows = [sum(isinstance(patch, FancyArrowPatch) for patch in ax.patches) for ax in figure.axes]
    assert [ax.get_title("center") for ax in figure.axes] == ["IND", "CCN", "IDN", "ICE"]
    assert arrows == [2, 2, 3, 4]


def test_what_is_drawn_of_a_loss_gives_that_loss():
    """The cross entropy from the drawn target to the drawn prediction is the library's loss."""
    c, logits = mixing.CONFIDENCE, torch.tensor(mixing.ENDS["$p$"]).log()[None]
    y, v = torch.tensor([0]), torch.tensor([math.log(c / (1 - c))], dtype=torch.float64)
    losses = [
        -logits[:, 0],
        label_smoothing(logits, y, smoothing=1 - c),
        soft_bootstrapping(logits, y, beta=c),
        hard_bootstrapping(logits, y, beta=c),
        confidence_cross_entropy(logits, y, v),
    ]
    for drawn, loss in zip(mixing.LOSSES, losses, strict=True):
        target, prediction = mixing.mixture(drawn.target), mixing.mixture(drawn.prediction)
        assert -target @ np.log(prediction) == pytest.approx(float(loss)), drawn.title


# The demo


def test_the_sample_has_equal_shares_and_unlikely_wrong_labels():
    x, labels, moved = demo_training.draw_sample(3)
    assert (len(x), moved.sum()) == (200, 15)
    classes = np.arange(200) % 3
    assert_array_equal(labels[~moved], classes[~moved])
    p = demo_training.posterior(x, demo_training.WEIGHTS)
    assert (labels[moved] != p[moved].argmax(1)).all()
    assert_array_equal(demo_training.draw_sample(3).labels, labels)
    assert (demo_training.draw_sample(4).x != x).all()


def test_the_posterior_is_that_of_the_mixture():
    from scipy.stats import norm

    x, weights = np.linspace(-9, 8, 7), np.array([0.5, 0.3, 0.2])
    density = weights * norm.pdf(x[:, None], demo_training.MEANS, demo_training.DEVIATIONS)
    assert demo_training.posterior(x, weights) == pytest.approx(density / density.sum(1, keepdims=True))


@pytest.fixture(scope="module")
def trained():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_training, "FURTHER_EPOCHS", 20)  # the longest part, which no test here needs
        return demo_training.train_demo(1)


def test_the_demo_shows_what_the_paper_says(trained):
    errors = {name: demo.posterior_error(trained, name) for name in demo.PANELS}
    assert errors["embedding"] < errors["cross_entropy"] < errors["weight_decay"]
    confidence = trained["embedding_confidence"]
    assert confidence[trained["moved"]].max() < 0.1
    assert (confidence[~trained["moved"]] > 0.9).mean() > 0.95
    # A network in place of the embedding cannot single out one example among its neighbours.
    assert np.ptp(trained["network_confidence"]) < 0.5


def test_the_demo_is_seeded_and_leaves_the_generator_alone(monkeypatch):
    monkeypatch.setattr(demo_training, "EPOCHS", 2)
    monkeypatch.setattr(demo_training, "FURTHER_EPOCHS", 2)
    before = torch.get_rng_state()
    first, second = demo_training.train_demo(0), demo_training.train_demo(0)
    assert torch.equal(before, torch.get_rng_state())
    for name, array in first.items():
        assert_array_equal(array, second[name])
    for name in demo.PANELS:
        assert first[name].shape == (len(first["grid"]), 3)
        assert first[name].sum(1) == pytest.approx(np.ones(len(first["grid"])), abs=1e-5)


def test_each_example_stands_on_the_curve_of_its_given_label(trained, tmp_path):
    store(tmp_path, "demo_posteriors", trained)
    figure = FIGURES["demo-posteriors"](tmp_path)
    upper, lower = figure.axes[3], figure.axes[7]  # instance embedding
    heights = _heights(upper)
    assert len(heights) == 200
    for x, label in zip(trained["x"], trained["labels"], strict=True):
        expected = np.interp(x, trained["grid"], trained["embedding"][:, label])
        assert heights[float(x)] == pytest.approx(expected, abs=1e-6)
    confidences = zip(trained["x"], trained["embedding_confidence"], strict=True)
    assert _heights(lower) == {float(x): pytest.approx(float(c)) for x, c in confidences}


def _heights(ax):
    return {float(x): float(y) for group in ax.collections for x, y in group.get_offsets()}


# What is stored of runs


def test_ridges_hold_the_history_of_the_rows_that_were_trained_on(noisy_run):
    table, (iterations, history) = noisy_run.examples(), noisy_run.history()
    trained = np.flatnonzero(~table["held_out"])
    arrays = ridge_arrays(noisy_run, examples=10**6)
    assert arrays["iterations"].tolist() == iterations.tolist() == [0, 13, 27, 40]
    assert arrays["confidence"].dtype == np.float16
    assert_array_equal(arrays["confidence"], history[:, trained].half().numpy())
    assert_array_equal(arrays["moved"], table["moved"].to_numpy()[trained])
    assert len(trained) < len(table)


def test_ridges_are_a_seeded_sample(noisy_run):
    everything = ridge_arrays(noisy_run, examples=10**6)
    first, again, other = (ridge_arrays(noisy_run, examples=100, seed=seed) for seed in (0, 0, 1))
    assert first["confidence"].shape == (4, 100)
    assert first["moved"].shape == (100,)
    assert_array_equal(first["confidence"], again["confidence"])
    assert (first["confidence"] != other["confidence"]).any()
    columns = {column.tobytes() for column in everything["confidence"].T}
    assert {column.tobytes() for column in first["confidence"].T} <= columns


def test_ridges_need_flipped_labels(original_run):
    with pytest.raises(InputError, match="no label was flipped in this run"):
        ridge_arrays(original_run)


def test_a_gallery_holds_the_least_confident_of_the_rows_that_were_trained_on(original_run):
    arrays = gallery_arrays(original_run, digits().train, count=10)
    table = original_run.examples().set_index("index")
    trained = table[~table["held_out"]]
    assert_array_equal(arrays["confidence"], np.sort(trained["confidence"])[:10])
    assert not table.loc[arrays["index"], "held_out"].any()
    for name in ("label", "guess", "confidence"):
        assert_array_equal(arrays[name], table.loc[arrays["index"], name].astype(arrays[name].dtype))
    images = digits().train.inputs.numpy()[arrays["index"]]
    assert arrays["images"].dtype == np.uint8
    assert arrays["images"] == pytest.approx(images * (1 if images.dtype == np.uint8 else 255), abs=0.51)


def test_stored_files_are_named_by_data_and_method(original_run, noisy_run, tmp_path):
    gallery = store_gallery(original_run, tmp_path, split=digits(), count=4)
    ridges = store_ridges(noisy_run, tmp_path, examples=50)
    assert gallery == tmp_path / "figures" / "gallery_digits_ice_linear.npz"
    assert ridges == tmp_path / "figures" / "ridgeline_digits_ice_linear.npz"
    again = store_gallery(original_run, tmp_path / "again", split=digits(), count=4)
    assert gallery.read_bytes() == again.read_bytes()
    assert stored(tmp_path, "gallery_digits_ice_linear", how="")["images"].shape[0] == 4


def test_a_gallery_refuses_runs_that_it_cannot_show(original_run, noisy_run, tmp_path):
    train = digits().train
    with pytest.raises(InputError, match="labels were flipped on purpose in this run"):
        gallery_arrays(noisy_run, train)
    other = Examples(train.inputs, train.labels.roll(1), train.classes)
    with pytest.raises(InputError, match="the labels of this run are not those of the data"):
        store_gallery(original_run, tmp_path, split=Split(other, other))
    plain = dataclasses.replace(TINY, loss="cross_entropy", iterations=1, snapshots=0)
    with pytest.raises(InputError, match="a run with loss=cross_entropy has no confidences"):
        gallery_arrays(run_recipe(plain, tmp_path / "plain", split=digits()), train)


# Drawing


def write_inputs(results, run):
    """Real ridges under the names that the figure takes, and made-up galleries."""
    rng = np.random.default_rng(0)
    for method in ("ice_linear", "ice_power"):
        for data in ("mnist", "cifar10"):
            store(results, f"ridgeline_{data}_{method}", ridge_arrays(run, examples=300))
        for data, shape in [("mnist", (1, 28, 28)), ("cifar100", (3, 32, 32))]:
            made_up = {
                "images": rng.integers(0, 256, (32, *shape), dtype=np.uint8),
                "index": rng.integers(0, 50_000, 32),
                "label": np.array(["pickup_truck"] * 32),
                "guess": np.array(["bus"] * 32),
                "confidence": np.linspace(0.001, 0.01, 32, dtype=np.float32),
            }
            store(results, f"gallery_{data}_{method}", made_up)


def test_every_figure_is_listed():
    assert set(THEORY) < set(FIGURES)
    assert {f"least-confident-{data}" for data in DATA} < set(FIGURES)
    assert len(FIGURES) == len(THEORY) + 4 + 6


@pytest.mark.parametrize("name", THEORY)
def test_figures_of_formulas_need_no_results(name, tmp_path):
    FIGURES[name](tmp_path / "nothing").canvas.draw()


@pytest.mark.parametrize("name", sorted(set(FIGURES) - set(THEORY)))
def test_a_figure_without_its_results_says_how_they_are_made(name, tmp_path):
    with pytest.raises(MissingFileError, match=r"\.npz: no such file; (run `)?icelens reproduce"):
        FIGURES[name](tmp_path)


def test_the_ridgelines_have_four_panels_of_all_snapshots(noisy_run, tmp_path):
    write_inputs(tmp_path, noisy_run)
    figure = FIGURES["ridgelines"](tmp_path)
    titles = [ax.get_title("left") for ax in figure.axes]
    assert titles == ["MNIST, ICE-LIN", "MNIST, ICE-POW", "CIFAR-10, ICE-LIN", "CIFAR-10, ICE-POW"]
    for ax in figure.axes:
        assert [label.get_text() for label in ax.get_yticklabels()][::-1] == ["0", "13", "27", "40"]


def test_a_gallery_shows_both_methods_with_readable_names(noisy_run, tmp_path):
    write_inputs(tmp_path, noisy_run)
    figure = FIGURES["least-confident-cifar100"](tmp_path)
    shown = [ax for ax in figure.axes if ax.images]
    assert len(shown) == 64
    first = stored(tmp_path, "gallery_cifar100_ice_power", how="")["images"][0]
    assert_array_equal(shown[32].images[0].get_array(), np.moveaxis(first, 0, -1) / 255)
    words = {text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))}
    assert {"CIFAR-100, ICE-LIN", "CIFAR-100, ICE-POW", "pickup truck", "bus"} <= words


def test_draw_all_draws_what_it_can_and_says_what_is_missing(tmp_path):
    names = ["noise-models", "least-confident-svhn", "demo-posteriors"]
    drawn = draw_all(tmp_path, tmp_path / "out", names=names)
    assert drawn.paths == [tmp_path / "out" / "noise-models.png", tmp_path / "out" / "noise-models.pdf"]
    assert all(path.stat().st_size > 5000 for path in drawn.paths)
    assert set(drawn.skipped) == {"least-confident-svhn", "demo-posteriors"}
    assert "gallery_svhn_ice_linear.npz: no such file" in drawn.skipped["least-confident-svhn"]
    again = draw_all(tmp_path, tmp_path / "again", names=names)
    assert [path.read_bytes() for path in again.paths] == [path.read_bytes() for path in drawn.paths]


def test_wrong_names_and_damaged_files_are_told(tmp_path):
    with pytest.raises(InputError, match="unknown figure 'ridgeline'; did you mean 'ridgelines'"):
        draw_all(tmp_path, tmp_path, names=["ridgeline"])
    path = stored_path(tmp_path, "demo_posteriors")
    path.parent.mkdir()
    path.write_bytes(b"no arrays")
    with pytest.raises(FileError, match=r"demo_posteriors\.npz: not arrays of a figure"):
        draw_all(tmp_path, tmp_path, names=["demo-posteriors"])
