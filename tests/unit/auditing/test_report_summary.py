"""What the terminal shows of an audit."""

import io
import subprocess
import sys

import numpy as np
import pytest
from report_audits import HOSTILE, audited, digits, labelled, of_examples, texts, tumours
from rich.cells import cell_len
from rich.console import Console
from scipy.sparse import csr_matrix

from icelens.auditing.report.foreign import one_line
from icelens.auditing.summary import print_summary


def printed(audit, data, *, width=100, encoding="utf-8", terminal=False, **settings):
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    console = Console(file=file, width=width, force_terminal=terminal, color_system=None, highlight=False)
    print_summary(audit, data, console, **settings)
    file.flush()
    return raw.getvalue().decode(encoding)


def test_headline_next_step_pairs_and_the_least_trusted():
    audit, data = digits()
    lines = printed(audit, data).splitlines()
    assert lines[0].startswith("About ")
    assert "labels in digits are wrong (90 % interval" in lines[0]
    assert lines[1].startswith("Look through the suspects from the top")
    first = audit.pairs.iloc[0]
    assert lines[2].startswith("The list should hold about ")
    assert lines[3].startswith(f"Most frequent: {first['label']} → {first['guess']} ({first['errors']:.0f})")
    assert lines[5].split() == ["id", "label", "guess", "trust"]
    assert [line.split()[0] for line in lines[6:-1]] == audit.suspects(20)["id"].tolist()
    issues = int(audit.examples["is_issue"].sum())
    assert lines[-1] == f"… and {issues - 20} more suspects"
    assert printed(audit, data, top=issues - 1).endswith("\n… and 1 more suspect\n")
    assert "more suspect" not in printed(audit, data, top=issues)
    assert len(printed(audit, data, top=3).splitlines()) == 10
    assert len(printed(audit, data, top=0).splitlines()) == 4


def test_texts_and_tables_show_a_glance_at_the_content():
    assert "first sentence | second sentence" in printed(*texts([("first sentence", "second sentence")]))
    assert "mean radius 8.618, mean texture 11.79" in printed(*tumours())
    matrix = np.array([[0, 2.5], [1, 0]])
    for table in (matrix, csr_matrix(matrix)):
        data = labelled("table", table, [0, 1], ["a", "b"])
        assert "[1] 2.5" in printed(audited(data, 1 - np.eye(2)), data)


def test_a_path_is_shown_unless_it_is_the_id():
    for ids, expected in ((["one", "two"], True), (["cats/1.png", "cats/2.png"], False)):
        data = labelled("image", ["x/cats/1.png", "x/cats/2.png"], [0, 1], ["a", "b"], ids=ids)
        assert ("x/cats/1.png" in printed(audited(data, 1 - np.eye(2)), data)) is expected


@pytest.mark.parametrize("width", [40, 80, 200])
def test_lines_of_the_table_fit_the_width_and_keep_label_and_trust(width):
    names = ["a quite long name of a class " * 3, "b"]
    audit, data = texts(
        ["a sentence " * 30] * 5, classes=names, ids=[f"some/long/path/{i}" * 3 for i in range(5)]
    )
    table = printed(audit, data, width=width).split("\n\n")[1].splitlines()
    assert len(table) == 6
    for line in table:
        assert cell_len(line) <= width
    assert all("%" in line for line in table[1:])
    assert all("a sent" in line for line in table[1:])


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "cp1252"])
def test_hostile_texts_are_text_in_any_encoding(encoding, terminal):
    audit, data = texts(HOSTILE, classes=HOSTILE, ids=HOSTILE, name=HOSTILE[-1])
    said = printed(audit, data, encoding=encoding, terminal=terminal, width=2000)
    assert "[bold]not markup[/bold] [/]" in said
    bare = said.replace("\x1b[1m", "").replace("\x1b[0m", "")  # rich's own bold
    assert not any(ord(sign) < 32 and sign != "\n" for sign in bare)
    assert "\u202e" not in said
    if encoding == "utf-8":
        for text in HOSTILE:
            assert one_line(text) in said


def test_a_pipe_gets_whole_sentences_and_a_terminal_broken_ones():
    audit, data = digits()
    assert "interval" in printed(audit, data, width=30).splitlines()[0]
    assert "interval" not in printed(audit, data, width=30, terminal=True).splitlines()[0]


def test_where_nothing_is_wrong_it_says_so():
    audit, data = digits()
    examples = audit.examples.assign(is_issue=False, kind="", trust=1.0, guess=audit.examples["label"])
    said = printed(of_examples(examples), data)
    assert said.startswith("None of 1,797 labels in digits seems to be wrong")
    assert "Most frequent" not in said


def test_standard_output_is_the_default(capsys):
    print_summary(*texts(["a", "b"]))
    assert capsys.readouterr().out.startswith("About 2 of 2 labels in data are wrong")


def test_importing_report_and_summary_loads_nothing_heavy():
    code = (
        "import sys, icelens.auditing.report, icelens.auditing.summary; "
        "heavy = {'torch', 'pandas', 'PIL', 'jinja2', 'scipy', 'matplotlib', 'rich'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
