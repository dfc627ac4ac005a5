"""The training rows of a trial on text: read back, and the least trusted of them in words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from icelens.data import Examples, load
from icelens.data.glue import TASKS
from icelens.errors import FileError, InputError, MissingFileError, unknown
from icelens.files import replacing
from icelens.reproduce.paper_text import TITLES
from icelens.reproduce.store import trial_path
from icelens.reproduce.tables import markdown

if TYPE_CHECKING:
    from rich.table import Table

    from icelens.reproduce.experiment import Experiment


@dataclass(frozen=True)
class Suspect:
    """A training row of low confidence, in words."""

    index: int
    label: str
    guess: str
    confidence: float
    texts: tuple[str, ...]


def rows_path(experiment: Experiment, results: Path, method: str) -> Path:
    """Where the training rows of an experiment's first trial lie."""
    return trial_path(results, experiment.table, experiment.data, method, 0).with_suffix(".npz")


def lowest(data: str, npz: Path | str, root: Path | str, n: int = 20) -> list[Suspect]:
    """The rows of a task's training set with the lowest confidence, lowest first.

    Args:
        data: a task of GLUE.
        npz: the file of a trial's rows, `results/table2/<data>-<method>-0.npz`.
        root: the folder that holds `glue`.
        n: how many.
    """
    examples, rows = load(known(data), root).train, read_rows(npz, "confidence")
    _check_length(npz, rows["confidence"], examples)
    return [
        Suspect(
            index=row,
            label=examples.classes[int(examples.labels[row])],
            guess=examples.classes[int(rows["guess"][row])],
            confidence=float(rows["confidence"][row]),
            texts=tuple(str(text).strip() for text in examples.inputs[row]),
        )
        for row in lowest_rows(rows["confidence"], n)
    ]


def lowest_rows(confidence: NDArray[Any], n: int) -> list[int]:
    """The numbers of the rows with the lowest confidence, lowest first."""
    return [int(row) for row in np.argsort(confidence, kind="stable")[:n]]


def write_suspects(path: Path, suspects: Sequence[Suspect]) -> None:
    """Keep the least trusted texts, so that they can be shown where the data set is not."""
    with replacing(path) as part:
        text = json.dumps([asdict(suspect) for suspect in suspects], indent=1, ensure_ascii=False)
        part.write_text(text + "\n", encoding="utf-8")


def read_suspects(path: Path, npz: Path | str) -> list[Suspect]:
    """The texts that were kept; those of another trial than that of the rows in `npz` are refused."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        suspects = [Suspect(**{**item, "texts": tuple(item["texts"])}) for item in kept]
    except FileNotFoundError:
        raise MissingFileError(f"{path}: no such file") from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise FileError(f"{path}: not a list of texts: {error}") from None
    if [s.index for s in suspects] != lowest_rows(read_rows(npz, "confidence")["confidence"], len(suspects)):
        raise InputError(f"{path}: its texts are not the lowest of {npz}")
    return suspects


def suspects_markdown(suspects: Sequence[Suspect]) -> str:
    """The least trusted texts in Markdown."""
    rows = [
        (str(s.index), s.label, s.guess, f"{s.confidence:.3g}", "<br>".join(_escaped(t) for t in s.texts))
        for s in suspects
    ]
    return markdown([("index", "label", "guess", "confidence", "text"), *rows])


def suspects_coloured(data: str, suspects: Sequence[Suspect]) -> Table:
    """The least trusted texts for the terminal: the label in red, the guess in blue where it differs."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"{TITLES[data]}: the {len(suspects)} least trusted labels", show_lines=True)
    for name in ("index", "label", "guess", "confidence"):
        table.add_column(name, justify="right" if name in ("index", "confidence") else "left", no_wrap=True)
    table.add_column("text", ratio=1)
    for suspect in suspects:
        agrees = suspect.guess == suspect.label
        table.add_row(
            str(suspect.index),
            Text(suspect.label, style="red"),
            Text(suspect.guess, style="red" if agrees else "blue"),
            f"{suspect.confidence:.3g}",
            Text("\n".join(suspect.texts)),  # as it is: brackets in a text are not markup
        )
    return table


def read_rows(npz: Path | str, score: str) -> dict[str, NDArray[Any]]:
    """What a trial kept of each training row; `score` must be among it."""
    try:
        with np.load(npz, allow_pickle=False) as file:
            rows = {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise MissingFileError(f"{npz}: no such file; the trial with seed 0 writes it") from None
    except (OSError, ValueError) as error:
        raise FileError(f"{npz}: not the rows of a trial: {error}") from None
    if score not in rows:
        why = "; cross entropy has none" if score == "confidence" else ""
        raise InputError(f"{npz}: holds no {score}{why}")
    return rows


def known(data: str) -> str:
    """The task, if it is one of GLUE's."""
    if data not in TASKS:
        raise unknown("data", data, TASKS)
    return data


def _check_length(npz: Path | str, confidence: NDArray[Any], examples: Examples) -> None:
    if len(confidence) != len(examples):
        raise InputError(f"{npz}: has {len(confidence)} rows, but the training file has {len(examples)}")


def _escaped(text: str) -> str:
    for character in "\\`*_<>|$":
        text = text.replace(character, f"\\{character}")
    return text
