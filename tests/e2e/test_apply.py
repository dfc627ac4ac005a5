"""From an audit to a cleaned file as people get there: audit, import verdicts, apply, retrain, export."""

import csv
import json

import numpy as np
import pytest
from audit_data import reviews, shorten
from own_files import write_csv
from sklearn.datasets import load_iris

import icelens

WRONG = {"r004": "good", "r011": "bad"}


@pytest.fixture(autouse=True)
def short(monkeypatch):
    shorten(monkeypatch)


@pytest.fixture
def reviewed(command, tmp_path):
    texts, labels, ids = reviews(60)
    write_csv(tmp_path / "reviews.csv", {"id": ids, "text": texts, "mood": labels})
    assert command("audit", "reviews.csv", "--label", "mood", "--device", "cpu")[0] == 0
    rows = [(id, "relabel", label) for id, label in WRONG.items()] + [
        ("r020", "drop", ""),
        ("r021", "unsure", ""),
    ]
    with (tmp_path / "verdicts.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "verdict", "label"), *rows])
    return command


def test_audit_verdicts_apply(reviewed, tmp_path):
    assert reviewed("apply", "reviews-audit", "--out", "cleaned.csv") == (
        2, "", "icelens: reviews-audit holds no verdicts yet; give some with: icelens review reviews-audit\n"
    )  # fmt: skip
    code, out, _ = reviewed("import", "reviews-audit", "verdicts.csv", "--who", "ann")
    assert (code, out) == (0, "4 verdicts in verdicts.csv, 4 of them new\n")
    code, out, err = reviewed("apply", "reviews-audit", "--out", "cleaned.csv")
    assert (code, err) == (0, "")
    assert out == (
        "cleaned.csv: 59 rows, 2 of them with a new label; 1 dropped. "
        "What changed is in cleaned.changes.csv\n"
    )
    before, after = (
        (tmp_path / name).read_bytes().splitlines(True) for name in ("reviews.csv", "cleaned.csv")
    )
    before.remove(next(line for line in before if line.startswith(b"r020")))
    differ = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert [old[:4].decode() for old, _ in differ] == list(WRONG)
    assert all(
        new == old[: old.rindex(b",") + 1] + WRONG[old[:4].decode()].encode() + b"\r\n" for old, new in differ
    )
    code, _, err = reviewed("apply", "reviews-audit", "--out", "cleaned.csv")
    assert (code, err) == (
        2,
        "icelens: cleaned.csv exists; give another name (--out), or replace it (--force)\n",
    )
    assert reviewed("apply", "reviews-audit", "--out", "cleaned.csv", "--history", "--force")[0] == 0
    assert (tmp_path / "cleaned.csv").read_text().splitlines()[0] == "id,text,mood,label_before"
    code, _, err = reviewed("apply", "reviews-audit", "--out", "reviews.csv", "--force")
    assert code == 2
    assert "is the data that was audited" in err


def test_data_that_moved_or_changed(reviewed, tmp_path):
    assert reviewed("import", "reviews-audit", "verdicts.csv")[0] == 0
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "reviews.csv").rename(tmp_path / "elsewhere" / "reviews.csv")
    code, _, err = reviewed("apply", "reviews-audit", "--out", "cleaned.csv")
    assert (code, err) == (
        2,
        f"icelens: {tmp_path / 'reviews.csv'}: no such file or folder; say where it is (--data)\n",
    )
    assert (
        reviewed("apply", "reviews-audit", "--out", "cleaned.csv", "--data", "elsewhere/reviews.csv")[0] == 0
    )
    text = (tmp_path / "elsewhere" / "reviews.csv").read_text()
    (tmp_path / "elsewhere" / "reviews.csv").write_text(text.replace("The parcel", "A parcel", 1))
    words = ("apply", "reviews-audit", "--out", "again.csv", "--data", "elsewhere/reviews.csv")
    code, _, err = reviewed(*words)
    assert code == 2
    assert "changed since it was audited" in err
    assert not (tmp_path / "again.csv").exists()


def test_retrain_and_export(reviewed, tmp_path):
    assert reviewed("import", "reviews-audit", "verdicts.csv")[0] == 0
    code, out, _ = reviewed("retrain", "reviews-audit", "--device", "cpu", "--json")
    assert code == 0
    found = json.loads(out)
    assert (found["relabelled"], found["dropped"], found["reviewed"]["n"]) == (2, 1, 2)
    code, out, _ = reviewed("retrain", "reviews-audit", "--device", "cpu")
    assert code == 0
    assert "with the given labels" in out
    code, out, _ = reviewed(
        "export", "reviews-audit", "--to", "labelstudio", "--out", "tasks.json", "--first", "5"
    )
    assert code == 0
    assert out.startswith("tasks.json: 5 tasks without 4 examples that have a verdict; paste tasks.xml into")
    code, out, err = reviewed("export", "reviews-audit", "--to", "aum", "--out", "aum.csv", "--device", "cpu")
    assert code == 0
    assert "trained once more" in err
    code, _, err = reviewed("export", "reviews-audit", "--to", "excel", "--out", "x")
    assert code == 2
    assert "unknown target 'excel'" in err
    (tmp_path / "stopped").mkdir()
    (tmp_path / "stopped/recipe.json").write_text("{}")
    for words in (("export", "--to", "csv", "--out", "x.csv"), ("apply", "--out", "x.csv"), ("review",),
                  ("retrain",), ("import", "verdicts.csv")):  # fmt: skip
        for place, why in (
            ("nowhere", "nowhere: no such folder; audits there are reviews-audit"),
            ("reviews.csv", "reviews.csv is a file; name the folder that icelens audit wrote"),
            ("elsewhere", "elsewhere: holds no finished audit; run icelens audit first"),
            ("stopped", "stopped: holds an audit that was stopped; give its icelens audit again"),
        ):
            (tmp_path / "elsewhere").mkdir(exist_ok=True)
            assert reviewed(words[0], place, *words[1:]) == (2, "", f"icelens: {why}\n")


def test_arrays_are_applied_to_a_file_that_holds_them(command, tmp_path, monkeypatch):
    X, y = load_iris(return_X_y=True)
    y[7] = 2
    icelens.audit(X, y, out=tmp_path / "flowers", device="cpu")
    (tmp_path / "verdicts.csv").write_text("index,label\n7,0\n")
    assert command("import", "flowers", "verdicts.csv")[0] == 0
    words = ("apply", "flowers", "--out", "cleaned.npz")
    code, _, err = command(*words)
    assert code == 2
    assert "was made from arrays in memory" in err
    assert "numpy.savez('data.npz', X=X, y=y)" in err
    np.savez(tmp_path / "data.npz", X=X, y=y)
    code, out, err = command(*words, "--data", "data.npz")
    assert (code, err) == (0, "")
    assert out.startswith("cleaned.npz: 150 rows, 1 of them with a new label; 0 dropped.")
    assert np.load(tmp_path / "cleaned.npz")["y"][7] == 0
    np.savez(tmp_path / "other.npz", X=X[::-1], y=y)
    code, _, err = command(*words, "--data", "other.npz", "--force")
    assert code == 2
    assert "other.npz does not hold the arrays that were audited into flowers. Save the same rows" in err
