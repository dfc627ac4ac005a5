"""cleanlab: tables of label issues in both directions, and the issue type "ice" of Datalab."""

import numpy as np
import pandas as pd
import pytest
from cleanlab import Datalab
from cleanlab.classification import CleanLearning
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

import icelens
from icelens.errors import InputError
from icelens.integrations.cleanlab import from_cleanlab, to_cleanlab

# cleanlab and datasets warn of their own libraries.
pytestmark = pytest.mark.filterwarnings("ignore:::cleanlab", "ignore:::datasets", "ignore:::multiprocess")
NAMES = np.array(["setosa", "versicolor", "virginica"])


@pytest.fixture(scope="module")
def flipped():
    """Iris with five labels of the first class moved to the third."""
    X, y = load_iris(return_X_y=True)
    given = y.copy()
    given[:5] = 2
    return X, given


@pytest.fixture(scope="module")
def audit(flipped):
    return icelens.audit(flipped[0], NAMES[flipped[1]], device="cpu")


@pytest.fixture(scope="module")
def probabilities(flipped):
    return cross_val_predict(LogisticRegression(max_iter=500), *flipped, cv=3, method="predict_proba")


def lab_of(labels):
    return Datalab({"y": list(labels)}, label_name="y", task="classification", verbosity=0)


def test_the_table_is_what_cleanlab_itself_gives(flipped, audit, probabilities):
    mine = to_cleanlab(audit)
    theirs = CleanLearning(seed=0).find_label_issues(labels=flipped[1], pred_probs=probabilities)
    assert list(mine.columns) == [name for name in theirs.columns if name in mine]
    for name in mine:
        assert mine[name].dtype.kind == theirs[name].dtype.kind, name
    assert (mine["given_label"] == theirs["given_label"]).all()
    assert mine["is_label_issue"][:5].all()
    assert (mine["predicted_label"][:5] == 0).all()


def test_cleanlab_trains_on_the_table(flipped, audit):
    X, given = flipped
    learner = CleanLearning(LogisticRegression(max_iter=500), seed=0)
    learner.fit(X, given, label_issues=to_cleanlab(audit))
    assert (learner.predict(X[:5]) == 0).all()
    assert (learner.get_label_issues()["label_quality"] == audit.examples["trust"]).all()


def test_there_and_back_again(audit):
    back = from_cleanlab(to_cleanlab(audit), classes=list(audit.examples["label"].cat.categories))
    for name in back:
        assert (back[name] == audit.examples[name]).all(), name


def test_tables_of_both_of_cleanlabs_dialects_are_read(flipped, probabilities):
    given = flipped[1]
    lab = lab_of(NAMES[given])
    lab.find_issues(pred_probs=probabilities, issue_types={"label": {}})
    issues = CleanLearning(seed=0).find_label_issues(labels=given, pred_probs=probabilities)
    named, coded = from_cleanlab(lab.get_issues("label")), from_cleanlab(issues, classes=NAMES)
    pd.testing.assert_frame_equal(named, coded)
    assert list(named["label"]) == list(NAMES[given])
    assert named.sort_values("trust")["index"].head(5).isin(range(5)).all()


def test_some_rows_of_a_table_keep_their_numbers(audit):
    table = to_cleanlab(audit)
    some = from_cleanlab(table[table["is_label_issue"]].sort_values("label_quality"))
    assert some["is_issue"].all()
    assert list(some["index"]) == list(audit.suspects()["index"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.drop(columns="label_quality"), "no label_quality or label_score"),
        (
            lambda table: table.drop(columns=["given_label", "predicted_label"]),
            "no given_label and predicted",
        ),
        (lambda table: table.set_index(table.index.astype(str)), "row numbers, each once"),
        (lambda table: pd.concat([table, table]), "row numbers, each once"),
        (
            lambda table: table.assign(label_quality=2.0),
            r"label_quality must lie in \[0, 1\], got 2.0 at index 0",
        ),
        (lambda table: table.assign(label_quality=np.nan), "must lie in"),
        (lambda table: table.assign(given_label=3), "given_label holds class 3 but there are 3 classes"),
        (lambda table: table.assign(predicted_label="a"), "predicted_label holds names already"),
    ],
)
def test_tables_that_cannot_be_read_are_errors(audit, change, message):
    with pytest.raises(InputError, match=message):
        from_cleanlab(change(to_cleanlab(audit)), classes=NAMES)


def test_datalab_reports_ice_beside_its_own_scores(flipped, audit, probabilities, capsys):
    lab = lab_of(NAMES[flipped[1]])
    lab.find_issues(pred_probs=probabilities, issue_types={"label": {}, "ice": {"audit": audit}})
    issues = lab.get_issues()
    assert {"is_label_issue", "label_score", "is_ice_issue", "ice_score"} <= set(issues.columns)
    found = lab.get_issues("ice")
    assert found["is_ice_issue"][:5].all()
    assert set(found.sort_values("ice_score").index[:5]) == set(range(5))
    summary = lab.get_issue_summary("ice")
    assert summary["num_issues"].item() == found["is_ice_issue"].sum()
    assert summary["score"].item() == pytest.approx(found["ice_score"].mean())
    lab.report(verbosity=1)
    assert " ice issues " in capsys.readouterr().out


def test_features_and_an_audit_of_them_say_the_same(flipped, audit):
    X, given = flipped
    by_features, by_audit = lab_of(NAMES[given]), lab_of(given)
    by_features.find_issues(issue_types={"ice": {"features": X, "device": "cpu"}})
    by_audit.find_issues(issue_types={"ice": {"audit": audit}})
    pd.testing.assert_frame_equal(by_features.get_issues("ice"), by_audit.get_issues("ice"))
    for name, value in by_features.get_info("ice").items():
        assert value == by_audit.get_info("ice")[name], name
    assert by_audit.get_info("ice")["predicted_label"][:5] == [0] * 5


def test_a_saved_lab_keeps_what_ice_said(flipped, audit, tmp_path):
    lab = lab_of(flipped[1])
    lab.find_issues(issue_types={"ice": {"audit": audit}})
    lab.save(str(tmp_path / "lab"))
    again = Datalab.load(str(tmp_path / "lab"))
    pd.testing.assert_frame_equal(again.get_issues("ice"), lab.get_issues("ice"))
    assert again.get_info("ice") == lab.get_info("ice")


def test_a_seed_reaches_the_audit(flipped, audit):
    lab = lab_of(flipped[1])
    lab.find_issues(issue_types={"ice": {"features": flipped[0], "seed": 1, "device": "cpu"}})
    assert (lab.get_issues("ice")["ice_score"] != audit.examples["trust"]).any()


def test_mistakes_are_raised_and_not_printed(flipped, audit):
    X, given = flipped
    lab, other = lab_of(given), given.copy()
    other[149] = 0
    wrong = {
        "either features or an audit": [{}, {"features": X, "audit": audit}],
        "must be an icelens.Audit, got DataFrame": [{"audit": audit.examples}],
        "149 rows|150 labels|149": [{"features": X[:149]}],
    }
    for message, settings in wrong.items():
        for setting in settings:
            with pytest.raises(InputError, match=message):
                lab.find_issues(issue_types={"ice": setting})
    with pytest.raises(TypeError, match="sead"):
        lab.find_issues(issue_types={"ice": {"features": X, "sead": 1}})
    with pytest.raises(InputError, match="other labels than those of the Datalab; first at index 149"):
        lab_of(other).find_issues(issue_types={"ice": {"audit": audit}})
    with pytest.raises(InputError, match="of 150 examples, the Datalab has 149"):
        lab_of(given[:149]).find_issues(issue_types={"ice": {"audit": audit}})
    with pytest.raises(InputError, match="needs labels"):
        Datalab({"x": list(given)}, verbosity=0).find_issues(issue_types={"ice": {"features": X}})
