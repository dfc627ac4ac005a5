"""A table back into an audit: which row of it speaks of which example, and what its labels mean.

Here the data has several columns that may be taken for each other, and ids that are row numbers of others.
"""

import datasets
import numpy as np
import pandas as pd
import pytest

from icelens.data import read_labelled
from icelens.data.labelled import Columns
from icelens.errors import FileError, InputError
from icelens.export.said import Known
from icelens.export.table_back import rows_of

ROWS = 12
NAMES = np.array(["oak", "elm"])


def table(*ids, label="species", **more):
    """Of plants: every column of ids holds the row numbers, each in another order."""
    draw = np.random.default_rng(0)
    given = {name: draw.permutation(ROWS) for name in ids}
    return pd.DataFrame({**given, "size": draw.normal(size=ROWS), label: NAMES[np.arange(ROWS) % 2], **more})


def known_of(path, *, recorded=True, **options):
    """What an import knows of an audit of this file."""
    data = read_labelled(path, **options)
    ids, labels = [str(name) for name in data.ids], [data.classes[code] for code in data.labels]
    named = Columns(options.get("label"), options.get("id"))
    return Known(ids, labels, data.columns if recorded else named, recorded=recorded)


@pytest.fixture
def audited(tmp_path):
    def read(frame, *, recorded=True, index=False, **options):
        frame.to_csv(tmp_path / "data.csv", index=index)
        return known_of(tmp_path / "data.csv", recorded=recorded, **options)

    return read


@pytest.fixture
def said(tmp_path):
    """What a table says: the label of each row, or its verdict."""

    def read(frame, known, *, index=False):
        frame.to_csv(tmp_path / "back.csv", index=index)
        found = rows_of(tmp_path / "back.csv", ",", known, "me")
        return {one.index: one.label or one.verdict for one in found}

    return read


def corrected(frame, row=3, label="species"):
    """A copy with one other label, and that label."""
    other = "elm" if frame[label][row] == "oak" else "oak"
    return frame.assign(**{label: frame[label].where(frame.index != row, other)}), other


class TestIds:
    def test_a_column_of_ids_called_index_holds_no_row_numbers(self, audited, said):
        frame = table("index")
        known, (copy, other) = audited(frame), corrected(frame)
        assert said(copy, known) == {3: other}
        assert said(copy.iloc[[3, 5]][["index", "species"]], known) == {3: other, 5: "elm"}
        assert said(copy.iloc[[3]].assign(verdict="drop"), known) == {3: "drop"}

    @pytest.mark.parametrize("what", [{"verdict": "drop"}, {"label": "oak"}])
    def test_a_list_that_may_mean_ids_or_row_numbers_is_refused(self, audited, said, what):
        frame = table("index")
        known = audited(frame)
        rows = frame[["index"]].head(4).assign(**what)
        with pytest.raises(
            InputError, match="'index' may hold row numbers or ids, and these are other exampl"
        ):
            said(rows, known)
        assert list(said(rows.rename(columns={"index": "id"}), known)) == [0, 1, 2, 3]
        words = table("index").assign(index=[f"p{row}" for row in range(ROWS)])
        assert list(said(words[["index"]].assign(**what).head(4), audited(words))) == [0, 1, 2, 3]

    @pytest.mark.parametrize("recorded", [True, False])
    def test_the_columns_that_were_named_come_before_ours(self, audited, said, recorded):
        frame = table("id", "flower_id", "index", label="gold_label").assign(label=NAMES[[0] * ROWS])
        known = audited(frame, recorded=recorded, id="flower_id", label="gold_label")
        copy, other = corrected(frame, label="gold_label")
        assert said(copy, known) == {3: other}

    def test_a_name_that_means_something_else_in_the_data_is_refused(self, audited, said):
        frame = table("id", "flower_id")
        rows = frame[["id", "species"]].head(3)
        with pytest.raises(
            InputError, match=r"in the data ids are in 'flower_id'.* and 'id' is something else"
        ):
            said(rows, audited(frame, id="flower_id"))
        repeated = frame.assign(id=[0, 1] * 6).drop(columns="flower_id")
        with pytest.raises(
            InputError, match=r"in the data ids are row numbers .* and 'id' is something else"
        ):
            said(repeated[["id", "species"]], audited(repeated))
        assert said(repeated.head(2).assign(index=[7, 8]), audited(repeated)) == {7: "oak", 8: "elm"}

    def test_an_audit_that_recorded_no_columns_takes_row_numbers_unless_they_may_be_ids(self, audited, said):
        frame = table("index")
        rows = frame[["index", "species"]].head(3)
        with pytest.raises(InputError, match="'index' may hold row numbers or ids"):
            said(rows, audited(frame, recorded=False))
        numbered = frame.drop(columns="index")
        assert set(said(rows, audited(numbered, recorded=False))) == set(rows["index"])

    def test_ids_in_a_column_without_a_name(self, audited, said):
        """As pandas writes its row names, and calls them when it writes what it read."""
        frame = table().set_axis(np.random.default_rng(1).permutation(ROWS))
        known = audited(frame, index=True)
        row = frame.index[3]
        copy, other = corrected(frame, row)
        assert said(copy, known, index=True) == {3: other}
        again = copy.reset_index(names="Unnamed: 0")
        assert said(again, known) == {3: other}
        assert said(again, known, index=True) == {3: other}
        with pytest.raises(
            InputError, match=r"both 'index' and the column 1, which .* may hold ids; remove one"
        ):
            said(copy.reset_index(), known, index=True)
        with pytest.raises(InputError, match="'index' may hold row numbers or ids"):
            said(copy.reset_index(), known)

    def test_ids_over_53_bits_in_a_column_without_a_name(self, audited, said):
        frame = table().set_axis([1234567890123456789 + row for row in range(ROWS)])
        known = audited(frame, index=True)
        assert known.ids[1] == "1234567890123456790"
        assert said(frame.iloc[[1]], known, index=True) == {1: "elm"}

    def test_row_numbers_of_pandas_are_no_ids(self, audited, said):
        frame = table("flower_id")
        with pytest.raises(InputError, match="columns must be id or index"):
            said(frame[["species"]], audited(frame), index=True)


class TestLabels:
    @pytest.mark.parametrize("recorded", [True, False])
    def test_whole_numbers_with_a_fraction(self, audited, said, recorded):
        frame = table("id").assign(species=(np.arange(ROWS) % 2).astype(float))
        known = audited(frame, recorded=recorded)
        assert set(known.labels) == {"0", "1"}
        copy = frame.assign(species=frame["species"].where(frame.index != 3, 0.0))
        assert said(copy, known) == {3: "0"}
        assert said(copy.iloc[[3]].assign(species=5.0), known) == {3: "5"}

    def test_a_class_may_be_called_like_a_number_with_a_fraction(self, audited, said):
        frame = table("id").assign(species=np.where(np.arange(ROWS) % 2, "1.0", "v1"))
        assert said(frame.iloc[[0]].assign(species="1.0"), audited(frame)) == {0: "1.0"}

    @staticmethod
    def saved(folder, names):
        """Ids, a feature and codes, as `datasets` saves them and writes them to CSV."""
        features = datasets.Features(
            id=datasets.Value("string"), x=datasets.Value("float64"), label=datasets.ClassLabel(names=names)
        )
        codes = np.arange(ROWS) % (len(names) - 1)  # the last class has no example
        columns = {"id": [f"k{row}" for row in range(ROWS)], "x": np.random.default_rng(0).random(ROWS)}
        found = datasets.Dataset.from_dict({**columns, "label": codes}, features=features)
        found.save_to_disk(folder / "saved")
        return found.to_pandas(), known_of(folder / "saved")

    def test_codes_of_a_saved_data_set(self, tmp_path, said):
        frame, known = self.saved(tmp_path, ["no", "yes", "maybe"])
        changed = frame.assign(label=frame["label"].where(frame.index != 3, 2))
        assert said(changed, known) == {3: "maybe"}
        assert said(changed.astype({"label": float}), known) == {3: "maybe"}
        assert said(changed.assign(label=-1), known) == {}
        assert said(frame.head(1).assign(label="yes"), known) == {0: "yes"}

    def test_codes_that_are_classes_too_are_refused(self, tmp_path, said):
        frame, known = self.saved(tmp_path, ["1", "2", "3"])
        with pytest.raises(InputError, match="line 2: '1' is a class, and also the code of '2'"):
            said(frame.iloc[[1]], known)
        assert said(frame[["id"]].head(1).assign(label_after="2"), known) == {0: "2"}
        assert said(frame[["id"]].head(1).assign(label="2", verdict="relabel"), known) == {0: "2"}
        same, known = self.saved(tmp_path / "same", ["0", "1", "2"])
        assert said(same.head(2).assign(label=[1, 1]), known) == {0: "1", 1: "1"}


class TestFiles:
    @pytest.mark.parametrize("suffix", ["csv", "tsv", "csv.gz"])
    @pytest.mark.parametrize("delimiter", [",", ";", "\t"])
    def test_delimiters_are_those_of_an_audit(self, audited, tmp_path, suffix, delimiter):
        known, path = audited(table("id")), tmp_path / f"back.{suffix}"
        pd.DataFrame({"id": [0, 1], "label": ["oak", "elm"]}).to_csv(path, sep=delimiter, index=False)
        assert len(rows_of(path, ",", known, "me")) == 2

    @pytest.mark.parametrize(
        ("encoding", "why"),
        [("latin-1", r"not UTF-8 text at byte 11 \(line 2\); save"), ("utf-16", "this is UTF-16 text; save")],
    )
    def test_other_encodings_are_told(self, audited, tmp_path, encoding, why):
        (tmp_path / "back.csv").write_text("id,label\n1,é\n", encoding=encoding)
        with pytest.raises(FileError, match=why):
            rows_of(tmp_path / "back.csv", ",", audited(table("id")), "me")

    def test_a_long_cell_and_the_line_that_is_wrong(self, audited, tmp_path):
        known, words = audited(table("id")), "word " * 40_000
        (tmp_path / "back.csv").write_text(f'id,text,label\n\n3,"{words}\nand more",oak\nnone,,elm\n')
        with pytest.raises(InputError, match="line 5: no example has the id 'none'"):
            rows_of(tmp_path / "back.csv", ",", known, "me")
        (tmp_path / "back.csv").write_text(f"id,text,label\n3,{words},oak\n")
        assert [one.label for one in rows_of(tmp_path / "back.csv", ",", known, "me")] == ["oak"]


def test_where_rows_were_left_out_an_index_alone_is_refused_and_an_id_is_the_row(tmp_path, said):
    """Of row 8 on each example stands two places before its row: two rows have no label."""
    frame = table().assign(species=["oak", "elm"] * 6)
    frame.loc[[6, 7], "species"] = None
    frame.to_csv(tmp_path / "data.csv", index=False)
    known = known_of(tmp_path / "data.csv", drop_unlabelled=True)
    assert known.ids[6] == "8"
    for index in (8, "8.0", " 8"):
        with pytest.raises(InputError, match="'index' may hold row numbers or ids"):
            said(pd.DataFrame({"index": [index], "verdict": ["drop"]}), known)
    assert said(pd.DataFrame({"id": [8], "verdict": ["drop"]}), known) == {6: "drop"}
    assert said(pd.DataFrame({"index": [6], "id": [8], "verdict": ["drop"]}), known) == {6: "drop"}


def test_ids_of_letters_are_no_rows_that_an_index_could_be_taken_for(tmp_path, said):
    frame = table().assign(id=[f"p{row}" for row in range(ROWS)])
    frame.loc[[6, 7], "species"] = None
    frame.to_csv(tmp_path / "data.csv", index=False)
    known = known_of(tmp_path / "data.csv", drop_unlabelled=True)
    assert said(pd.DataFrame({"index": [6], "verdict": ["drop"]}), known) == {6: "drop"}
