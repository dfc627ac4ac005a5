"""Eight tasks of GLUE: tab-separated text in which a quote is a character like any other."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from icelens.data.examples import Examples, Split, Texts, from_file
from icelens.errors import FileError


@dataclass(frozen=True)
class Task:
    """How to read one task: the columns with text, the column with the label, and what is written in it.

    Args:
        texts: names of the one or two columns with text.
        label: name of the column with the label.
        values: the label of class 0, 1, ... as the file writes it.
        classes: the name of class 0, 1, ...
        columns: the columns of a file without a header line.
        tests: the files to test on; the first is `Split.test`, the others go to `Split.extra`.
        lenient: skip rows with a wrong number of fields, with a warning, in place of an error.
    """

    texts: tuple[str, ...]
    label: str
    values: tuple[str, ...]
    classes: tuple[str, ...]
    columns: tuple[str, ...] | None = None
    tests: tuple[str, ...] = ("dev.tsv",)
    lenient: bool = False


_PAIR, _BINARY = ("sentence1", "sentence2"), ("0", "1")
_ENTAILS = ("entailment", "not_entailment")
_THREE = ("entailment", "neutral", "contradiction")

TASKS = {
    "cola": Task(("sentence",), "label", _BINARY, ("unacceptable", "acceptable"),
                 columns=("source", "label", "star", "sentence")),
    "sst2": Task(("sentence",), "label", _BINARY, ("negative", "positive")),
    "mrpc": Task(("#1 String", "#2 String"), "Quality", _BINARY, ("not_equivalent", "equivalent")),
    # The file that GLUE first published has a few rows that lack fields.
    "qqp": Task(("question1", "question2"), "is_duplicate", _BINARY, ("not_duplicate", "duplicate"),
                lenient=True),
    "mnli": Task(_PAIR, "gold_label", _THREE, _THREE, tests=("dev_matched.tsv", "dev_mismatched.tsv")),
    "qnli": Task(("question", "sentence"), "label", _ENTAILS, _ENTAILS),
    "rte": Task(_PAIR, "label", _ENTAILS, _ENTAILS),
    "wnli": Task(_PAIR, "label", _BINARY, ("not_entailment", "entailment")),
}  # fmt: skip

Row = tuple[int, list[str]]


def read_split(folder: Path, task: Task) -> Split:
    """A task's train.tsv, and as test set its dev set: GLUE keeps the labels of its test sets."""
    test, *others = [read_tsv(folder / name, task) for name in task.tests]
    extra = {
        Path(name).stem.removeprefix("dev_"): other
        for name, other in zip(task.tests[1:], others, strict=True)
    }
    return Split(read_tsv(folder / "train.tsv", task), test, extra)


def read_tsv(path: Path, task: Task) -> Examples:
    """One file of a task; row i is line i + 2, or line i + 1 of a file without a header."""
    columns, rows = _table(path, task)
    return _examples(path, task, columns, rows)


def read_mrpc_original(folder: Path) -> Split:
    """MRPC from Microsoft's training file and GLUE's list of the pairs that make the dev set.

    GLUE may not host MRPC itself. Rows keep the order of the file, as in the train.tsv and dev.tsv
    that GLUE's own script makes of these two.
    """
    task, path = TASKS["mrpc"], folder / "msr_paraphrase_train.txt"
    columns, rows = _table(path, task)
    dev = {tuple(fields[:2]) for _, fields in _lines(folder / "mrpc_dev_ids.tsv")}
    first, second = _position(path, columns, "#1 ID"), _position(path, columns, "#2 ID")
    held = [row for row in rows if (row[1][first], row[1][second]) in dev]
    kept = [row for row in rows if (row[1][first], row[1][second]) not in dev]
    return Split(_examples(path, task, columns, kept), _examples(path, task, columns, held))


def _examples(path: Path, task: Task, columns: list[str], rows: list[Row]) -> Examples:
    import torch

    texts = [_position(path, columns, name) for name in task.texts]
    label = _position(path, columns, task.label)
    inputs: Texts = [tuple(fields[i] for i in texts) for _, fields in rows]
    labels = [_class(path, task, number, fields[label]) for number, fields in rows]
    return from_file(path, inputs, torch.tensor(labels, dtype=torch.int64), task.classes)


def _table(path: Path, task: Task) -> tuple[list[str], list[Row]]:
    lines = _lines(path)
    columns = list(task.columns) if task.columns else next(lines, (0, [""]))[1]
    whole: list[Row] = []
    broken: list[Row] = []
    for row in lines:
        (whole if len(row[1]) == len(columns) else broken).append(row)
    if broken:
        _report(path, task, len(columns), broken)
    return columns, whole


def _report(path: Path, task: Task, expected: int, broken: list[Row]) -> None:
    number, fields = broken[0]
    if not task.lenient:
        raise FileError(f"{path}: line {number} has {len(fields)} fields, expected {expected}")
    warnings.warn(
        f"{path}: skipped {len(broken)} rows that do not have {expected} fields; first at line {number}",
        stacklevel=2,
    )


def _lines(path: Path) -> Iterator[Row]:
    # Only \n ends a line: the texts hold characters, such as U+2028, that str.splitlines would split at.
    with path.open(encoding="utf-8-sig", newline="\n") as file:
        try:
            for number, line in enumerate(file, 1):
                yield number, line.rstrip("\r\n").split("\t")
        except UnicodeDecodeError as error:
            raise FileError(f"{path}: not UTF-8 text ({error})") from None


def _position(path: Path, columns: list[str], name: str) -> int:
    if name not in columns:
        raise FileError(f"{path}: no column '{name}'; columns are {', '.join(columns)}")
    return columns.index(name)


def _class(path: Path, task: Task, number: int, value: str) -> int:
    if value not in task.values:
        raise FileError(
            f"{path}: line {number} has the label '{value}', expected one of {', '.join(task.values)}"
        )
    return task.values.index(value)
