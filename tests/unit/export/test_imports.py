"""Verdicts from Label Studio and from tables: each arrives once, all or none."""

import csv
import json

import pytest

from icelens.errors import FileError, InputError
from icelens.export.imports import import_verdicts
from icelens.export.targets import export_audit
from icelens.review.store import Store


def standing(folder):
    with Store(folder) as store:
        return {verdict.index: (verdict.verdict, verdict.label, verdict.who) for verdict in store.verdicts()}


def written(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


def annotation(number, label=None, *, verdict=None, who=1, minute=0, skipped=False, year=2026):
    """As Label Studio exports one."""
    chosen = (("label", label), ("verdict", verdict))
    result = [
        {"id": f"r{number}", "from_name": name, "to_name": "text", "type": "choices", "origin": "manual",
         "value": {"choices": [choice]}}
        for name, choice in chosen if choice is not None
    ]  # fmt: skip
    times = {
        f"{what}_at": f"{year}-01-01T00:{minute:02}:{second}Z"
        for what, second in (("created", 10), ("updated", 30))
    }
    return {"id": number, "completed_by": who, "result": result, "was_cancelled": skipped, **times}


@pytest.fixture
def tasks(audit, tmp_path):
    """An audit, and its first tasks as Label Studio would give them back, still without annotations."""
    run = audit("text")
    export_audit(run, "labelstudio", tmp_path / "tasks.json", first=6)
    return run, [
        {"id": number, **task, "annotations": []}
        for number, task in enumerate(json.loads((tmp_path / "tasks.json").read_text()), 1)
    ]


def test_label_studio_out_and_back(tasks, tmp_path):
    run, there = tasks
    given = [task["data"]["given"] for task in there]
    other = ["good" if label == "bad" else "bad" for label in given]
    there[0]["annotations"] = [annotation(1, other[0], who={"id": 1, "email": "ann@example.org"})]
    there[1]["annotations"] = [annotation(2, given[1])]
    there[2]["annotations"] = [annotation(3, other[2], verdict="drop")]
    there[3]["annotations"] = [annotation(4, skipped=True)]
    there[4]["annotations"] = [annotation(6, given[4], who=2, minute=5), annotation(5, other[4], minute=1)]
    path = tmp_path / "annotations.json"
    path.write_text(json.dumps(there))
    done = import_verdicts(run, path, who="me")
    rows = [task["data"]["icelens_index"] for task in there]
    assert standing(run) == {
        rows[0]: ("relabel", other[0], "ann@example.org"),
        rows[1]: ("keep", None, "Label Studio user 1"),
        rows[2]: ("drop", None, "Label Studio user 1"),
        rows[3]: ("unsure", None, "Label Studio user 1"),
        rows[4]: ("keep", None, "Label Studio user 2"),
    }
    assert (done.read, done.new, done.disagreed) == (6, 6, 1)
    assert import_verdicts(run, path, who="me").new == 0
    # An annotation that was changed since is a new verdict.
    there[1]["annotations"] = [annotation(2, other[1])]
    path.write_text(json.dumps(there))
    assert import_verdicts(run, path, who="me").new == 1
    assert standing(run)[rows[1]] == ("relabel", other[1], "Label Studio user 1")


def test_an_annotator_who_goes_back_to_the_first_answer_is_heard(tasks, tmp_path):
    run, there = tasks
    row, path = there[0]["data"]["icelens_index"], tmp_path / "annotations.json"
    for minute, label in enumerate(("good", "bad", "good")):
        there[0]["annotations"] = [annotation(7, label, minute=minute, year=2999)]
        path.write_text(json.dumps(there))
        assert import_verdicts(run, path, who="me").new == 1
        given = there[0]["data"]["given"]
        assert standing(run)[row][:2] == (("keep", None) if label == given else ("relabel", label))
    assert import_verdicts(run, path, who="me").new == 0


def test_a_table_that_was_replaced_since_says_so_and_is_given_again_when_asked(audit, tmp_path):
    run = audit("text")
    first = written(
        tmp_path / "first.csv", [{"id": "r001", "verdict": "drop"}, {"id": "r002", "verdict": "keep"}]
    )
    then = written(tmp_path / "then.csv", [{"id": "r001", "verdict": "keep"}])
    assert [import_verdicts(run, file, who="me").passed for file in (first, then)] == [0, 0]
    done = import_verdicts(run, first, who="me")
    assert (done.new, done.passed) == (0, 1)
    assert standing(run)[1] == ("keep", None, "me")
    done = import_verdicts(run, first, who="me", again=True)
    assert (done.new, done.passed) == (1, 0)
    assert standing(run)[1] == ("drop", None, "me")
    assert import_verdicts(run, first, who="me", again=True).new == 0
    given_at_once = written(tmp_path / "third.csv", [{"id": "r003", "verdict": "drop"}])
    assert import_verdicts(run, given_at_once, who="me", again=True).new == 1
    then = written(tmp_path / "fourth.csv", [{"id": "r003", "verdict": "keep"}])
    import_verdicts(run, then, who="me")
    assert import_verdicts(run, given_at_once, who="me").new == 0  # each is added once


def test_an_answer_of_before_a_verdict_in_the_review_does_not_replace_it(tasks, tmp_path):
    run, there = tasks
    row, path = there[0]["data"]["icelens_index"], tmp_path / "annotations.json"
    there[0]["annotations"] = [annotation(7, "good", year=2020)]
    path.write_text(json.dumps(there))
    import_verdicts(run, path, who="me")
    with Store(run) as store:
        store.judge(row, "drop", who="ann", key="by hand")
    there[0]["annotations"] = [annotation(7, "good", minute=5, year=2020)]  # "Update", without a change
    path.write_text(json.dumps(there))
    done = import_verdicts(run, path, who="me")
    assert (done.new, done.passed) == (0, 1)
    assert standing(run)[row] == ("drop", None, "ann")


def test_the_small_json_of_label_studio(tasks, tmp_path):
    run, there = tasks
    small = [
        {**task["data"], "id": task["id"], "annotator": 3, "annotation_id": 9, "label": "bad"}
        for task in there[:2]
    ]
    small[1] |= {"verdict": {"choices": ["unsure"]}, "annotation_id": 10}
    (tmp_path / "min.json").write_text(json.dumps(small))
    import_verdicts(run, tmp_path / "min.json", who="me")
    found = standing(run)
    assert found[there[1]["data"]["icelens_index"]][0] == "unsure"
    assert found[there[0]["data"]["icelens_index"]][0] == (
        "keep" if there[0]["data"]["given"] == "bad" else "relabel"
    )


def test_annotations_of_another_audit_are_refused(tasks, tmp_path):
    run, there = tasks
    there[0]["annotations"] = [annotation(1, "bad")]
    path = tmp_path / "annotations.json"
    for change, why in (
        ({"icelens_audit": "x"}, "comes from another audit"), ({"icelens_index": 999}, "no example 999"),
        ({"icelens_index": None}, "has no 'icelens_index'"), ({"icelens_id": "r059x"}, "another audit"),
    ):  # fmt: skip
        path.write_text(json.dumps([{**there[0], "data": {**there[0]["data"], **change}}]))
        with pytest.raises(InputError, match=why):
            import_verdicts(run, path, who="me")
    for text in ("[1]", "{}", "[", "nonsense"):
        path.write_text(text)
        with pytest.raises(FileError, match=r"annotations\.json"):
            import_verdicts(run, path, who="me")
    assert standing(run) == {}


def test_a_table_of_verdicts_by_id_or_by_index(audit, tmp_path):
    run = audit("text")
    rows = [
        {"id": "r001", "verdict": "relabel", "label": "good"}, {"id": "r002", "verdict": "Drop", "label": ""},
        {"id": "r003", "verdict": "keep", "label": ""}, {"id": "r005", "verdict": "", "label": "good"},
    ]  # fmt: skip
    done = import_verdicts(run, written(tmp_path / "v.csv", rows), who="me")
    assert (done.read, done.new) == (3, 3)
    assert standing(run) == {1: ("relabel", "good", "me"), 2: ("drop", None, "me"), 3: ("keep", None, "me")}
    labels = [{"index": 1, "label": "bad", "who": "bob"}, {"index": 7, "label": "good", "who": "bob"}]
    import_verdicts(run, written(tmp_path / "labels.csv", labels), who="me")
    found = standing(run)
    assert found[1] == ("keep", None, "bob")
    assert found[7] == ("relabel", "good", "bob")


def test_a_list_of_labels_may_call_its_columns_as_the_data_does(audit, tmp_path):
    """By the names that were given to an audit made before they were recorded, or by usual ones."""
    run = audit("text")
    recipe = json.loads((run / "recipe.json").read_text())
    del recipe["columns"]
    for source, names in (
        ({"label": "how", "id": "number"}, ("number", "how")), ({}, ("review_id", "Sentiment"))
    ):  # fmt: skip
        (run / "recipe.json").write_text(json.dumps({**recipe, "source": {**recipe["source"], **source}}))
        rows = [dict(zip(names, row, strict=True)) for row in (("r001", "good"), ("r003", "bad"))]
        import_verdicts(run, written(tmp_path / "v.csv", rows), who=f"by {names[1]}")
        assert standing(run) == {
            1: ("relabel", "good", f"by {names[1]}"), 3: ("keep", None, f"by {names[1]}")
        }  # fmt: skip
    both = [{"": 0, "index": 2, "user_id": "u7", "sentiment": "bad", "verdict": "relabel"}]
    with pytest.raises(InputError, match="'relabel' needs a label"):  # that of the data is not the new one
        import_verdicts(run, written(tmp_path / "w.csv", both), who="me")
    import_verdicts(run, written(tmp_path / "w.csv", [{**both[0], "verdict": "drop"}]), who="me")
    assert standing(run)[2] == ("drop", None, "me")


def test_the_columns_that_an_audit_settled_on_are_recorded_and_count(audit, tmp_path):
    run = audit("text")
    recipe = json.loads((run / "recipe.json").read_text())
    assert recipe["columns"] == {"label": "label", "id": "id", "others": ["review"], "codes": []}
    columns = {"label": "how", "id": "number", "others": ["id", "label"], "codes": []}
    (run / "recipe.json").write_text(json.dumps({**recipe, "columns": columns}))
    rows = [{"id": "r003", "number": "r001", "label": "bad", "how": "good"}]
    import_verdicts(run, written(tmp_path / "v.csv", rows), who="me")
    assert standing(run) == {1: ("relabel", "good", "me")}
    with pytest.raises(
        InputError, match="ids are in 'number' and labels in 'how', and 'id', 'label' is some"
    ):
        import_verdicts(run, written(tmp_path / "w.csv", [{"id": "r003", "label": "bad"}]), who="me")
    for wrong in (7, {"label": "how", "run": "rm"}):
        (run / "recipe.json").write_text(json.dumps({**recipe, "columns": wrong}))
        with pytest.raises(FileError, match="its 'columns' are not what an audit wrote"):
            import_verdicts(run, tmp_path / "v.csv", who="me")


@pytest.mark.parametrize("recorded", [True, False])
def test_the_table_of_an_audit_comes_back_with_labels_changed_in_it(audit, tmp_path, examples, recorded):
    """Whatever the columns of the data are called: the names of ours mean what they mean."""
    run = audit("text")
    recipe = json.loads((run / "recipe.json").read_text())
    columns = {"label": "kind", "id": "index", "others": ["id", "label"], "codes": []}
    (run / "recipe.json").write_text(json.dumps({**recipe, "columns": columns if recorded else None}))
    table = examples(run)
    given = str(table["label"][5])
    other = "good" if given == "bad" else "bad"
    table = table.assign(label=table["label"].astype(object).where(table["index"] != 5, other))
    table.to_csv(tmp_path / "examples.csv", index=False)
    import_verdicts(run, tmp_path / "examples.csv", who="me")
    assert standing(run) == {5: ("relabel", other, "me")}


def test_a_corrected_copy_of_the_data_says_what_changed_and_nothing_of_the_rest(audit, tmp_path, examples):
    run = audit("text")
    table = examples(run)
    rows = [
        {"id": id, "review": "…", "label": label}
        for id, label in zip(table["id"], table["label"], strict=True)
    ]
    with pytest.raises(InputError, match="holds no verdict"):
        import_verdicts(run, written(tmp_path / "same.csv", rows), who="me")
    other = "good" if rows[5]["label"] == "bad" else "bad"
    rows[5]["label"] = other
    done = import_verdicts(run, written(tmp_path / "copy.csv", rows), who="me")
    assert (done.read, done.new) == (1, 1)
    assert standing(run) == {5: ("relabel", other, "me")}


def test_an_export_comes_back_as_it_is(audit, tmp_path):
    run, other = audit("text"), tmp_path / "other"
    with Store(run) as store:
        store.judge(1, "relabel", label="good", who="ann", key="a")
        store.judge(2, "drop", who="bob", key="b")
    export_audit(run, "csv", tmp_path / "all.csv")
    assert import_verdicts(run, tmp_path / "all.csv", who="me").new == 0
    import shutil

    shutil.copytree(run, other)
    with Store(other) as store:
        store.undo(who="ann", key="c", index=1)
        store.undo(who="ann", key="d", index=2)
    assert import_verdicts(other, tmp_path / "all.csv", who="me").new == 2
    assert standing(other) == standing(run)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"id": "r001", "verdict": "relabel", "label": ""}, "line 3: 'relabel' needs a label"),
        ({"id": "r001", "verdict": "burn", "label": ""}, "line 3: unknown verdict 'burn'"),
        ({"id": "nobody", "verdict": "drop", "label": ""}, "line 3: no example has the id 'nobody'"),
        (
            {"id": "r001", "verdict": "relabel", "label": "maybe"},
            "line 3: no class is called 'maybe'.*--new-classes",
        ),
    ],
)
def test_one_wrong_row_and_nothing_is_imported(audit, tmp_path, row, why):
    run = audit("text")
    path = written(tmp_path / "v.csv", [{"id": "r002", "verdict": "drop", "label": ""}, row])
    with pytest.raises(InputError, match=why):
        import_verdicts(run, path, who="me")
    assert standing(run) == {}
    if "maybe" in why:
        import_verdicts(run, path, who="me", new_classes=True)
        assert standing(run)[1] == ("relabel", "maybe", "me")


def test_files_that_say_nothing(audit, tmp_path):
    run = audit("text")
    path = written(tmp_path / "v.csv", [{"id": "r002", "verdict": "", "label": "bad"}])
    with pytest.raises(InputError, match="holds no verdict"):
        import_verdicts(run, path, who="me")
    with pytest.raises(InputError, match="columns must be id or index"):
        import_verdicts(run, written(tmp_path / "w.csv", [{"name": "r002"}]), who="me")
    with pytest.raises(FileError, match="no such file"):
        import_verdicts(run, tmp_path / "none.csv", who="me")
    (tmp_path / "v.xml").write_text("x")
    with pytest.raises(InputError, match=r"neither \.json, .*, nor \.csv or \.tsv"):
        import_verdicts(run, tmp_path / "v.xml", who="me")


def test_a_cleaned_copy_from_which_rows_were_dropped_keeps_nothing(audit, tmp_path, examples):
    run = audit("text")
    table = examples(run)
    rows = [{"id": id, "label": label} for id, label in zip(table["id"], table["label"], strict=True)]
    del rows[40:], rows[3]  # more than half are left of 60
    with pytest.raises(InputError, match="holds no verdict"):
        import_verdicts(run, written(tmp_path / "same.csv", rows), who="me")
    rows[5]["label"] = other = "good" if rows[5]["label"] == "bad" else "bad"
    import_verdicts(run, written(tmp_path / "copy.csv", rows), who="me")
    (said,) = standing(run).values()
    assert said == ("relabel", other, "me")


def test_what_export_wrote_can_be_filled_in_in_a_spreadsheet(audit, tmp_path):
    run = audit("text")
    export_audit(run, "csv", tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))[:8]
    others = ["good" if row["label"] == "bad" else "bad" for row in rows]
    rows[0]["verdict"] = "drop"
    for row, other in zip(rows[1:3], others[1:3], strict=True):
        row["label_after"] = other
    rows[3]["label_after"] = rows[3]["label"]
    done = import_verdicts(run, written(tmp_path / "back.csv", rows), who="me")
    assert done.new == 3
    assert {index: said[:2] for index, said in standing(run).items()} == {
        int(rows[0]["index"]): ("drop", None),
        int(rows[1]["index"]): ("relabel", others[1]),
        int(rows[2]["index"]): ("relabel", others[2]),
    }


def test_numbers_of_rows_may_have_got_a_fraction(audit, tmp_path):
    run = audit("text")
    import_verdicts(run, written(tmp_path / "v.csv", [{"index": "5.0", "verdict": "drop"}]), who="me")
    assert standing(run) == {5: ("drop", None, "me")}
