import warnings

import pytest
from data_files import write_tsv

from icelens.data import glue
from icelens.errors import FileError

# As published: a header and one row with its text, class and name.
PUBLISHED = {
    "cola": (None, "gj04|0|*|They drank the pub.", ("They drank the pub.",), "unacceptable"),
    "sst2": ("sentence|label", "no wit |0", ("no wit ",), "negative"),
    "mrpc": ("Quality|#1 ID|#2 ID|#1 String|#2 String", '1|7|8|He said "no .|" No , he said',
             ('He said "no .', '" No , he said'), "equivalent"),
    "qqp": ("id|qid1|qid2|question1|question2|is_duplicate", "0|1|2|Why?|How?|0",
            ("Why?", "How?"), "not_duplicate"),
    "mnli": ("index|promptID|pairID|genre|sentence1_parse|sentence1|sentence2|label1|gold_label",
             "0|1|2|fiction|( a )|A.|B.|neutral|contradiction", ("A.", "B."), "contradiction"),
    "qnli": ("index|question|sentence|label", "0|Who?|He.|not_entailment", ("Who?", "He."), "not_entailment"),
    "rte": ("index|sentence1|sentence2|label", "0|A.|B.|entailment", ("A.", "B."), "entailment"),
    "wnli": ("index|sentence1|sentence2|label", "0|A.|B.|1", ("A.", "B."), "entailment"),
}  # fmt: skip


def lines(name):
    header, row, _, _ = PUBLISHED[name]
    return [header, row] if header else [row]


def test_every_task_is_here():
    assert PUBLISHED.keys() == glue.TASKS.keys()


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("bom", [False, True])
def test_every_task_is_read_in_its_published_form(tmp_path, name, bom):
    task, (_, row, texts, label) = glue.TASKS[name], PUBLISHED[name]
    write_tsv(tmp_path / "train.tsv", *lines(name), row, bom=bom)
    for test in task.tests:
        write_tsv(tmp_path / test, *lines(name), bom=bom)
    split = glue.read_split(tmp_path, task)
    assert split.train.inputs == [texts, texts]
    assert [split.train.classes[i] for i in split.train.labels] == [label, label]
    assert len(split.test) == 1
    assert list(split.extra) == (["mismatched"] if name == "mnli" else [])


@pytest.mark.parametrize("name", [name for name in PUBLISHED if name != "qqp"])
@pytest.mark.parametrize("change", ["lacks", "more"])
def test_a_row_with_other_fields_names_its_line(tmp_path, name, change):
    row = PUBLISHED[name][1]
    broken = row.rsplit("|", 1)[0] if change == "lacks" else row + "|x"
    path = write_tsv(tmp_path / "train.tsv", *lines(name), broken)
    count = row.count("|") + 1
    message = rf"train\.tsv: line {len(lines(name)) + 1} has {count + (1 if change == 'more' else -1)} fields"
    with pytest.raises(FileError, match=f"{message}, expected {count}"):
        glue.read_tsv(path, glue.TASKS[name])


def test_broken_rows_of_qqp_are_skipped_and_told(tmp_path):
    path = write_tsv(tmp_path / "train.tsv", *lines("qqp"), "1|2", "?|1", PUBLISHED["qqp"][1])
    with pytest.warns(
        UserWarning, match=r"train\.tsv: skipped 2 rows that do not have 6 fields; first at line 3"
    ):
        examples = glue.read_tsv(path, glue.TASKS["qqp"])
    assert len(examples) == 2


def test_a_whole_file_gives_no_warning(tmp_path):
    path = write_tsv(tmp_path / "train.tsv", *lines("qqp"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(glue.read_tsv(path, glue.TASKS["qqp"])) == 1


def test_only_a_newline_ends_a_row(tmp_path):
    (tmp_path / "train.tsv").write_bytes("sentence\tlabel\r\na\u2028b\x85 c\rd\x0b\t1\r\n".encode())
    examples = glue.read_tsv(tmp_path / "train.tsv", glue.TASKS["sst2"])
    assert examples.inputs == [("a\u2028b\x85 c\rd\x0b",)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"sentence\tlabel\nfine\t2\n", "line 2 has the label '2', expected one of 0, 1"),
        (b"text\tlabel\nfine\t1\n", "no column 'sentence'; columns are text, label"),
        (b"sentence\tlabel\n\xff\xfe\t1\n", "not UTF-8 text"),
        (b"", "no column 'sentence'"),
    ],
)
def test_other_contents_are_refused(tmp_path, content, message):
    (tmp_path / "train.tsv").write_bytes(content)
    with pytest.raises(FileError, match=rf"train\.tsv: {message}"):
        glue.read_tsv(tmp_path / "train.tsv", glue.TASKS["sst2"])


def test_mrpc_as_microsoft_publishes_it_is_split_by_the_dev_ids(tmp_path):
    header = PUBLISHED["mrpc"][0]
    rows = [f'{i % 2}|{i}|{i + 100}|" a{i}|b{i}' for i in range(5)]
    write_tsv(tmp_path / "msr_paraphrase_train.txt", header, *rows, bom=True)
    write_tsv(tmp_path / "mrpc_dev_ids.tsv", "3|103", "1|101", "0|999")
    split = glue.read_mrpc_original(tmp_path)
    assert split.train.inputs == [('" a0', "b0"), ('" a2', "b2"), ('" a4', "b4")]
    assert split.test.inputs == [('" a1', "b1"), ('" a3', "b3")]
    assert split.test.labels.tolist() == [1, 1]
