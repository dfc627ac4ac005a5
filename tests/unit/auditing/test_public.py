"""`icelens.audit` on all that can be handed to it, and what it finds."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
import torch
from audit_data import digits, iris, reviews, same, shapes, shorten
from sklearn.datasets import load_iris
from sklearn.metrics import average_precision_score, f1_score

import icelens
from icelens.auditing import backbone
from icelens.auditing.public import run_audit
from icelens.errors import InputError

COLUMNS = ["id", "index", "rank", "label", "guess", "confidence", "p_label", "p_guess", "trust", "kind",
           "is_issue"]  # fmt: skip


class Pairs(torch.utils.data.Dataset):
    """A data set of torch: (x, y) for each index."""

    def __init__(self, X, y):
        self.X, self.y = X, y

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        return self.X[index], self.y[index]


def whole(audit, rows):
    """That an audit says something of every row, and that its parts fit together."""
    found = audit.examples
    assert found.columns.tolist() == COLUMNS
    assert found["index"].tolist() == list(range(rows))
    for name in ("confidence", "p_label", "p_guess", "trust"):
        assert found[name].between(0, 1).all()
    other = found["guess"].astype(str) != found["label"].astype(str)
    assert (found["p_guess"] > found["p_label"])[other].all()
    assert (found["p_guess"] == found["p_label"])[~other].all()
    assert found["kind"].isin(["mislabelled", "ambiguous"]).equals(found["is_issue"])
    assert audit.by_class["examples"].sum() == rows
    assert audit.by_class["issues"].sum() == found["is_issue"].sum()
    assert audit.budgets["errors"].iloc[-1] == pytest.approx(audit.estimate.errors)
    assert (1 - found["trust"]).sum() == pytest.approx(audit.estimate.errors)
    assert audit.estimate.low <= audit.estimate.errors <= audit.estimate.high
    return audit


X, Y = load_iris(return_X_y=True)
INPUTS = {
    "array": (X, Y),
    "float32 tensor": (torch.tensor(X, dtype=torch.float32), torch.tensor(Y)),
    "list of rows": (X.tolist(), Y.tolist()),
    "DataFrame": (load_iris(as_frame=True).data.assign(town=["Oslo", "Rome", "Bern"] * 50), pd.Series(Y)),
    "sparse": (scipy.sparse.coo_matrix(np.maximum(X - 2, 0)), Y),
    "texts": reviews()[:2],
    "pairs of texts": ([(text, "as ordered") for text in reviews()[0]], reviews()[1]),
    "uint8 images": shapes(),
    "torch data set": (Pairs(X.astype(np.float32), Y.tolist()), None),
    "data set of images": (Pairs(torch.from_numpy(shapes()[0])[:, None], shapes()[1].tolist()), None),
    "strings": (X, np.array(["setosa", "versicolor", "virginica"])[Y]),
    "booleans": (X, Y == 1),
    "categories": (X, pd.Categorical.from_codes(Y, ["setosa", "versicolor", "virginica"])),
}


@pytest.mark.parametrize("name", INPUTS)
def test_everything_that_holds_examples_and_labels_is_audited(name, monkeypatch):
    shorten(monkeypatch)
    inputs, labels = INPUTS[name]
    audit = whole(icelens.audit(inputs, labels, device="cpu"), len(inputs) if name != "sparse" else 150)
    own = np.asarray(labels if labels is not None else inputs.y).tolist()
    found = audit.examples["label"].tolist()
    assert found == own
    assert {type(label) for label in found} == {type(label) for label in own}
    assert set(audit.examples["guess"]) <= set(own)
    for table in (audit.pairs, audit.by_class):
        assert set(table["label"]) <= set(own)


@pytest.mark.parametrize(
    "labels",
    [Y.tolist(), torch.from_numpy(Y), pd.Series(Y, index=np.arange(150)[::-1]), pa.array(Y), Y[:, None]],
    ids=["list", "tensor", "series", "arrow", "column"],
)
def test_labels_come_back_as_they_were_given_and_are_names_in_files(labels, tmp_path, monkeypatch):
    shorten(monkeypatch)
    found = icelens.audit(X, labels, out=tmp_path, device="cpu")
    assert found.examples["label"].tolist() == Y.tolist()
    assert found.examples["guess"].cat.categories.tolist() == [0, 1, 2]
    assert found.by_class["label"].tolist() == [0, 1, 2]
    stored = pd.read_parquet(tmp_path / "examples.parquet")
    assert stored["label"].cat.categories.tolist() == ["0", "1", "2"]


def test_a_data_set_gives_its_own_names_of_classes(monkeypatch):
    shorten(monkeypatch)
    flowers = Pairs(X.astype(np.float32), Y.tolist())
    flowers.classes = ["setosa", "versicolor", "virginica"]
    found = icelens.audit(flowers, device="cpu")
    assert found.examples["label"].tolist() == [flowers.classes[code] for code in Y]
    assert found.by_class["label"].tolist() == flowers.classes


def test_labels_that_python_calls_equal_stay_apart(monkeypatch):
    shorten(monkeypatch)
    found = icelens.audit(X, [1, True] * 75, device="cpu").examples["label"]
    assert found.tolist() == ["1", "True"] * 75


def test_the_same_seed_gives_the_same_numbers_and_another_others(monkeypatch):
    shorten(monkeypatch)
    first, second, other = (icelens.audit(X, Y, seed=seed, device="cpu") for seed in (3, 3, 4))
    same(first, second)
    assert not np.allclose(first.examples["p_label"], other.examples["p_label"])


def test_what_was_drawn_before_has_no_influence(monkeypatch):
    shorten(monkeypatch)
    first = icelens.audit(X, Y, device="cpu")
    torch.rand(7)
    np.random.default_rng().random()
    same(icelens.audit(X, Y, device="cpu"), first)


def test_ids_come_back(monkeypatch, tmp_path):
    shorten(monkeypatch)
    texts, labels, ids = reviews()
    audit = icelens.audit(texts, labels, ids=ids, device="cpu")
    assert audit.examples["id"].tolist() == ids
    assert audit.suspects(3)["id"].tolist() == [ids[row] for row in audit.suspects(3)["index"]]
    assert icelens.audit(X, Y, device="cpu").examples["id"].tolist() == list(range(150))
    mixed = icelens.audit(X, Y, ids=np.arange(150) / 2, out=tmp_path, device="cpu")
    assert mixed.examples["id"].tolist()[:4] == ["0", "0.5", "1", "1.5"]
    hashes = np.arange(150, dtype=np.uint64) + 2**63
    large = icelens.audit(X, Y, ids=hashes, out=tmp_path / "2", device="cpu")
    assert large.examples["id"].tolist() == [str(name) for name in hashes]


def test_an_audit_is_shown_in_a_line(monkeypatch):
    shorten(monkeypatch)
    shown = repr(run_audit(iris(), device="cpu"))
    assert shown.startswith("Audit(150 examples, ")
    assert "labels are wrong, 90 % interval" in shown
    assert "\n" not in shown


def test_suspects_are_in_order_of_trust(monkeypatch):
    shorten(monkeypatch, epochs=15)
    audit = run_audit(iris(flips=(7, 60)), device="cpu")
    found = audit.suspects()
    assert found["is_issue"].all()
    assert found["rank"].tolist() == list(range(1, len(found) + 1))
    assert sorted(audit.examples["rank"]) == list(range(1, 151))
    assert len(found) == audit.examples["is_issue"].sum() >= 2
    for n in (0, 1, 10, 150, 999):
        listed = audit.suspects(n)
        assert len(listed) == min(n, 150)
        assert listed["trust"].is_monotonic_increasing
        assert listed.index.tolist() == listed["index"].tolist()
    assert set(audit.suspects(2)["index"]) == {7, 60}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"budget": 0}, r"budget must be an integer from 1 to 2\^32 − 1, got 0"),
        ({"budget": -5}, "budget must be"),
        ({"budget": 2.5}, "budget must be an integer"),
        ({"seed": -1}, "seed must be an integer from 0"),
        ({"seed": 2**32}, "seed must be"),
        ({"seed": True}, "seed must be an integer from 0 to .*, got True"),
        ({"seed": "1"}, "seed must be"),
        ({"device": "tpu9"}, "unknown device 'tpu9'"),
    ],
)
def test_settings_that_cannot_be_are_refused_before_training(settings, message, monkeypatch):
    monkeypatch.setattr("icelens.auditing.stages.fit", lambda *_, **__: pytest.fail("trained"))
    with pytest.raises(InputError, match=message):
        icelens.audit(X, Y, **settings)


def test_numpys_own_integers_are_integers(monkeypatch, tmp_path):
    shorten(monkeypatch)
    audit = icelens.audit(X, Y, seed=np.int64(3), budget=np.int32(7), out=tmp_path, device="cpu")
    assert audit.about["seed"] == 3
    assert 7 in audit.budgets["n"].tolist()


def test_one_class_alone_is_refused():
    with pytest.raises(InputError, match="one class"):
        icelens.audit(X, np.zeros(150, int))


def test_it_says_what_was_audited_and_how(monkeypatch):
    shorten(monkeypatch, epochs=3)
    about = icelens.audit(X, Y, seed=5, device="cpu").about
    assert about["kind"] == "table"
    assert (about["examples"], about["classes"], about["seed"], about["epochs"]) == (150, 3, 5, 3)
    assert about["model"] == "an MLP (4 features, 256 hidden)"
    assert about["seconds"] > 0
    assert set(about["rate_by_class"]) == {"0", "1", "2"}


def test_planted_flips_of_digits_are_found_and_counted():
    inputs, labels, moved = digits(0.1)
    audit = whole(icelens.audit(inputs, labels, device="cpu"), len(labels))
    found = audit.examples
    assert (found["guess"].astype(str) != found["label"].astype(str)).sum() > 100
    assert average_precision_score(moved, 1 - found["trust"]) > 0.9
    assert f1_score(moved, found["is_issue"]) > 0.85
    assert audit.estimate.low <= moved.sum() <= audit.estimate.high
    assert audit.estimate.high - audit.estimate.low < moved.sum()
    pair = audit.pairs.iloc[0]
    assert int(pair["label"]) == (int(pair["guess"]) + 1) % 10
    few = audit.budgets.set_index("n")["errors"][100]
    assert few == pytest.approx(moved[audit.suspects(100)["index"]].sum(), abs=5)


def test_clean_digits_have_hardly_an_issue():
    inputs, labels, _ = digits(0.0)
    audit = icelens.audit(inputs, labels, device="cpu")
    assert audit.examples["is_issue"].mean() <= 0.02
    assert audit.estimate.errors <= 0.02 * len(labels)
    assert audit.estimate.low <= 0.005 * len(labels)


def test_labels_in_another_order_than_their_rows_are_refused(monkeypatch):
    shorten(monkeypatch)
    X = pd.DataFrame({"a": np.arange(40.0), "b": np.arange(40) % 7}, index=[f"r{i}" for i in range(40)])
    y = pd.Series(np.arange(40) // 20, index=X.index)
    with pytest.raises(InputError, match="same index in another order"):
        icelens.audit(X, y.iloc[::-1])
    assert len(icelens.audit(X, y.reset_index(drop=True)).examples) == 40


@pytest.mark.parametrize(
    "index", [[1, "a", 2.5, None], ["a", "a", "b", 1], pd.MultiIndex.from_product([[1, 2], ["a", 3]])]
)
def test_names_of_rows_need_no_order(index, monkeypatch):
    shorten(monkeypatch)
    X = pd.DataFrame({"a": [1.0, 2.0, 3.0, 5.0]}, index=index)
    y = pd.Series([0, 0, 1, 1], index=X.index)
    with pytest.raises(InputError, match="same index in another order"):
        icelens.audit(X, y.iloc[::-1])
    assert len(icelens.audit(X, y.set_axis(["b", "b", *range(2)]), device="cpu").examples) == 4


def test_corrected_labels_need_no_second_embedding(tmp_path, monkeypatch, bert):
    shorten(monkeypatch)
    texts = [f"{word} {number}" for number in range(20) for word in ("good", "bad")]
    labels = ["yes", "no"] * 20
    first = icelens.audit(texts, labels, backbone=bert, out=tmp_path / "first")
    assert first.about["backbone"] == bert.name
    monkeypatch.setattr(backbone, "text_encoder", None)
    icelens.audit(texts, ["no", "no", *labels[2:]], backbone=bert, out=tmp_path / "second")
    with pytest.raises(TypeError):  # another text has to be read
        icelens.audit([*texts[1:], "new"], labels, backbone=bert, out=tmp_path / "third")


def test_a_rare_class_is_not_given_up():
    """One example in 25 is of it, and a tenth of all labels is wrong: so most of its labels are."""
    draw = np.random.default_rng(0)
    truth = (np.arange(1200) < 48).astype(int)
    X = draw.normal(size=(1200, 3)) + 2.5 * truth[:, None]
    wrong = np.isin(np.arange(1200), draw.choice(1200, 120, replace=False))
    found = icelens.audit(X, np.where(wrong, 1 - truth, truth), device="cpu")
    listed = found.examples["is_issue"].to_numpy()
    assert (listed & wrong).sum() > 100
    assert (listed & ~wrong).sum() < 10
    assert found.estimate.low < 120 < found.estimate.high
    assert found.about["gain"] > 30
