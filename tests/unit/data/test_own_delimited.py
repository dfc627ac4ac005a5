"""CSV and TSV: cells as they are written, and errors that name the line."""

import csv
import gzip

import numpy as np
import pytest
from own_files import LABELS, REVIEWS, TEXTS, write_csv, write_tsv

from icelens.data import read_labelled
from icelens.errors import FileError, InputError

ROWS = "text,label\nIt was late and broken.,bad\nA good one.,good\nNot again.,bad\nI like it a lot.,good\n"


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(("delimiter", "said"), [(";", "';'"), ("\t", "tabs"), ("|", "'|'")])
def test_another_delimiter_is_noticed_and_told(tmp_path, delimiter, said):
    data = read_labelled(write_csv(tmp_path / "a.csv", REVIEWS, delimiter=delimiter))
    assert data.inputs == [(text,) for text in TEXTS]
    assert data.said[0] == f"fields are separated by {said}"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_line_ends_quotes_and_marks_do_not_matter(tmp_path, end, quoting, bom):
    path = write_csv(tmp_path / "a.csv", REVIEWS, lineterminator=end, quoting=quoting)
    path.write_bytes(bom + path.read_bytes())
    assert read_labelled(path).inputs == [(text,) for text in TEXTS]


@pytest.mark.parametrize("quote", ["", '"'])
def test_blank_lines_are_no_rows(tmp_path, quote):
    lines = [quote + line + quote if "," not in line else line for line in ROWS.splitlines()]
    path = write(tmp_path / "a.csv", "\n\n" + "\n\n".join(lines) + "\n\n\n" + f"{quote}x y z{quote},bad")
    data = read_labelled(path)
    assert len(data) == 5
    assert data.inputs[0] == ("It was late and broken.",)
    assert data.inputs[4] == ("x y z",)


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_row_names_of_pandas_are_not_rounded(tmp_path, name):
    large = [1234567890123456789 + 3 * row for row in range(4)]
    columns = {name: large, "text": ["one two", "two three", "four five", "six seven"], "label": [0, 1] * 2}
    assert read_labelled(write_csv(tmp_path / "a.csv", columns), text="text").ids.tolist() == large
    larger = [10**30 + row for row in range(4)]
    data = read_labelled(write_csv(tmp_path / "b.csv", {**columns, name: larger}), text="text")
    assert data.ids.tolist() == list(map(str, larger))


def test_a_column_without_a_name_that_holds_no_ids_is_a_feature(tmp_path):
    columns = {"": [3, 1, 3, 2, 1, 5], "label": LABELS}
    assert read_labelled(write_csv(tmp_path / "a.csv", columns)).inputs["1"].tolist() == columns[""]


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
def test_labels_ids_and_texts_stay_as_they_are_written(tmp_path, quoting):
    columns = {
        "id": ["01", "1", "1.0", "NA"],
        "text": ["null", "NaN", "1e5", " x "],
        "label": ["NA", "None", "NA", "None"],
    }
    data = read_labelled(write_csv(tmp_path / "a.csv", columns, quoting=quoting), text="text")
    assert data.ids.tolist() == columns["id"]
    assert data.inputs == [("null",), ("NaN",), ("1e5",), (" x ",)]
    assert data.classes == ("NA", "None")


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["01", "1", "01", "1"], ("01", "1")),
        (["10", "9", "9", "10"], ("9", "10")),
        (["1.0", "10.0", "2.0", "1.0", "2.0", "10.0"], ("1", "2", "10")),
        (["True", "False", "True", "False"], ("False", "True")),
        (["b", "a", "B", "B", "a", "b"], ("B", "a", "b")),
    ],
)
def test_classes_are_in_natural_order(tmp_path, labels, classes):
    columns = {"size": [i * 0.5 for i in range(len(labels))], "label": labels}
    data = read_labelled(write_csv(tmp_path / "a.csv", columns))
    assert data.classes == classes
    whole = {f"{float(name):.1f}" if "." in labels[0] else name for name in classes}
    assert {labels[row] for row in range(len(labels))} == whole
    told = [line for line in data.said if "whole numbers" in line]
    assert bool(told) == ("." in labels[0])


@pytest.mark.parametrize("quote", ["", '"'])
def test_words_for_missing_numbers_are_told(tmp_path, quote):
    path = write(
        tmp_path / "a.csv", f"age,zip,label\n31,01234,{quote}a{quote}\n?,01234,b\n NA ,99999,a\n4.5,01234,b\n"
    )
    data = read_labelled(path)
    np.testing.assert_array_equal(data.inputs["age"], np.array([31, np.nan, np.nan, 4.5], dtype=np.float32))
    assert data.inputs["zip"].tolist() == ["01234", "01234", "99999", "01234"]
    assert any(line.startswith("'age': '?', ' NA ' (2 cells) taken as missing") for line in data.said)


def test_a_number_that_turns_into_a_word_far_down_makes_a_category(tmp_path):
    sizes = ["1", "2"] * 500 + ["big"] * 4
    data = read_labelled(write_csv(tmp_path / "a.csv", {"size": sizes, "label": ["a", "b", "b", "a"] * 251}))
    assert data.inputs["size"].tolist() == sizes


def test_an_infinite_number_is_told(tmp_path):
    path = write_csv(tmp_path / "a.csv", {"size": ["1", "2", "-inf", "4"], "label": ["a", "b", "a", "b"]})
    with pytest.raises(InputError, match="column 'size', row 2 is -inf; every number must be finite"):
        read_labelled(path)


@pytest.mark.parametrize("quote", ["", '"'])
def test_decimal_commas_are_numbers_where_fields_are_parted_by_semicolons(tmp_path, quote):
    path = write(tmp_path / "a.csv", f"size;label\n1,5;{quote}a{quote}\n-2;b\n0,25;a\n?;b\n")
    data = read_labelled(path)
    np.testing.assert_array_equal(data.inputs["size"], np.array([1.5, -2, 0.25, np.nan], dtype=np.float32))


def test_large_integers_are_kept_apart(tmp_path):
    times = [1_600_000_001, 1_600_000_002, 1_600_000_009, 1_600_000_004]
    data = read_labelled(write_csv(tmp_path / "a.csv", {"time": times, "label": ["a", "b", "a", "b"]}))
    assert data.inputs["time"].tolist() == times


class TestQuotes:
    def test_fields_may_hold_lines_and_delimiters(self, tmp_path):
        texts = ['a, "b"\nc and more', "d;e\r\nf", "g\th", 'only a " quote']
        columns = {"text": texts, "label": ["x", "y", "x", "y"]}
        assert read_labelled(write_csv(tmp_path / "a.csv", columns), text="text").inputs == [
            (t,) for t in texts
        ]

    def test_a_quote_in_a_tsv_may_be_a_letter(self, tmp_path):
        path = write(
            tmp_path / "a.tsv", 'text\tlabel\n" No , he said\tx\n5" screen\ty\n" a " b\tx\nfine\ty\n'
        )
        data = read_labelled(path, text="text")
        assert [text for (text,) in data.inputs] == ['" No , he said', '5" screen', '" a " b', "fine"]
        assert data.said[0].startswith("quotes are read as letters")

    def test_a_broken_quote_names_its_line(self, tmp_path):
        path = write(tmp_path / "a.csv", 'text,label\n"a\nb",x\n"never closed,y\nc,x\n')
        with pytest.raises(FileError, match=r"a\.csv: line 4: a quote opens there that is not closed"):
            read_labelled(path)

    def test_a_ragged_line_of_a_tsv_with_quotes_as_letters_is_named(self, tmp_path):
        path = write(tmp_path / "a.tsv", 'text\tlabel\n" No , he said\tx\nfine\n')
        with pytest.raises(FileError, match=r"a\.tsv: line 3 has 1 fields, expected 2"):
            read_labelled(path)

    def test_a_field_may_be_longer_than_the_parser_likes(self, tmp_path):
        long = "many words " * 20_000
        columns = {"text": [long, "b c", f'"{long}', "d e"], "label": ["x", "y", "x", "y"]}
        limit = csv.field_size_limit()
        assert read_labelled(write_csv(tmp_path / "a.csv", columns), text="text").inputs[2] == (f'"{long}',)
        assert csv.field_size_limit() == limit


@pytest.mark.parametrize("quote", ["", '"'])
@pytest.mark.parametrize("gz", [False, True])
def test_a_ragged_line_is_named(tmp_path, quote, gz):
    content = f"text,label\na,x\nb,{quote}y{quote}\n\nc,x,z\n".encode()
    path = write(tmp_path / ("a.csv.gz" if gz else "a.csv"), gzip.compress(content) if gz else content)
    with pytest.raises(FileError, match=r"line 5 has 3 fields, expected 2"):
        read_labelled(path)


@pytest.mark.parametrize("gz", [False, True])
@pytest.mark.parametrize("at", [0, 3_000, 5_000_000])
def test_bytes_that_are_not_utf8_are_found_where_they_are(tmp_path, gz, at):
    rows = b"text,label\n" + b"a,x\n" * (at // 4) + b"caf\xe9,x\n"
    path = write(tmp_path / ("a.csv.gz" if gz else "a.csv"), gzip.compress(rows, 1) if gz else rows)
    place, line = 11 + at // 4 * 4 + 3, 2 + at // 4
    with pytest.raises(
        FileError, match=rf"not UTF-8 text at byte {place:,} \(line {line:,}\); save the file as UTF-8"
    ):
        read_labelled(path)


def test_a_letter_cut_at_the_end_is_not_utf8(tmp_path):
    with pytest.raises(FileError, match=r"not UTF-8 text at byte 12 \(line 2\)"):
        read_labelled(write(tmp_path / "a.csv", b"text,label\na\xc3"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"text,label\na\0b,x\n", r"a NUL byte at byte 12 \(line 2\)"),
        (ROWS.encode("utf-16"), "this is UTF-16 text; save the file as UTF-8"),
        (b"PK\x03\x04\x14\0\0\0\x08\0\xff", "this is a zip archive or Excel file; save the sheet as CSV"),
        (gzip.compress(ROWS.encode(), mtime=0), r"this is gzipped; let its name end in \.gz"),
        (b"", "empty file, no rows"),
        (b"\xef\xbb\xbf\n \n", "empty file, no rows"),
        (b"text,label\n", "a header line but no rows"),
        (b'"text","label"\n\n', "a header line but no rows"),
        (b"text,label,text\na,x,b\n", r"two columns are called 'text' \(columns 1 and 3\); rename one, or"),
    ],
)
def test_what_is_no_table_is_told(tmp_path, content, message):
    with pytest.raises(FileError, match=r"a\.csv: " + message):
        read_labelled(write(tmp_path / "a.csv", content))


class TestWithoutHeader:
    rows = [  # noqa: RUF012
        ["gj04", "1", "", TEXTS[0]],
        ["gj04", "0", "*", TEXTS[1]],
        ["bc01", "1", "", TEXTS[2]],
        ["bc01", "0", "*", TEXTS[4]],
    ]

    def path(self, tmp_path, rows):
        return write(tmp_path / "cola.tsv", "".join("\t".join(row) + "\n" for row in rows))

    def test_columns_are_counted_from_one(self, tmp_path):
        data = read_labelled(self.path(tmp_path, self.rows), label="2", text="4")
        assert len(data) == 4
        assert data.inputs[0] == (TEXTS[0],)
        assert data.labels.tolist() == [1, 0, 1, 0]
        assert "no header line: columns are counted from 1" in data.said

    def test_a_cell_that_is_a_number_does_not_make_a_header(self, tmp_path):
        rows = [[TEXTS[0], "1"], [TEXTS[1], "2"], [TEXTS[2], "1"], [TEXTS[4], "2"]]
        data = read_labelled(self.path(tmp_path, rows), label="2", text="1")
        assert [text for (text,) in data.inputs] == [row[0] for row in rows]

    def test_without_options_the_error_says_how(self, tmp_path):
        message = (
            "no column looks like labels; columns are 'gj04', '1', '3', 'The parcel.*: name one with "
            "--label; if the first line is no header, count columns from 1: --label 2 --text 4"
        )
        with pytest.raises(InputError, match=message):
            read_labelled(self.path(tmp_path, self.rows))

    def test_a_header_of_numbers_is_a_header(self, tmp_path):
        path = write_tsv(tmp_path / "a.tsv", {"1": TEXTS, "2": LABELS})
        assert len(read_labelled(path, label="2", text="1")) == 6


class TestNumbersAsPeopleWriteThem:
    """What spreadsheets make of numbers; a second column shows how the file parts fractions."""

    @staticmethod
    def written(path, cells, beside=("1.5", "2.5"), delimiter=","):
        rows = 6 * len(cells)
        columns = {"n": [*cells] * 6, "m": [*beside] * (rows // 2), "label": ["a", "b"] * (rows // 2)}
        write_csv(path / "n.csv", columns, delimiter=delimiter)
        return path / "n.csv"

    @pytest.mark.parametrize(
        ("cells", "numbers", "said"),
        [
            (["7.219", "716", "1.234.567"], [7219, 716, 1234567], "'n': '7.219' and the like read as 7219"),
            (["7.219,5", "-1.000"], [7219.5, -1000], "'n': '7.219,5' and the like read as 7219.5"),
            (["7.219", "7.21"], [7.219, 7.21], ""),
        ],
    )
    def test_points_part_thousands_in_a_file_of_decimal_commas(self, tmp_path, cells, numbers, said):
        data = read_labelled(self.written(tmp_path, cells, ("5,44", "1,2"), ";"))
        np.testing.assert_allclose(data.inputs["n"][: len(cells)], np.float32(numbers))
        assert [line for line in data.said if "read as" in line] == ([said] if said else [])
        late = read_labelled(self.written(tmp_path, [*["999"] * 240, *cells[:2]], ("5,44", "1,2"), ";"))
        np.testing.assert_allclose(late.inputs["n"][240:242], np.float32(numbers[:2]))
        points = read_labelled(self.written(tmp_path, ["7.219", "716"], ("5.44", "1.2"), ";"))
        np.testing.assert_allclose(points.inputs["n"][:2], np.float32([7.219, 716]))

    @pytest.mark.parametrize(
        ("cells", "numbers", "said"),
        [
            (["1,234.5", "716"], [1234.5, 716], "'n': '1,234.5' and the like read as 1234.5"),
            (["1,234", "5", "n/a", "#N/A"], [1234, 5, np.nan, np.nan],
             "'n': '1,234' and the like read as 1234"),
            (["1.5", "2", "n/a", "."], [1.5, 2, np.nan, np.nan],
             "'n': 'n/a', '.' (12 cells) taken as missing numbers"),
        ],
    )  # fmt: skip
    def test_commas_part_thousands_and_missing_numbers_have_many_names(self, tmp_path, cells, numbers, said):
        data = read_labelled(self.written(tmp_path, cells))
        np.testing.assert_allclose(data.inputs["n"][: len(cells)], np.float32(numbers))
        assert said in data.said

    def test_all_columns_together_tell_what_a_mark_means(self, tmp_path):
        rows, labels = 6, ["a", "b"] * 6
        for name, columns, expected in (
            (
                "codes.csv",
                {"n": ["1.250", "12"] * rows, "m": ["1.5", "2.25"] * rows, "k": ["1,3", "2"] * rows},
                1.25,
            ),
            ("codes.tsv", {"n": ["1,250", "12"] * rows, "m": ["1,5", "2,25"] * rows}, None),
        ):
            write_csv(tmp_path / name, {**columns, "label": labels}, delimiter=";" if "csv" in name else "\t")
            found = read_labelled(tmp_path / name, features=list(columns)).inputs["n"]
            assert found[0] == (np.float32(expected) if expected else "1,250")

    @pytest.mark.parametrize(
        "cells", [["192.168.100.200", "10.0.0.1"], ["04664", "12345"], ["1.2.3", "1.2.4"]]
    )
    def test_addresses_codes_and_versions_are_no_numbers(self, tmp_path, cells):
        data = read_labelled(self.written(tmp_path, cells, ("5,44", "1,2"), ";"), features=["n", "m"])
        assert data.inputs["n"][0] == cells[0]
        assert not any("cells are numbers" in line for line in data.said)

    @pytest.mark.parametrize(
        ("cells", "numbers"),
        [
            (["5.377,19", "716"], [5377.19, 716]),
            (["5,377.19", "716"], [5377.19, 716]),
            (["1.234,5", "7.219"], [1234.5, 7219]),
        ],
    )
    @pytest.mark.parametrize("delimiter", [",", ";", "\t"])
    @pytest.mark.parametrize("beside", [("0.570", "0.5"), ("0,570", "0,5")])
    def test_a_cell_with_both_marks_tells_by_itself(self, tmp_path, cells, numbers, delimiter, beside):
        data = read_labelled(self.written(tmp_path, cells, beside, delimiter), features=["n"])
        np.testing.assert_allclose(data.inputs["n"][:2], np.float32(numbers))

    def test_a_cell_that_keeps_a_column_from_being_numbers_is_named(self, tmp_path):
        file = self.written(tmp_path, [*(str(number * 37 % 1009) for number in range(59)), "30 EUR"])
        why = "354 of 360 cells are numbers, but row 59 holds '30 EUR'"
        assert any(f"'n' ({why})" in line for line in read_labelled(file).said)
        assert f"'n' is read as categories: {why}" in read_labelled(file, features=["n", "m"]).said

    def test_a_note_to_excel_is_told(self, tmp_path):
        (tmp_path / "n.csv").write_text("sep=;\nn;label\n1;a\n2;b\n")
        with pytest.raises(FileError, match="line 1 is a note to Excel"):
            read_labelled(tmp_path / "n.csv")


def test_sep_may_be_a_column(tmp_path):
    (tmp_path / "n.csv").write_text("sep,label\n" + "1,a\n2,b\n1,b\n" * 2)
    assert read_labelled(tmp_path / "n.csv").inputs.columns.tolist() == ["sep"]
