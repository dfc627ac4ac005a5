"""`icelens audit` as people run it: real files in, a folder and a few lines out; one line when it fails."""

import json
import os
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from audit_data import reviews, shapes, shorten
from own_files import write_csv, write_jsonl, write_parquet
from PIL import Image
from sklearn.datasets import load_digits, load_wine

from icelens.auditing import stages

FILES = {"recipe.json", "examples.parquet", "examples.csv", "audit.json", "history.npz", "report.html",
         "model.safetensors", "review.npz"}  # fmt: skip
LAST_LINES = """; all examples are in {0}/examples.csv and .parquet.
To judge them one by one: icelens review {0}
"""
# A shell that starts pytest in the background lets its children ignore Ctrl-C.
ICELENS = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); {first}; "
ICELENS += "from icelens.cli import main; sys.argv[0] = 'icelens'; main()"


def start(*words, cwd, first="pass"):
    command = [sys.executable, "-c", ICELENS.format(first=first), *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=cwd, env=environment, **pipes)


def icelens(*words, cwd, first="pass"):
    """Exit code, standard output and standard error of a process of its own."""
    process = start(*words, cwd=cwd, first=first)
    out, err = process.communicate()
    return process.returncode, out, err


def names(folder):
    return {file.name for file in folder.iterdir()}


def review_columns(rows=60):
    texts, labels, ids = reviews(rows)
    return {"id": ids, "review": texts, "mood": labels}


def image_folder(folder):
    images, bars = shapes(24)
    for row, (image, bar) in enumerate(zip(images, bars, strict=True)):
        (folder / ("lying" if bar else "standing")).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / ("lying" if bar else "standing") / f"{row}.png")
    return folder


def wine_table(path):
    loaded = load_wine(as_frame=True)
    table = loaded.data.iloc[::2, :6].assign(cultivar=np.array(["red", "rosé", "white"])[loaded.target[::2]])
    table.loc[0, "cultivar"] = "white"  # is red
    table.to_parquet(path, index=False)
    return path


def small_digits(path):
    X, y = load_digits(return_X_y=True)
    np.savez(path, images=(X[:200] * 15.9).astype(np.uint8).reshape(-1, 8, 8), labels=y[:200])
    return path


def test_a_csv_of_texts_and_the_same_command_again(tmp_path, command, monkeypatch):
    write_csv(tmp_path / "reviews.csv", review_columns())
    words = ("audit", "reviews.csv", "--label", "mood", "--text", "review")
    code, out, err = icelens(*words, cwd=tmp_path)
    assert code == 0, err
    assert err == "ids are in column 'id'\n"  # what was inferred, and no bar: stderr is no terminal
    assert "of 60 labels in reviews.csv" in out.splitlines()[0]
    assert out.splitlines()[-2].startswith("Look at reviews-audit/report.html")
    assert out.endswith(LAST_LINES.format("reviews-audit"))
    folder = tmp_path / "reviews-audit"
    assert names(folder) == FILES
    examples = pd.read_parquet(folder / "examples.parquet").sort_values("trust")
    assert set(examples["id"].iloc[:2]) == {"r004", "r011"}
    written = {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}
    monkeypatch.setattr(stages, "fit", lambda *_, **__: pytest.fail("trained again"))
    assert command(*words) == (0, out, err)
    kept = {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}
    assert [name for name in FILES if kept[name] != written[name]] == ["report.html"]


def test_an_image_folder(tmp_path, command):
    image_folder(tmp_path / "bars")
    os.rename(tmp_path / "bars/lying/1.png", tmp_path / "bars/standing/x.png")
    code, out, err = command("audit", "bars")
    assert code == 0, err
    assert "classes are the names of folders" in err
    examples = pd.read_parquet(tmp_path / "bars-audit/examples.parquet")
    assert len(examples) == 24
    assert examples.sort_values("trust")["id"].iloc[0] == "standing/x.png"
    assert "standing/x.png" in out


def test_a_parquet_table_on_a_disk_that_is_full_and_then_is_not(tmp_path, command):
    wine_table(tmp_path / "wines.parquet")
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))"
    words = ("audit", "wines.parquet", "--label", "cultivar")
    code, out, err = icelens(*words, cwd=tmp_path, first=limited)
    assert (code, out) == (1, "")
    assert err.splitlines()[-1] == "icelens: wines-audit: File too large"
    assert err.count("icelens:") == 1
    files = [file.name for file in (tmp_path / "wines-audit").rglob("*") if file.is_file()]
    assert files == ["recipe.json"]
    code, out, _ = command(*words)
    assert code == 0
    assert "in wines.parquet" in out
    assert names(tmp_path / "wines-audit") == FILES
    examples = pd.read_parquet(tmp_path / "wines-audit/examples.parquet")
    assert examples.sort_values("trust")["index"].iloc[0] == 0
    assert examples["guess"].iloc[0] == "red"


def test_ctrl_c_is_one_line_and_the_same_command_goes_on(tmp_path, command, monkeypatch):
    small_digits(tmp_path / "digits.npz")
    process = start("audit", "digits.npz", cwd=tmp_path)
    first_run = tmp_path / "digits-audit/stages/whole.npz"
    while process.poll() is None and not first_run.exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1].startswith("icelens: interrupted; the same command goes on")
    assert err.count("icelens:") == 1
    assert "Traceback" not in err
    assert not [file for file in (tmp_path / "digits-audit").rglob("*") if file.name.endswith(".part")]

    trained, fit = [], stages.fit
    monkeypatch.setattr(
        stages, "fit", lambda *words, **more: trained.append(more["title"]) or fit(*words, **more)
    )
    code, out, _ = command("audit", "digits.npz")
    assert code == 0
    assert "training on all" not in trained
    assert trained[-1] == "part 4 of 4 left out"
    assert "of 200 labels in digits.npz" in out
    assert names(tmp_path / "digits-audit") == FILES


def test_ctrl_c_before_a_run_is_finished_says_that_all_starts_again(tmp_path):
    small_digits(tmp_path / "digits.npz")
    process = start("audit", "digits.npz", cwd=tmp_path)
    while process.poll() is None and not (tmp_path / "digits-audit/recipe.json").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert not (tmp_path / "digits-audit/stages/whole.npz").exists()
    assert err.splitlines()[-1] == "icelens: interrupted; no run was finished, the same command starts again"


def test_json_budget_out_and_seed(tmp_path, command):
    write_jsonl(tmp_path / "reviews.jsonl", review_columns())
    words = ("audit", "reviews.jsonl", "--label", "mood", "--out", "here/there", "--seed", 5)
    code, out, err = command(*words, "--json")
    assert code == 0, err
    found = json.loads(out, parse_constant=pytest.fail)
    stored = json.loads((tmp_path / "here/there/audit.json").read_text())
    keys = {*stored, "examples", "issues", "suspects", "report", "table"}
    assert set(found) == keys
    assert {name: found[name] for name in stored} == stored
    assert set(stored) >= {"estimate", "pairs", "by_class", "budgets", "about"}
    assert [row["rank"] for row in found["suspects"]] == list(range(1, 21))
    assert set(found["estimate"]) == {"errors", "low", "high"}
    assert (found["examples"], found["about"]["seed"], len(found["suspects"])) == (60, 5, 20)
    assert {row["id"] for row in found["suspects"][:2]} == {"r004", "r011"}
    trusts = [row["trust"] for row in found["suspects"]]
    assert trusts == sorted(trusts)
    assert (tmp_path / found["report"]).read_text().startswith("<!doctype html>")
    assert len(pd.read_parquet(tmp_path / found["table"])) == 60
    assert names(tmp_path) == {"reviews.jsonl", "here"}

    code, out, _ = command(*words, "--json", "--budget", 3)
    asked = json.loads(out)
    assert set(asked) == keys | {"expected_errors"}
    assert len(asked["suspects"]) == 3
    assert asked["expected_errors"] == pytest.approx(sum(1 - row["trust"] for row in asked["suspects"]))
    code, out, _ = command(*words, "--budget", 3)
    errors = round(asked["expected_errors"])
    assert f"In the first 3 of the list, expect {errors} error{'' if errors == 1 else 's'}." in out
    assert "In the first 1 of the list, expect 1 error.\n" in command(*words, "--budget", 1)[1]
    code, _, err = command(*words[:-1], 6)
    assert code == 2
    assert err.splitlines()[-1] == (
        f"icelens: {os.path.join('here', 'there')} holds an audit with seed=5, not 6; "
        "give another folder (--out, from Python out=), or make it anew in this one (--again, again=True)"
    )


def test_of_labels_by_chance_nothing_is_promised(tmp_path):
    draw = np.random.default_rng(0)
    table = pd.DataFrame(draw.normal(size=(200, 3)), columns=list("abc"))
    table.assign(label=draw.choice(["yes", "no"], 200)).to_csv(tmp_path / "chance.csv", index=False)
    words = ("audit", "chance.csv", "--label", "label", "--device", "cpu", "--budget", 50, "--out", "found")
    code, out, _ = icelens(*words, cwd=tmp_path)
    assert code == 0
    assert "The model learned next to nothing here" in out
    assert "How many errors the first 50 of the list hold is not known." in out
    assert "expect" not in out
    report = (tmp_path / "found/report.html").read_text()
    assert "nats by which labels that were left out" in report
    started = pd.Series(np.load(tmp_path / "found/history.npz")["confidence"][0]).unique()
    assert f"It starts at {started.item():.4g}, rises" in report


def test_an_audit_is_made_anew_after_the_file_was_mended_and_the_old_one_is_kept(tmp_path, command):
    columns = review_columns()
    write_jsonl(tmp_path / "reviews.jsonl", columns)
    words = ("audit", "reviews.jsonl", "--label", "mood")
    assert command(*words)[0] == 0
    before = {file.name: file.read_bytes() for file in (tmp_path / "reviews-audit").iterdir()}
    columns["mood"] = columns["mood"][1:] + columns["mood"][:1]
    write_jsonl(tmp_path / "reviews.jsonl", columns)
    assert command(*words)[0] == 2
    code, _, err = command(*words, "--again")
    assert code == 0, err
    assert "the audit that lay there is in reviews-audit.1" in err.splitlines()
    assert {file.name: file.read_bytes() for file in (tmp_path / "reviews-audit.1").iterdir()} == before
    assert names(tmp_path / "reviews-audit") == names(tmp_path / "reviews-audit.1")
    assert command(*words)[0] == 0  # the new one is that of the new file
    assert "reviews-audit.2" in command(*words, "--again")[2]


class Tags(HTMLParser):
    """The elements of a page, and all that stands between them."""

    def __init__(self, source):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def test_html_in_texts_labels_and_ids_is_text_in_the_report(tmp_path, command):
    evil = "<script>window.pwned = 1</script>"
    columns = review_columns(40)
    columns["review"] = [f"{evil} {text} <img src=x onerror=alert(1)>" for text in columns["review"]]
    columns["mood"] = [evil if mood == "bad" else "good" for mood in columns["mood"]]
    columns["id"] = [f"<b onclick=alert(1)>{name}" for name in columns["id"]]
    write_csv(tmp_path / "<i>evil.csv", columns)
    code, out, err = command("audit", "<i>evil.csv", "--label", "mood", "--text", "review")
    assert code == 0, err
    assert evil in out
    page = Tags((tmp_path / "<i>evil-audit/report.html").read_text(encoding="utf-8"))
    assert len(page.tags) > 100
    kinds = [attributes.get("type") for tag, attributes in page.tags if tag == "script"]
    assert kinds == ["application/json", None]  # those of the page itself
    assert not [tag for tag, attributes in page.tags if any(name.startswith("on") for name in attributes)]
    assert not [1 for tag, attributes in page.tags if tag == "img" and attributes.get("src") == "x"]
    assert evil in page.text


def write_all(folder):
    """A file for every way in which data can be wrong."""
    columns = review_columns(20)
    write_csv(folder / "good.csv", columns)
    (folder / "empty.csv").touch()
    (folder / "header.csv").write_text("review,mood\n")
    write_csv(folder / "one.csv", columns | {"mood": ["good"] * 20})
    write_csv(folder / "rare.csv", columns | {"mood": [*columns["mood"][:-1], "odd"]})
    write_csv(folder / "missing.csv", columns | {"mood": ["", *columns["mood"][1:]]})
    write_csv(folder / "fractions.csv", columns | {"mood": [n / 8 for n in range(20)]})
    write_csv(folder / "twice.csv", columns | {"id": ["same", *columns["id"][1:-1], "same"]})
    (folder / "latin.csv").write_bytes((folder / "good.csv").read_bytes() + b"x,caf\xe9 au lait,good\n")
    whole = write_parquet(folder / "whole.parquet", columns).read_bytes()
    (folder / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    image_folder(folder / "broken")
    (folder / "broken/lying/1.png").write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    (folder / "notes").mkdir()
    (folder / "notes/thesis.tex").write_text("precious")


MISUSE = {
    "a misspelt column": ("good.csv --label moood", "no column 'moood'; did you mean 'mood'?"),
    "a misspelt text": ("good.csv --label mood --text reviw", "no column 'reviw'; did you mean 'review'?"),
    "an empty file": ("empty.csv", "empty.csv: "),
    "a header alone": ("header.csv --label mood", "header.csv: "),
    "one class": ("one.csv --label mood", "holds one class alone, 'good'"),
    "a class with one example": ("rare.csv --label mood", "class 'odd' (row 19) has one example alone"),
    "missing labels": ("missing.csv --label mood", "is empty in 1 of 20 rows, first in row 0"),
    "fractions": ("fractions.csv --label mood", "labels must be classes"),
    "ids that are not unique": ("twice.csv --label mood --id id", "'same' twice, in rows 0 and 19"),
    "a broken image": ("broken", "1 of 24 images cannot be read, first row 0, 'broken/lying/1.png'"),
    "a truncated Parquet file": ("cut.parquet --label mood", "cut.parquet: "),
    "bytes that are not UTF-8": ("latin.csv --label mood", "not UTF-8"),
    "a missing file": ("absent.csv", "absent.csv: no such file or folder"),
    "an unknown kind of file": ("notes/thesis.tex", "not a known kind of file"),
    "a folder of something else": (
        "good.csv --label mood --out notes",
        "notes is not empty and holds no audit",
    ),
    "a file for a folder": ("good.csv --label mood --out one.csv", "one.csv is a file"),
    "an unknown device": ("good.csv --label mood --device tpu9", "unknown device 'tpu9'"),
    "a budget of nothing": ("good.csv --label mood --budget 0", "budget must be an integer from 1"),
    "a negative seed": ("good.csv --label mood --seed -1", "seed must be an integer from 0"),
}


@pytest.mark.parametrize("case", MISUSE)
def test_misuse_is_one_line_and_leaves_nothing_behind(case, tmp_path, command):
    write_all(tmp_path)
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")}
    words, message = MISUSE[case]
    code, out, err = command("audit", *words.split())
    assert (code, out) == (2, "")
    line = err.splitlines()[-1]
    assert line.startswith("icelens: ")
    assert message in line
    assert err.count("icelens:") == 1
    assert "Traceback" not in err
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")} == before


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        ("missing.csv --label mood --drop-unlabelled", 19),
        ("rare.csv --label mood --keep-rare", 20),
        ("broken --skip-broken", 23),
    ],
)
def test_what_is_let_through_is_audited(words, rows, tmp_path, command, monkeypatch):
    shorten(monkeypatch)
    write_all(tmp_path)
    code, out, err = command("audit", *words.split(), "--out", "found")
    assert code == 0, err
    assert f"of {rows} labels" in out
    assert len(pd.read_parquet(tmp_path / "found/examples.parquet")) == rows
