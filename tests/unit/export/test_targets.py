"""What is written for other tools, read by those tools."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import pytest
from audit_data import shapes, shorten
from cleanlab.classification import CleanLearning
from own_files import write_csv
from PIL import Image
from sklearn.linear_model import LogisticRegression

from icelens.auditing.public import run_audit
from icelens.auditing.source import Source, source_data
from icelens.errors import InputError
from icelens.export.mark import mark
from icelens.export.targets import TARGETS, export_audit
from icelens.review.store import Store

FIFTYONE = """
import json, sys
import fiftyone as fo
import fiftyone.core.odm as odm
content = json.load(open(sys.argv[1]))
for field in content["sample_fields"].values():
    odm.get_field_kwargs(field)
samples = [fo.Sample.from_dict(sample) for sample in content["samples"]]
print(json.dumps([
    [s.filepath, s.tags, s.ground_truth.label, s.given.label, s.guess.label, s.guess.confidence, s.trust,
     s.icelens_id, s.icelens_index, s.media_type] for s in samples
]))
"""


def judge(folder, **given):
    with Store(folder) as store:
        for kind, indices in given.items():
            for index in indices:
                label = indices[index] if kind == "relabel" else None
                store.judge(index, kind, label=label, who="ann", key=f"{kind}{index}", new_class=True)


def test_tables_hold_what_was_audited_and_what_was_said(audit, tmp_path, examples):
    run = audit("text")
    judge(run, relabel={4: "good", 5: "mixed"}, drop=[6], keep=[7], unsure=[8])
    export_audit(run, "csv", tmp_path / "all.csv")
    export_audit(run, "parquet", tmp_path / "all.parquet")
    told, typed = (
        pd.read_csv(tmp_path / "all.csv", dtype={"id": str}),
        pd.read_parquet(tmp_path / "all.parquet"),
    )
    given = examples(run)
    pd.testing.assert_frame_equal(typed[given.columns], given)
    for table in (told, typed):
        assert table["id"].tolist() == given["id"].tolist()
        assert table["verdict"].dropna().tolist() == ["relabel", "relabel", "drop", "keep", "unsure"]
        assert table.loc[4:8, "label_after"].fillna("-").tolist() == [
            "good",
            "mixed",
            "-",
            "bad",
            given["label"][8],
        ]
        assert table.loc[9:, "label_after"].tolist() == given.loc[9:, "label"].tolist()
        assert table.loc[4, "who"] == "ann"


@pytest.mark.parametrize("kind", ["text", "image", "table"])
def test_datasets_reads_the_folder(audit, tmp_path, examples, kind):
    run = audit(kind)
    classes = list(examples(run)["label"].cat.categories)
    judge(run, relabel={1: "other"}, drop=[2], keep=[3])
    export_audit(run, "huggingface", tmp_path / "hf")
    found, given, data = datasets.load_from_disk(tmp_path / "hf"), examples(run), source_data(run)
    assert found.features["label"].names == [*classes, "other"]
    codes = given["label"].cat.codes.tolist()
    assert found["label_before"] == codes
    assert found["label"] == [codes[0], len(classes), *codes[2:]]
    assert found["verdict"][:4] == [None, "relabel", "drop", "keep"]
    np.testing.assert_allclose(found["trust"], given["trust"])
    if kind == "text":
        assert found["text"] == [text for (text,) in data.inputs]
        assert found["id"] == given["id"].tolist()
    if kind == "image":
        from PIL import Image

        for row in (0, 23):
            assert np.array_equal(np.asarray(found[row]["image"]), np.asarray(Image.open(data.inputs[row])))
    if kind == "table":
        assert found["data_kind"] == data.inputs["kind"].tolist()
        np.testing.assert_allclose(found["alcohol"], data.inputs["alcohol"])
    assert found.filter(lambda row: row["verdict"] != "drop").num_rows == len(given) - 1


def test_cleanlab_takes_the_issues(audit, tmp_path, examples):
    run = audit("table")
    data = source_data(run)
    issues = np.flatnonzero(examples(run)["is_issue"]).tolist()
    judge(run, keep=issues[:1], drop=[50], relabel={51: "0"})
    export_audit(run, "cleanlab", tmp_path / "issues.csv")
    table = pd.read_csv(tmp_path / "issues.csv")
    expected = set(issues[1:]) | {50, 51}
    assert set(np.flatnonzero(table["is_label_issue"])) == expected
    model = CleanLearning(LogisticRegression(max_iter=500), verbose=False)
    X = data.inputs.drop(columns="kind").to_numpy()
    model.fit((X - X.mean(0)) / X.std(0), data.labels, label_issues=table)
    kept = model.get_label_issues()
    assert kept["label_quality"].between(0, 1).all()
    assert set(np.flatnonzero(kept["is_label_issue"])) == expected
    with pytest.raises(ValueError, match="labels must match"):
        model.fit(X, np.roll(data.labels, 40), label_issues=table)


def interface(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from label_studio_sdk.label_interface import LabelInterface
    return LabelInterface(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", ["text", "image", "table"])
def test_label_studio_takes_tasks_and_predictions(audit, tmp_path, examples, kind):
    run = audit(kind)
    export_audit(run, "labelstudio", tmp_path / "tasks.json", first=10)
    tasks, given = json.loads((tmp_path / "tasks.json").read_text(encoding="utf-8")), examples(run)
    ranked = given.sort_values("trust", kind="stable").head(10)
    assert [task["data"]["icelens_index"] for task in tasks] == ranked["index"].tolist()
    config = interface(tmp_path / "tasks.xml")
    config.validate()
    for task in tasks:
        assert config.validate_task({"data": task["data"]})
        for prediction in task["predictions"]:
            assert config.validate_prediction(prediction, return_errors=True) == []
            assert 0 <= prediction["score"] <= 1
    broken = json.loads(json.dumps(tasks[0]["predictions"][0]))
    broken["result"][0]["value"]["choices"] = ["no such class"]
    assert config.validate_prediction(broken, return_errors=True)


@pytest.mark.parametrize("first", [None, 5])
def test_what_people_judged_is_no_task_for_label_studio(audit, tmp_path, examples, first):
    run, out = audit("text"), tmp_path / "tasks.json"
    table = examples(run).sort_values("trust", kind="stable")
    top = table["index"].tolist()[:4]
    judge(run, keep=top[:1], drop=top[1:2], unsure=top[2:3], relabel={top[3]: "mixed"})
    told = export_audit(run, "labelstudio", out, first=first)
    tasks = [task["data"]["icelens_index"] for task in json.loads(out.read_text(encoding="utf-8"))]
    left = table[~table["index"].isin(top)]
    assert tasks == (left[left["is_issue"]] if first is None else left.head(first))["index"].tolist()
    assert " without 4 examples that have a verdict; paste " in told
    with Store(run) as store:
        store.undo(who="ann", key="undo", index=top[1])
    export_audit(run, "labelstudio", out, first=1, force=True)
    assert json.loads(out.read_text(encoding="utf-8"))[0]["data"]["icelens_index"] == top[1]


def test_classes_that_xml_must_escape(audit, tmp_path):
    run = audit("text")
    odd = "<b> & \"quoted\" 'so'"
    judge(run, relabel={0: odd})
    export_audit(run, "labelstudio", tmp_path / "tasks.json", first=1)
    config = interface(tmp_path / "tasks.xml")
    assert odd in config.get_control("label").labels


def test_images_in_label_studio_are_named_below_the_folder_it_may_serve(audit, tmp_path):
    run = audit("image")
    export_audit(run, "labelstudio", tmp_path / "tasks.json", first=24)
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    assert {task["data"]["image"] for task in tasks} == {
        f"/data/local-files/?d={'lying' if row % 2 else 'standing'}/{row}.png" for row in range(24)
    }


def fiftyone_python():
    """A Python that has FiftyOne: named by ICELENS_FIFTYONE_PYTHON, or this one."""
    named = os.environ.get("ICELENS_FIFTYONE_PYTHON")
    if named:
        return named
    if importlib.util.find_spec("fiftyone") is None:
        pytest.skip("no FiftyOne here, and ICELENS_FIFTYONE_PYTHON names no Python that has it")
    return sys.executable


def test_fiftyone_reads_the_samples(audit, tmp_path, examples):
    python = fiftyone_python()
    run = audit("image")
    judge(run, relabel={1: "standing"}, drop=[2])
    export_audit(run, "fiftyone", tmp_path / "fo")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "FIFTYONE_DISABLE_SERVICES": "1"}
    command = [python, "-W", "ignore", "-c", FIFTYONE, str(tmp_path / "fo" / "samples.json")]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert answer.returncode == 0, answer.stderr
    samples, given = json.loads(answer.stdout.splitlines()[-1]), examples(run)
    assert len(samples) == 24
    for row, (path, tags, label, before, guess, p, trust, id, index, media) in enumerate(samples):
        example = given.iloc[row]
        assert Path(path).is_file()
        assert (index, id, before, guess, media) == (
            row,
            example["id"],
            example["label"],
            example["guess"],
            "image",
        )
        assert label == ("standing" if row == 1 else before)
        assert (p, trust) == pytest.approx((example["p_guess"], example["trust"]))
        assert ("icelens issue" in tags) == example["is_issue"]
    assert "relabel" in samples[1][1]
    assert "drop" in samples[2][1]


def dynamics(folder):
    """Training dynamics as Dataset Cartography reads them: guid, logits of each epoch in turn, gold."""
    found, files = {}, sorted((folder / "training_dynamics").iterdir())
    for epoch in range(len(files)):
        for line in (folder / "training_dynamics" / f"dynamics_epoch_{epoch}.jsonl").read_text().splitlines():
            record = json.loads(line)
            one = found.setdefault(record["guid"], {"gold": record["gold"], "logits": []})
            one["logits"].append(record[f"logits_epoch_{epoch}"])
    return found


def test_cartography_and_aum_come_from_the_same_epochs(audit, tmp_path, examples):
    run, said = audit("text"), []
    for target, name in (("cartography", "map"), ("aum", "aum.csv")):
        export_audit(run, target, tmp_path / name, device="cpu", tell=said.append)
    assert len(said) == 2
    assert all("trained once more" in line for line in said)
    found, given = dynamics(tmp_path / "map"), examples(run)
    assert list(found) == given["id"].tolist()
    logits = np.array([one["logits"] for one in found.values()])
    gold = np.array([one["gold"] for one in found.values()])
    assert logits.shape == (60, 2, 2)  # examples, epochs, classes
    assert gold.tolist() == given["label"].cat.codes.tolist()
    np.testing.assert_allclose(np.exp(logits).sum(2), 1, atol=1e-4)
    assert np.abs(logits[:, 0] - logits[:, 1]).max() > 0.01  # it learned
    table = pd.read_csv(tmp_path / "aum.csv")
    assert table["aum"].is_monotonic_decreasing
    margin = [np.mean([z[y] - z[1 - y] for z in one]) for one, y in zip(logits, gold, strict=True)]
    aum = table.set_index("sample_id")["aum"].loc[list(found)]
    np.testing.assert_allclose(aum, margin, atol=1e-3)
    # The two that are wrong are least like their label to both.
    assert set(table["sample_id"].tail(2)) == {"r004", "r011"}


def test_what_cannot_be_written_is_told(audit, tmp_path):
    run = audit("text")
    with pytest.raises(InputError, match="unknown target 'labelstudo'; did you mean 'labelstudio'"):
        export_audit(run, "labelstudo", tmp_path / "x")
    with pytest.raises(InputError, match="FiftyOne shows images"):
        export_audit(run, "fiftyone", tmp_path / "x")
    with pytest.raises(InputError, match=r"named .csv"):
        export_audit(run, "csv", tmp_path / "x.parquet")
    with pytest.raises(InputError, match="for labelstudio alone"):
        export_audit(run, "csv", tmp_path / "x.csv", first=3)
    with pytest.raises(InputError, match="--device is for cartography and aum alone, got cuda for csv"):
        export_audit(run, "csv", tmp_path / "x.csv", device="cuda")
    (tmp_path / "x.csv").write_text("mine")
    with pytest.raises(InputError, match="exists"):
        export_audit(run, "csv", tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text() == "mine"
    source = Path(json.loads((run / "recipe.json").read_text())["source"]["path"])
    with pytest.raises(InputError, match="the data that was audited"):
        export_audit(run, "csv", source, force=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "dear.txt").write_text("x")
    with pytest.raises(InputError, match="did not write"):
        export_audit(run, "huggingface", tmp_path / "mine", force=True)
    assert not list(tmp_path.glob(".*.part"))


@pytest.mark.parametrize("holds", ["images", "saved", "more", "less", "changed"])
def test_a_folder_that_icelens_did_not_write_as_it_is_stays(audit, tmp_path, holds):
    run, out = audit("table"), tmp_path / "out"
    if holds == "images":
        (out / "images").mkdir(parents=True)
        (out / "images" / "0.png").write_bytes(b"dear")
    elif holds == "saved":  # the names of the files are the same
        datasets.Dataset.from_dict({"x": [1, 2]}).save_to_disk(out)
    else:
        export_audit(run, "huggingface", out)
        info = out / "dataset_info.json"
        {
            "more": lambda: (out / "mine.txt").write_text("dear"),
            "less": info.unlink,
            "changed": lambda: info.write_text(info.read_text() + " "),
        }[holds]()
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with pytest.raises(InputError, match="a folder that icelens did not write; remove it yourself"):
        export_audit(run, "huggingface", out, force=True)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_images_that_a_table_names_are_not_replaced(tmp_path, monkeypatch):
    """Not even where icelens wrote them: an export may have been labelled and audited."""
    shorten(monkeypatch)
    images, bars = shapes(24)
    for row, image in enumerate(images):
        path = tmp_path / "dataset" / "images" / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    mark(tmp_path / "dataset")
    names = [f"dataset/images/{row}.png" for row in range(24)]
    source = Source(str(write_csv(tmp_path / "labels.csv", {"file": names, "label": bars})))
    run_audit(source.read(), device="cpu", out=tmp_path / "run", report=False, source=source)
    with pytest.raises(InputError, match="a folder that icelens did not write"):
        export_audit(tmp_path / "run", "fiftyone", tmp_path / "dataset" / "images", force=True)
    with pytest.raises(InputError, match="holds images that were audited"):
        export_audit(tmp_path / "run", "fiftyone", tmp_path / "dataset", force=True)
    assert len(list((tmp_path / "dataset" / "images").iterdir())) == 24
    assert export_audit(tmp_path / "run", "fiftyone", tmp_path / "beside")


def test_every_target_is_written_and_replaced_when_asked(audit, tmp_path):
    run = audit("image")
    assert set(TARGETS) == {
        "csv",
        "parquet",
        "huggingface",
        "labelstudio",
        "fiftyone",
        "cleanlab",
        "cartography",
        "aum",
    }
    for name, target in TARGETS.items():
        out = tmp_path / f"{name}{target.suffixes[0] if target.suffixes else ''}"
        for force in (False, True):
            assert export_audit(run, name, out, device="cpu" if target.trains else None, force=force)
        assert out.is_dir() == (not target.suffixes)
        shutil.rmtree(out) if out.is_dir() else out.unlink()
