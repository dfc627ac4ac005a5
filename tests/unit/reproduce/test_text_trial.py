import dataclasses
import math

import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef
from text_files import write_task

from icelens.data import load
from icelens.data.glue import TASKS
from icelens.errors import InputError, MissingFileError
from icelens.losses import ICELoss
from icelens.models.encoder import load_encoder
from icelens.reproduce import text
from icelens.reproduce.text import run_text_trial, split_rows
from icelens.reproduce.text_data import prepare_text
from icelens.reproduce.text_loop import predict
from icelens.reproduce.text_recipe import METHODS, TextRecipe
from icelens.reproduce.text_scores import scores

MEASURES = {"cola": ["matthews"], "mrpc": ["f1", "accuracy"], "qqp": ["f1", "accuracy"],
            "mnli": ["accuracy", "accuracy_mismatched"]}  # fmt: skip
CPU = torch.device("cpu")


def recipe(encoder, **settings):
    small = {"epochs": 1, "batch_size": 8, "learning_rate": 5e-3, "max_length": 64, "precision": "float32"}
    return TextRecipe(encoder=encoder, device="cpu", **{**small, **settings})


@pytest.mark.parametrize("data", TASKS)
def test_every_task_runs_from_files_in_its_format(tmp_path, encoder, data):
    write_task(tmp_path, data)
    result = run_text_trial(recipe(encoder, data=data, method="ice_power"), tmp_path)
    assert list(result.scores) == MEASURES.get(data, ["accuracy"])
    assert all(-1 <= value <= 1 for value in result.scores.values())
    assert result.guess.max() < len(TASKS[data].classes)
    assert result.confidence.shape == result.p_label.shape == (40,)


@pytest.mark.parametrize("method", METHODS)
def test_what_is_easy_is_learned(tmp_path, encoder, method):
    write_task(tmp_path, "sst2", train=200, test=100)
    result = run_text_trial(recipe(encoder, data="sst2", method=method, epochs=5), tmp_path)
    assert result.scores["accuracy"] > 0.9
    assert result.losses[-1] < result.losses[0]


@pytest.mark.parametrize("data", ["cola", "mrpc", "sst2"])
def test_scores_are_those_of_scikit_learn(data):
    labels, guess = torch.randint(2, (2, 50)).unbind()
    expected = {"matthews": matthews_corrcoef(labels, guess), "f1": f1_score(labels, guess),
                "accuracy": accuracy_score(labels, guess)}  # fmt: skip
    found = scores(data, labels, guess)
    assert found == pytest.approx({name: expected[name] for name in MEASURES.get(data, ["accuracy"])})


def test_one_class_alone_scores_nothing_without_a_warning():
    labels, never = torch.tensor([0, 1, 1]), torch.zeros(3, dtype=torch.int64)
    assert scores("cola", labels, never) == {"matthews": 0.0}
    assert scores("mrpc", labels, never) == {"f1": 0.0, "accuracy": pytest.approx(1 / 3)}


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_numbers_and_another_does_not(tmp_path, encoder, method):
    write_task(tmp_path, "mrpc")
    runs = [run_text_trial(recipe(encoder, data="mrpc", method=method, seed=s), tmp_path) for s in (1, 1, 2)]
    first, again, other = runs
    assert first.losses == again.losses
    assert first.scores == again.scores
    torch.testing.assert_close(first.p_label, again.p_label, rtol=0, atol=0)
    assert first.losses != other.losses
    if method != "cross_entropy":
        torch.testing.assert_close(first.confidence, again.confidence, rtol=0, atol=0)


def test_confidences_are_those_of_the_rows_of_the_file(tmp_path, encoder):
    write_task(tmp_path, "sst2", train=300)
    train = load("sst2", tmp_path).train
    wrong = torch.tensor([3, 50, 51, 120, 199])
    lines = (tmp_path / "glue/SST-2/train.tsv").read_text().splitlines()
    for row in wrong:
        lines[row + 1] = lines[row + 1][:-1] + str(1 - int(train.labels[row]))
    (tmp_path / "glue/SST-2/train.tsv").write_text("\n".join(lines) + "\n")
    for method in ("ice_linear", "ice_power"):
        result = run_text_trial(
            recipe(encoder, data="sst2", method=method, epochs=10, step_size=4.0, start=1.0), tmp_path
        )
        assert sorted(result.confidence.argsort()[:5].tolist()) == wrong.tolist()
        assert (result.guess[wrong] == train.labels[wrong]).all()
        assert (result.p_label[wrong] < 0.5).all()


def test_the_step_of_the_confidences_rises(tmp_path, encoder, monkeypatch):
    write_task(tmp_path, "cola")
    steps = []
    forward = ICELoss.forward
    monkeypatch.setattr(
        ICELoss, "forward", lambda loss, *a: steps.append(loss.step_size) or forward(loss, *a)
    )
    run_text_trial(recipe(encoder, method="ice_linear", step_size=2.0, rise=0.5, epochs=2), tmp_path)
    assert steps == pytest.approx([0, 0.4, 0.8, 1.2, 1.6, 2, 2, 2, 2, 2])


def test_rows_held_out_are_scored_on_and_never_trained_on(tmp_path, encoder, monkeypatch):
    write_task(tmp_path, "cola", train=41)
    seen, guesses = [], []
    monkeypatch.setattr(text, "make_loss", lambda *a, **k: Spy(text_make_loss(*a, **k), seen))
    text_scores = text.scores
    monkeypatch.setattr(text, "scores", lambda data, y, g: guesses.append(len(y)) or text_scores(data, y, g))
    settings = recipe(encoder, method="ice_linear", held_out=0.25, epochs=2)
    result = run_text_trial(settings, tmp_path)
    rows, held_out = split_rows(settings, 41)
    assert sorted(torch.cat(seen).tolist()) == sorted([*rows.tolist()] * 2)
    assert torch.equal(result.held_out.nonzero().squeeze(1), held_out)
    assert len(held_out) == 10
    assert not set(rows.tolist()) & set(held_out.tolist())
    assert guesses == [10]  # the dev set is not looked at
    other = dataclasses.replace(settings, method="cross_entropy")
    assert torch.equal(split_rows(other, 41)[1], held_out)


text_make_loss = text.make_loss


class Spy(torch.nn.Module):
    def __init__(self, loss, seen):
        super().__init__()
        self.loss, self.seen = loss, seen

    def forward(self, logits, labels, index):
        self.seen.append(index.clone())
        return self.loss(logits, labels, index)


def test_confidences_of_rows_held_out_are_unknown(tmp_path, encoder):
    write_task(tmp_path, "cola")
    result = run_text_trial(recipe(encoder, method="ice_power", held_out=0.5), tmp_path)
    assert torch.equal(result.confidence.isnan(), result.held_out)
    assert result.held_out.sum() == 20


def test_padding_changes_no_number_but_by_rounding(tmp_path, encoder):
    write_task(tmp_path, "rte")
    task, model = prepare_text("rte", tmp_path, encoder, 64, CPU), load_encoder(encoder, 2)
    log_p = predict(recipe(encoder), model, task.train)
    alone = [
        model(**task.train.inputs_of(row, width)).logits.log_softmax(-1)
        for width, row in task.train.batches(torch.arange(40), 1)
    ]
    torch.testing.assert_close(log_p, torch.cat(alone).detach())


def test_a_batch_is_as_wide_as_its_longest_text_rounded_up_to_8(tmp_path, encoder):
    write_task(tmp_path, "cola")
    tokens = prepare_text("cola", tmp_path, encoder, 64, CPU).train
    order = tokens.lengths.argsort()
    widths, rows = [], []
    for width, index in tokens.batches(order, 7):
        inputs = tokens.inputs_of(index, width)
        assert inputs["input_ids"].shape == inputs["token_type_ids"].shape
        assert torch.equal(inputs["attention_mask"].sum(1), tokens.lengths[index])
        widths.append(inputs["input_ids"].shape[1])
        rows.append(index)
    assert torch.equal(torch.cat(rows), order)
    assert widths == [math.ceil(int(tokens.lengths[index].max()) / 8) * 8 for index in rows]
    assert len(set(widths)) > 1


def test_long_texts_are_cut(tmp_path, encoder):
    write_task(tmp_path, "rte")
    tokens = prepare_text("rte", tmp_path, encoder, 9, CPU).train
    assert tokens.inputs["input_ids"].shape == (40, 9)
    assert tokens.lengths.max() == 9


def test_mixed_precision_trains_too(tmp_path, encoder):
    write_task(tmp_path, "wnli")
    result = run_text_trial(recipe(encoder, data="wnli", method="ice_linear", precision="bfloat16"), tmp_path)
    assert result.p_label.dtype == result.confidence.dtype == torch.float32


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"data": "colla"}, "unknown data 'colla'; did you mean 'cola'?"),
        ({"method": "ice"}, "unknown method 'ice'; did you mean"),
        ({"precision": "float16"}, "unknown precision 'float16'"),
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"rise": 1.5}, r"rise must lie in \[0, 1\], got 1.5"),
        ({"held_out": 1.0}, r"held_out must lie in \[0, 1\), got 1.0"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        TextRecipe(**settings)


def test_data_that_cannot_be_used_is_refused(tmp_path, encoder):
    with pytest.raises(MissingFileError, match=r"train\.tsv: no such file"):
        run_text_trial(recipe(encoder), tmp_path)
    write_task(tmp_path, "cola", train=4)
    with pytest.raises(InputError, match=r"held_out=0\.1 of 4 rows leaves none"):
        run_text_trial(recipe(encoder, held_out=0.1), tmp_path)
    with pytest.raises(InputError, match="max_length is 256, but this encoder takes 128 tokens"):
        run_text_trial(recipe(encoder, max_length=256), tmp_path)
    (tmp_path / "glue/CoLA/dev.tsv").write_text("")
    with pytest.raises(InputError, match="data set 'cola' has no rows to test on"):
        run_text_trial(recipe(encoder), tmp_path)
