"""Which column is what, where the user does not say."""

import decimal

import numpy as np
import pyarrow as pa
import pytest
from own_files import IDS, LABELS, REVIEWS, TEXTS, write_arrow_file, write_csv, write_jsonl, write_parquet

from icelens.data import read_labelled
from icelens.errors import FileError, InputError

SHORT = ["Ann", "Bob", "Cleo", "Dan", "Eve", "Finn"]
SIZES = [1.5, 2.5, 0.5, 9.0, 7.25, 3.0]


def read(tmp_path, columns, **options):
    return read_labelled(write_parquet(tmp_path / "a.parquet", columns), **options)


@pytest.mark.parametrize(
    "name",
    [
        "label",
        "Label",
        "LABELS",
        "class",
        "target",
        "y",
        "sentiment",
        "gold label",
        "userIntent",
        "true_label",
    ],
)
def test_labels_are_known_by_the_name_of_their_column(tmp_path, name):
    data = read(tmp_path, {"review": TEXTS, name: LABELS})
    assert data.classes == ("bad", "good")
    assert data.said[0] == f"labels are in column '{name}'"


def test_of_two_names_the_more_usual_is_taken_and_the_other_not_learned_from(tmp_path):
    data = read(tmp_path, {"target": LABELS, "x": SIZES, "label": LABELS[::-1], "true_label": LABELS})
    assert data.labels.tolist() == [1, 0] * 3
    assert data.inputs.columns.tolist() == ["x"]
    assert data.said[2] == "left out: 'target' (named like a label), 'true_label' (named like a label)"


def test_without_a_known_name_the_columns_are_listed(tmp_path):
    columns = {f"c{i}": SIZES for i in range(20)}
    message = (
        r"a\.parquet: no column looks like labels; columns are 'c0', .*'c11' and 8 more: name one with --la"
    )
    with pytest.raises(InputError, match=message):
        read(tmp_path, columns)


@pytest.mark.parametrize(
    ("ids", "name", "taken"),
    [
        (IDS, "id", True),
        (IDS, "uuid", True),
        (IDS, "review_id", True),
        (IDS, "reviewId", True),
        ([3, 1, 4, 15, 9, 2], "ID", True),
        ([3, 1, 4, 1, 5, 9], "id", False),
        ([3, 1, 4, None, 5, 9], "id", False),
        (IDS, "code", False),
    ],
)
def test_ids_are_known_by_their_name_if_each_is_there_once(tmp_path, ids, name, taken):
    data = read(tmp_path, {name: ids, "review": TEXTS, "label": LABELS})
    assert data.ids.tolist() == (ids if taken else list(range(6)))
    assert (f"ids are in column '{name}'" if taken else "ids are row numbers") in data.said


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["a", "b", "c", "b", "e", "c"], "id column 'id' holds 'b' twice, in rows 1 and 3; ids must differ"),
        (["a", "b", None, "d", "e", ""], "id column 'id' is empty in 2 of 6 rows, first in row 2"),
    ],
)
def test_an_id_column_that_is_named_must_name_every_row_once(tmp_path, ids, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, REVIEWS | {"id": ids}, id="id")
    path = write_csv(tmp_path / "a.csv", REVIEWS | {"id": ids})
    with pytest.raises(InputError, match=message):
        read_labelled(path, id="id")


def test_ids_may_be_dates_or_bytes_but_not_lists(tmp_path):
    days = pa.array(range(6), pa.date32())
    data = read(tmp_path, {"day": days, "review": TEXTS, "label": LABELS}, id="day")
    assert data.ids.tolist()[:2] == ["1970-01-01", "1970-01-02"]
    key = [bytes([number]) for number in range(6)]
    assert read(tmp_path, {"key": key, "review": TEXTS, "label": LABELS}, id="key").ids.tolist()[5] == "05"
    with pytest.raises(InputError, match=r"id column 'key' holds list<.*>; ids are strings or integers"):
        read(tmp_path, {"key": [[1]] * 6, "review": TEXTS, "label": LABELS}, id="key")


@pytest.mark.parametrize("first", [1234567890123456789, 10**30])
def test_decimals_without_a_fraction_are_exact_as_ids_and_numbers_as_features(tmp_path, first):
    column = pa.array([decimal.Decimal(first + row) for row in range(6)], pa.decimal128(38, 0))
    data = read(tmp_path, {"id": column, "review": TEXTS, "label": LABELS})
    assert list(map(str, data.ids)) == [str(first + row) for row in range(6)]
    data = read(tmp_path, {"x": column, "y": SIZES, "label": LABELS}, features=["x", "y"])
    assert data.inputs["x"].tolist() == pytest.approx([first] * 6, rel=1e-6)


def test_views_of_strings_are_strings(tmp_path):
    view = pa.string_view()
    columns = {
        "id": pa.array(IDS, view),
        "review": pa.array(TEXTS, view),
        "label": pa.DictionaryArray.from_arrays(pa.array([1, 0] * 3), pa.array(["good", "bad"], view)),
    }
    data = read_labelled(write_arrow_file(tmp_path / "a.arrow", columns))
    assert data.classes == ("good", "bad")
    assert data.ids.tolist() == IDS
    assert data.inputs == [(text,) for text in TEXTS]


class TestText:
    def test_two_columns_are_a_pair(self, tmp_path):
        data = read(tmp_path, {"sentence1": TEXTS, "sentence2": TEXTS[::-1], "label": LABELS})
        assert data.inputs[0] == (TEXTS[0], TEXTS[5])
        assert data.said[1] == "text is in columns 'sentence1', 'sentence2'"

    def test_names_for_texts_come_before_other_long_strings(self, tmp_path):
        parse = [f"(S (NP {text}) (VP {text}))" for text in TEXTS]
        columns = {"parse": parse, "premise": TEXTS, "parse2": parse, "hypothesis": TEXTS, "label": LABELS}
        data = read(tmp_path, columns)
        assert data.inputs[0] == (TEXTS[0], TEXTS[0])
        assert data.said[1:3] == ("text is in columns 'premise', 'hypothesis'", "left out: 'parse', 'parse2'")

    def test_a_title_is_read_with_what_it_stands_above(self, tmp_path):
        data = read(tmp_path, {"abstract": TEXTS, "title": TEXTS[::-1], "notes": TEXTS, "label": LABELS})
        assert data.said[1:3] == ("text is in columns 'abstract', 'title'", "left out: 'notes'")

    def test_text_comes_before_features_and_what_is_left_out_is_told(self, tmp_path):
        data = read(tmp_path, {"stars": SIZES, "remark": TEXTS, "label": LABELS, "shop": ["x", "y"] * 3})
        assert data.kind == "text"
        assert "left out: 'stars', 'shop'" in data.said

    def test_features_come_before_short_strings(self, tmp_path):
        data = read(tmp_path, {"name": SHORT, "size": SIZES, "label": LABELS})
        assert data.inputs.columns.tolist() == ["size"]
        assert "left out: 'name' (too many different values)" in data.said

    def test_short_strings_are_text_where_there_is_nothing_else(self, tmp_path):
        data = read(tmp_path, {"name": SHORT, "label": LABELS})
        assert data.inputs == [(name,) for name in SHORT]

    def test_a_script_without_spaces_is_text(self, tmp_path):
        texts = [
            "这家餐厅的菜非常好吃",
            "服务态度太差了再也不来",
            "包装破损退货也很麻烦的",
            "とても良い商品でした満足",
            "値段の割に品質が悪いです",
            "ส่งของเร็วมากและบรรจุดี",
        ]
        data = read(tmp_path, {"remark": texts, "price": SIZES, "label": LABELS})
        assert data.inputs == [(text,) for text in texts]

    def test_a_missing_text_is_empty_and_told(self, tmp_path):
        data = read(tmp_path, {"review": [*TEXTS[:4], None, " "], "label": LABELS})
        assert data.inputs[4:] == [("",), (" ",)]
        assert "2 rows of 'review' without text" in data.said

    @pytest.mark.parametrize("texts", [[None] * 6, [""] * 6, [" ", "\t", "", None, "", ""]])
    def test_a_column_without_any_text_is_told(self, tmp_path, texts):
        with pytest.raises(InputError, match="text column 'review' is empty in every row"):
            read(tmp_path, {"review": texts, "x": SIZES, "label": LABELS}, text="review")

    def test_numbers_are_no_text(self, tmp_path):
        with pytest.raises(InputError, match="column 'x' holds double, not text"):
            read(tmp_path, {"x": SIZES, "label": LABELS}, text="x")


class TestFeatures:
    def test_what_says_nothing_is_left_out_and_told(self, tmp_path):
        columns = {
            "x": SIZES,
            "row": list(range(100, 106)),
            "label_text": ["no", "yes"] * 3,
            "verdict": ["no", "yes"] * 3,
            "code": [0, 1] * 3,
            "none": pa.nulls(6),
            "gone": pa.array([None] * 6, pa.float64()),
            "user_id": [1, 1, 2, 2, 3, 3],
            "nan": [float("nan"), float("nan"), 1.0, 1.0, 1.0, 1.0],
            "when": pa.array([1, 2, 3, 4, 5, 6], pa.timestamp("s")),
            "label": LABELS,
        }
        data = read(tmp_path, columns)
        assert data.inputs.columns.tolist() == ["x"]
        assert data.said[2] == (
            "left out: 'row' (counts the rows), 'label_text' (named like a label), "
            "'verdict' (the label under another name), 'code' (the label under another name), "
            "'none' (empty), 'gone' (empty), 'user_id' (named like an id), 'nan' (never changes), "
            "'when' (a date)"
        )

    @pytest.mark.parametrize(
        "values",
        [["2024-03-01", "2024-03-02"], ["01/31/2024", "31/1/2024"], ["1.3.2024 09:30", "1.3.2024 17:00:05"],
         ["2024-03-01T09:30:00Z", "2024-03-01 09:30:00.5+01:00"]],
    )  # fmt: skip
    def test_dates_are_left_out_of_files_without_types_too(self, tmp_path, values):
        write_csv(
            tmp_path / "d.csv", {"x": [*SIZES] * 4, "when": sorted(values * 2) * 6, "label": [*LABELS] * 4}
        )
        data = read_labelled(tmp_path / "d.csv")
        assert data.inputs.columns.tolist() == ["x"]
        assert "left out: 'when' (a date)" in data.said

    @pytest.mark.parametrize(
        "values",
        [
            ["1-2", "3-4"],
            ["v1.2", "v1.3"],
            ["2024-03-01", "never"],
            ["1.2.30", "1.10.12"],
            ["20-45-77", "20-41-12"],
            ["08:00", "16:30"],
            ["2024-13-01", "2024-02-01"],
            ["10-12-14", "9-10-11"],
        ],
    )
    def test_what_looks_a_little_like_a_date_is_a_category(self, tmp_path, values):
        write_csv(
            tmp_path / "d.csv", {"x": [*SIZES] * 4, "size": sorted(values * 2) * 6, "label": [*LABELS] * 4}
        )
        assert read_labelled(tmp_path / "d.csv").inputs.columns.tolist() == ["x", "size"]

    @pytest.mark.parametrize(
        ("values", "why"),
        [(range(24), "counts the rows"), (range(30, 6, -1), "counts the rows"),
         ([3 * row + row % 3 for row in range(24)], "in the order of the rows"),
         ([10.0 * (30 - row) ** 2 for row in range(24)], "in the order of the rows")],
    )  # fmt: skip
    def test_what_tells_where_a_row_stands_is_left_out(self, tmp_path, values, why):
        columns = {"x": [*SIZES] * 4, "number": list(values), "label": [*LABELS] * 4}
        assert f"left out: 'number' ({why})" in read(tmp_path, columns).said
        assert read(tmp_path, columns, features=["x", "number"]).inputs.columns.tolist() == ["x", "number"]

    def test_numbers_in_order_in_a_few_rows_or_with_one_twice_are_features(self, tmp_path):
        few = read(tmp_path, {"x": SIZES, "number": [2, 3, 5, 7, 11, 13], "label": LABELS})
        twice = read(tmp_path, {"x": [*SIZES] * 4, "number": [5, *range(5, 28)], "label": [*LABELS] * 4})
        assert "number" in few.inputs.columns
        assert "number" in twice.inputs.columns

    def test_what_is_named_is_taken_whatever_it_is(self, tmp_path):
        columns = {"x": SIZES, "user_id": [1, 1, 2, 2, 3, 3], "verdict": ["no", "yes"] * 3, "name": SHORT,
                   "when": pa.array([1, 2, 3, 4, 5, 6], pa.timestamp("s")),
                   "day": pa.array([1, 2, 3, 4, 5, 6], pa.date32()),
                   "hour": pa.array([1, 2, 3, 4, 5, 6], pa.time32("s")), "flag": [True, None, False] * 2,
                   "price": pa.array(["1.5", "2.5"] * 3).cast(pa.decimal128(5, 2)),
                   "half": pa.array(np.float16([1, 2, 3, 4, 5, 6])), "label": LABELS}  # fmt: skip
        names = [name for name in columns if name not in ("x", "label")]
        data = read(tmp_path, columns, features=names)
        assert data.inputs.columns.tolist() == names
        assert data.inputs["user_id"].tolist() == [1, 1, 2, 2, 3, 3]
        assert data.inputs["verdict"].tolist() == columns["verdict"]
        assert data.inputs["name"].tolist() == SHORT
        assert data.inputs["when"].tolist() == data.inputs["hour"].tolist() == [1, 2, 3, 4, 5, 6]
        assert data.inputs["day"].tolist() == [86400 * day for day in range(1, 7)]
        assert data.inputs["flag"].tolist()[::2] == [1, 0, pytest.approx(float("nan"), nan_ok=True)]
        assert data.inputs["price"].tolist() == [1.5, 2.5] * 3
        assert data.inputs["half"].tolist() == [1, 2, 3, 4, 5, 6]

    @pytest.mark.parametrize("options", [{}, {"features": ["x", "z"]}])
    def test_constants_alone_are_told(self, tmp_path, options):
        with pytest.raises(
            InputError, match=r"(no column to learn from: 'x' \(never changes\)|only constants: 'x', 'z')"
        ):
            read(tmp_path, {"x": [4.5] * 6, "z": ["a"] * 6, "label": LABELS}, **options)

    def test_integers_of_any_size_are_features(self, tmp_path):
        large = [2**60, 2**60 + 2**10, -(2**62), 5, 6, 7]
        data = read(
            tmp_path, {"x": large, "u": pa.array([2**64 - 1, 1, 2, 3, 4, 5], pa.uint64()), "label": LABELS}
        )
        assert data.inputs["x"].tolist() == [float(number) for number in large]
        assert data.inputs["u"].tolist()[0] == 2.0**64

    def test_dates_beyond_the_calendar_are_numbers(self, tmp_path):
        when = pa.array([10**12, 2 * 10**12, 3, 4, 5, 6], pa.timestamp("s"))
        data = read_labelled(
            write_arrow_file(tmp_path / "a.arrow", {"when": when, "label": LABELS}), features="when"
        )
        assert data.inputs["when"].tolist()[1] == 2e12

    def test_objects_are_no_features(self, tmp_path):
        path = write_jsonl(tmp_path / "a.jsonl", {"x": [{"a": 1}] * 6, "label": LABELS})
        with pytest.raises(
            InputError, match=r"no column to learn from: 'x' \(holds struct<a: int64>\); name some with"
        ):
            read_labelled(path)
        with pytest.raises(
            InputError, match="column 'x' holds struct<a: int64>; features are numbers, strings or"
        ):
            read_labelled(path, features=["x"])

    def test_a_category_of_the_file_stays_one(self, tmp_path):
        colours = pa.array(["red", "blue", "red", None, "blue", "red"]).dictionary_encode()
        numbers = pa.array([1, 2, 1, 2, 2, 1]).dictionary_encode()
        columns = {"colour": colours, "number": numbers, "label": LABELS}
        data = read_labelled(write_arrow_file(tmp_path / "a.arrow", columns))
        assert data.inputs["colour"].astype(object).where(data.inputs["colour"].notna(), None).tolist() == [
            "red", "blue", "red", None, "blue", "red"
        ]  # fmt: skip
        assert data.inputs["number"].tolist() == ["1", "2", "1", "2", "2", "1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": "review", "text": "review"}, "column 'review' is given twice, for --label and --text"),
        ({"text": ["review", "review"]}, "column 'review' is given twice, for --text and --text"),
        (
            {"text": "review", "features": ["x"]},
            "give one of --text and --features: a model learns from one kind",
        ),
        ({"text": ["id", "review", "x"]}, "--text takes one or two columns, got 3: 'id', 'review', 'x'"),
    ],
)
def test_options_that_contradict_each_other_are_told(tmp_path, options, message):
    with pytest.raises(InputError, match=r"a\.parquet: " + message):
        read(tmp_path, REVIEWS | {"x": SIZES}, **options)


def test_a_label_alone_is_told(tmp_path):
    with pytest.raises(InputError, match="no column to learn from beside 'id', 'label'"):
        read(tmp_path, {"id": IDS, "label": LABELS})


def test_two_columns_of_one_name_are_told(tmp_path):
    table = pa.Table.from_arrays(
        [pa.array(TEXTS), pa.array(LABELS), pa.array(LABELS)], ["text", "label", "label"]
    )
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(FileError, match="two columns are called 'label'; rename one"):
        read_labelled(tmp_path / "a.arrow")


class TestJsonLines:
    def test_keys_may_be_missing_and_types_mixed(self, tmp_path):
        path = tmp_path / "a.jsonl"
        path.write_text(
            '{"text": "one two three", "label": 1}\n\n{"label": "x", "extra": [1], "text": "four five"}\n'
            '{"text": null, "label": 1}\n{"label": "x", "text": "\\ud83d lone half"}\n'
        )
        data = read_labelled(path, text="text")
        assert data.classes == ("1", "x")
        assert data.inputs[2:] == [("",), ("\N{REPLACEMENT CHARACTER} lone half",)]

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ('{"a": 1}\n{"a": \n', r"line 2 is not JSON \(Expecting value\); is the file whole\?"),
            ('{"a": 1}\n\n[1, 2]\n', r'line 3 is a list, expected an object such as {"text"'),
            ('{"a": 1}\n"x"\n', "line 2 is a str, expected an object"),
            ('{"a": ' + "[" * 100_000, r"line 1 is not JSON"),
            ('{"a": ' + "9" * 5_000 + "}", r"line 1 is not JSON"),
        ],
    )
    def test_a_broken_line_is_named(self, tmp_path, content, message):
        (tmp_path / "a.jsonl").write_text(content)
        with pytest.raises(FileError, match=r"a\.jsonl: " + message):
            read_labelled(tmp_path / "a.jsonl")

    def test_a_broken_line_of_a_list_is_named(self, tmp_path):
        (tmp_path / "a.json").write_text('[{"a": 1},\n {"a": 2},\n {"a" 3}]')
        with pytest.raises(FileError, match=r"line 3 is not JSON \(Expecting ':' delimiter\)"):
            read_labelled(tmp_path / "a.json")
        (tmp_path / "a.json").write_text('[{"a": 1}, 7]')
        with pytest.raises(FileError, match="row 1 is a int, expected an object"):
            read_labelled(tmp_path / "a.json")
