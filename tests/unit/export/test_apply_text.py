"""CSV, TSV and JSON come back as they were, but for the labels that changed and the rows left out."""

import gzip
import json

import pytest
from own_files import LABELS, REVIEWS, TEXTS, write_csv, write_json, write_jsonl
from reviewed import applied, logged

from icelens.errors import InputError

CHANGES = {"relabel": {1: "bad", 4: "good"}, "drop": [2], "unsure": [0], "keep": [3]}
ODD = (
    b'\xef\xbb\xbfid;review;label;"note; long"\r\n'
    b'a;"two\r\nlines";good;""\r\n'
    b"\r\n"
    b'b;plain;"bad";x\n'
    b'c;"said ""no""; left";good;1,5\r\n'
    b"d;nothing much;bad; \r\n"
    b'e;more;good;"q"\r\n'
    b'f;"";"bad";last'
)


def changed(raw, *pairs):
    for old, new in pairs:
        assert raw.count(old) == 1, old
        raw = raw.replace(old, new)
    return raw


def test_a_csv_file_keeps_every_byte_but_those_of_labels_that_changed(tmp_path):
    path = tmp_path / "odd.csv"
    path.write_bytes(ODD)
    done = applied(
        path, tmp_path / "cleaned.csv", relabel={1: "good", 2: "bad", 5: "good"}, drop=[3], unsure=[0]
    )
    expected = changed(
        ODD,
        (b'plain;"bad"', b'plain;"good"'),
        (b'left";good', b'left";bad'),
        (b"d;nothing much;bad; \r\n", b""),
        (b'"";"bad";last', b'"";"good";last'),
    )
    assert (tmp_path / "cleaned.csv").read_bytes() == expected
    assert (done.written, done.relabelled, done.dropped) == (5, 3, 1)
    assert path.read_bytes() == ODD


def test_nothing_to_change_is_the_same_file(tmp_path):
    path = tmp_path / "odd.csv"
    path.write_bytes(ODD)
    assert applied(path, tmp_path / "cleaned.csv", keep=[0, 1], unsure=[2]).written == 6
    assert (tmp_path / "cleaned.csv").read_bytes() == ODD


def test_the_log_says_what_changed_who_and_when(tmp_path):
    path = write_csv(tmp_path / "reviews.csv", REVIEWS)
    done = applied(path, tmp_path / "cleaned.csv", **CHANGES)
    assert done.log == tmp_path / "cleaned.changes.csv"
    rows = logged(done.log)
    assert [(row["row"], row["id"], row["before"], row["after"], row["verdict"]) for row in rows] == [
        ("1", "008", "good", "bad", "relabel"),
        ("2", "NA", "bad", "", "drop"),
        ("4", "x1", "bad", "good", "relabel"),
    ]
    assert {row["who"] for row in rows} == {"ann"}
    assert all(row["when"].startswith("2026-01-01T") for row in rows)


def test_history_adds_the_labels_as_they_were(tmp_path):
    path = tmp_path / "odd.csv"
    path.write_bytes(ODD)
    applied(path, tmp_path / "cleaned.csv", history=True, relabel={1: "good"}, drop=[0])
    lines = (tmp_path / "cleaned.csv").read_bytes().split(b"\r\n")
    assert lines[0] == b'\xef\xbb\xbfid;review;label;"note; long";label_before'
    assert lines[2] == b'b;plain;"good";x;bad\nc;"said ""no""; left";good;1,5;good'
    with pytest.raises(InputError, match="has a column 'label_before' already"):
        applied(
            tmp_path / "cleaned.csv",
            tmp_path / "twice.csv",
            history=True,
            options={"label": "label"},
            drop=[1],
        )


def test_a_label_that_needs_quotes_gets_them(tmp_path):
    path = write_csv(tmp_path / "reviews.csv", {"text": TEXTS, "label": LABELS})
    applied(path, tmp_path / "cleaned.csv", relabel={0: 'so, "so"'})
    assert b',"so, ""so"""\r\n' in (tmp_path / "cleaned.csv").read_bytes()


def test_quotes_that_are_letters_stay_letters(tmp_path):
    path = tmp_path / "letters.tsv"
    rows = [f'"so it is 5" long {row}\t{"ab"[row % 2]}' for row in range(6)]
    path.write_text("text\tlabel\n" + "\n".join(rows))
    applied(path, tmp_path / "cleaned.tsv", relabel={2: "b", 3: 'c"'})
    text = path.read_text().replace("long 2\ta", "long 2\tb").replace("long 3\tb", 'long 3\tc"')
    assert (tmp_path / "cleaned.tsv").read_text() == text
    with pytest.raises(InputError, match="choose another name"):
        applied(path, tmp_path / "other.tsv", relabel={2: "a\tb"})


def test_a_class_is_written_as_the_file_writes_it(tmp_path):
    path = tmp_path / "codes.csv"
    path.write_text("x,label\n" + "".join(f"{row * row},{row % 3}.0\n" for row in range(12)))
    applied(path, tmp_path / "cleaned.csv", relabel={0: "2"})
    assert (tmp_path / "cleaned.csv").read_text().splitlines()[1] == "0,2.0"


def test_a_file_without_header_names_columns_by_number(tmp_path):
    path = tmp_path / "bare.csv"
    path.write_text("x,good,x\n" * 3 + "y,bad,y\n" * 3)
    options = {"label": "2", "text": ("1",)}
    applied(path, tmp_path / "cleaned.csv", history=True, options=options, relabel={0: "bad"}, drop=[5])
    assert (
        tmp_path / "cleaned.csv"
    ).read_text() == "x,bad,x,good\n" + "x,good,x,good\n" * 2 + "y,bad,y,bad\n" * 2


def test_rows_that_were_not_audited_stay(tmp_path):
    path = write_csv(tmp_path / "some.csv", {"text": TEXTS, "label": ["", *LABELS[1:4], "", LABELS[5]]})
    done = applied(
        path, tmp_path / "cleaned.csv", options={"drop_unlabelled": True, "keep_rare": True}, drop=[1]
    )
    assert done.written == 5
    lines = (tmp_path / "cleaned.csv").read_text().splitlines()
    assert lines == [line for line in path.read_text().splitlines() if TEXTS[2][:8] not in line]


def test_gzipped_files_come_back_gzipped_or_not_as_they_are_named(tmp_path):
    path = write_csv(tmp_path / "reviews.csv.gz", REVIEWS)
    for name in ("cleaned.csv.gz", "cleaned.csv"):
        applied(path, tmp_path / name, force=True, **CHANGES)
    assert (
        gzip.decompress((tmp_path / "cleaned.csv.gz").read_bytes()) == (tmp_path / "cleaned.csv").read_bytes()
    )


def test_json_lines_keep_every_byte_but_those_of_labels_that_changed(tmp_path):
    raw = (
        b'\xef\xbb\xbf{"label":"good" , "text": "a {\\"label\\": 1} first", "deep": {"label": "good"}}\r\n\n'
        b'{"text":"second one","label":"caf\\u00e9"}\n  {"text": "third", "n": 1.50, "label": "good"} \n'
        b'{"label": "old", "text": "fourth", "label": "caf\\u00e9"}'
    )
    path = tmp_path / "odd.jsonl"
    path.write_bytes(raw)
    applied(path, tmp_path / "cleaned.jsonl", relabel={1: "good", 2: "café"}, options={"text": ("text",)})
    expected = changed(
        raw,
        (b'one","label":"caf\\u00e9"', b'one","label":"good"'),
        (b'50, "label": "good"', b'50, "label": "caf\\u00e9"'),
    )
    assert (tmp_path / "cleaned.jsonl").read_bytes() == expected
    applied(path, tmp_path / "last.jsonl", relabel={3: "good"}, options={"text": ("text",)})
    twice = changed(raw, (b'"fourth", "label": "caf\\u00e9"', b'"fourth", "label": "good"'))
    assert (tmp_path / "last.jsonl").read_bytes() == twice
    applied(path, tmp_path / "less.jsonl", drop=[0, 3], options={"text": ("text",)})
    lines = raw.splitlines(keepends=True)
    assert (tmp_path / "less.jsonl").read_bytes() == b"\xef\xbb\xbf" + b"".join(lines[1:4])


@pytest.mark.parametrize("write", [write_jsonl, write_json])
def test_history_of_json(tmp_path, write):
    name = "reviews.json" if write is write_json else "reviews.jsonl"
    path = write(tmp_path / name, REVIEWS)
    applied(path, tmp_path / f"cleaned{path.suffix}", history=True, **CHANGES)
    text = (tmp_path / f"cleaned{path.suffix}").read_text()
    rows = json.loads(text) if write is write_json else [json.loads(line) for line in text.splitlines()]
    assert [row["label"] for row in rows] == ["bad", "bad", "good", "good", "good"]
    assert [row["label_before"] for row in rows] == ["bad", "good", "good", "bad", "good"]
    assert list(rows[0]) == ["id", "review", "label", "label_before"]


@pytest.mark.parametrize("drop", [[], [0], [5], [0, 1], [2, 5], [0, 3, 5]])
def test_a_json_list_stays_one_whatever_is_left_out(tmp_path, drop):
    path = write_json(tmp_path / "reviews.json", REVIEWS)
    applied(path, tmp_path / "cleaned.json", relabel={4: "good"}, drop=drop)
    rows = json.loads(path.read_text())
    rows[4]["label"] = "good"
    kept = [row for number, row in enumerate(rows) if number not in drop]
    text = (tmp_path / "cleaned.json").read_text()
    assert json.loads(text) == kept
    if not drop:
        assert text == path.read_text().replace(
            f'{TEXTS[4]}",\n  "label": "bad"', f'{TEXTS[4]}",\n  "label": "good"'
        )


def test_json_labels_keep_their_type(tmp_path):
    path = write_jsonl(tmp_path / "codes.jsonl", {"text": TEXTS, "label": [0, 1, 0, 1, 0, 1]})
    applied(path, tmp_path / "cleaned.jsonl", relabel={0: "1", 1: "7"})
    labels = [json.loads(line)["label"] for line in (tmp_path / "cleaned.jsonl").read_text().splitlines()]
    assert labels == [1, 7, 0, 1, 0, 1]
    with pytest.raises(InputError, match="labels are written as 0, which class 'maybe' cannot be"):
        applied(path, tmp_path / "other.jsonl", relabel={0: "maybe"})
    assert not (tmp_path / "other.jsonl").exists()
