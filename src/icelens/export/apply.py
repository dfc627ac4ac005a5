"""`icelens apply`: the user's own data in its own format, with the verdicts in it."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from icelens.auditing.source import Source, found_source, source_data
from icelens.errors import InputError
from icelens.export.changes import Changes, changes_of, standing_verdicts
from icelens.export.outputs import FAMILIES, SUFFIXES, check_apart, check_free, log_of, replacing_either
from icelens.files import replacing

if TYPE_CHECKING:
    from icelens.data import Labelled
    from icelens.data.own.table import Table

BEFORE = "label_before"
TEXT = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".json")  # also as .gz


@dataclass(frozen=True)
class Applied:
    """What was written.

    Args:
        written: rows, or images of a folder; those that nothing was said of are among them.
        relabelled: how many of these have another label than before.
        dropped: how many were left out.
        out: where to.
        log: where what changed is written down.
        said: what to know about it.
        noun: "row" or "image".
    """

    written: int
    relabelled: int
    dropped: int
    out: Path
    log: Path
    said: tuple[str, ...] = ()
    noun: str = "row"


@dataclass(frozen=True)
class How:
    """What the user asked for beside the place."""

    history: bool = False
    link: bool = False
    force: bool = False


PLAINLY = How()


def apply_verdicts(
    folder: Path, out: Path, *, data: Path | None = None, history: bool = False, link: bool = False,
    force: bool = False,
) -> Applied:  # fmt: skip
    """Write the data of an audit again with the verdicts of its review in it.

    Args:
        folder: of the audit.
        out: what to write; of the same format as the data that was audited.
        data: where that data lies, if it was moved.
        history: add a column that holds the labels as they were.
        link: of a folder of images, link the files instead of copying them.
        force: replace what lies there. The source is never replaced.
    """
    how = How(history, link, force)
    verdicts = standing_verdicts(folder)
    source = found_source(folder, data)
    _check_places(Path(source.path), out, how)
    read = source_data(folder, data)
    return rewrite(source, read, changes_of(read, verdicts), out, how)


def rewrite(source: Source, read: Labelled, changes: Changes, out: Path, how: How = PLAINLY) -> Applied:
    """Write data again with changes in it, and a log of them beside it; both, or neither.

    Args:
        source: where it lies and how it is read.
        read: what was read from there.
        changes: what to do.
        out: what to write.
        how: what else was asked for.
    """
    _check_places(Path(source.path), out, how)
    write, said = _writer(source, changes, how)
    log = log_of(out)
    with replacing_either(out, folder=Path(source.path).is_dir()) as part, replacing(log) as logged:
        written = write(part, out)
        _write_log(logged, changes)
    return Applied(
        written, len(changes.relabelled), len(changes.dropped), out, log,
        said=(*said, *_moved(source, read, out)), noun="image" if _of_images(Path(source.path)) else "row",
    )  # fmt: skip


def _check_places(source: Path, out: Path, how: How) -> None:
    _check_format(source, out)
    log = log_of(out)
    for place in (out, log):
        check_apart(place, source)
    check_free(out, force=how.force, ours=log.is_file())
    check_free(log, force=how.force)


def _check_format(source: Path, out: Path) -> None:
    if source.is_dir():
        if _suffix(out) in SUFFIXES:
            raise InputError(
                f"{source} is a folder, and so is what is written; {out} is named like a file (--out)"
            )
        return
    suffix = _suffix(source)
    family = next((family for family in FAMILIES if suffix in family), (suffix,))
    zipped = out.suffix.lower() == ".gz" and suffix not in TEXT
    if _suffix(out) not in family or zipped:
        raise InputError(
            f"{source.name} is written again in its own format, so --out must end in {' or '.join(family)}, "
            f"not as {out.name}; icelens export writes other formats"
        )


def _suffix(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


Write = Callable[[Path, Path], int]


def _writer(source: Source, changes: Changes, how: How) -> tuple[Write, tuple[str, ...]]:
    """What writes the data to a path, given the name that it will have, and what to tell."""
    path = Path(source.path)
    if _of_images(path):
        return _images(path, changes, how), ()
    if how.link:
        raise InputError(f"--link is for folders of images; {path.name} is written whole")
    if _suffix(path) == ".npz" and path.is_file():
        return _npz(path, source, changes, how), ()
    return _rows(path, source, changes, how)


def _of_images(path: Path) -> bool:
    """Whether it is a folder of images, and not one that `datasets` saved."""
    from icelens.data.own.arrowfiles import is_saved

    return path.is_dir() and not is_saved(path)


def _images(path: Path, changes: Changes, how: How) -> Write:
    from icelens.export.rewrite.imagefolder import rewrite_imagefolder

    if how.history:
        raise InputError(
            "--history adds a column, which a folder of images has not; the log of changes holds it"
        )
    return lambda part, _: rewrite_imagefolder(path, changes, part, link=how.link)


def _npz(path: Path, source: Source, changes: Changes, how: How) -> Write:
    from icelens.data.own.npz import read_npz
    from icelens.export.rewrite.npz import rewrite_npz

    label = read_npz(path, _asked(source))[0].names[1]
    return lambda part, _: rewrite_npz(path, label, changes, part, before=BEFORE if how.history else None)


def _rows(path: Path, source: Source, changes: Changes, how: How) -> tuple[Write, tuple[str, ...]]:
    from icelens.data.own.columns import find_label
    from icelens.data.own.read import read_table

    asked = _asked(source)
    table = read_table(path, asked)
    label, _ = find_label(table, asked)
    before = BEFORE if how.history else None
    if before in table.names:
        raise table.origin.error(f"has a column '{before}' already; rename it, or leave --history out")
    names = table.class_names.get(label)
    added = [name for name in changes.new_classes if names is not None and name not in names]
    said = (f"classes new to the column's features: {', '.join(added)}",) if added else ()
    if table.layout is not None or _suffix(path) in (".jsonl", ".ndjson", ".json"):
        return _text(table, label, changes, before), said
    return _typed(path, label, changes, names, before), said


def _text(table: Table, label: str, changes: Changes, before: str | None) -> Write:
    from icelens.export.rewrite.delimited import rewrite_delimited
    from icelens.export.rewrite.jsonlines import rewrite_json

    rewrite = rewrite_json if table.layout is None else rewrite_delimited

    def write(part: Path, out: Path) -> int:
        with part.open("wb") as plain:
            if out.suffix.lower() != ".gz":
                return rewrite(table, label, changes, plain, before=before)
            with gzip.GzipFile("", "wb", fileobj=plain, mtime=0) as zipped:
                file: IO[bytes] = zipped  # type: ignore[assignment]
                return rewrite(table, label, changes, file, before=before)

    return write


def _typed(path: Path, label: str, changes: Changes, names: Any, before: str | None) -> Write:
    from icelens.export.rewrite.arrowfiles import rewrite_arrow, rewrite_parquet
    from icelens.export.rewrite.saved import rewrite_saved

    rewrite = rewrite_arrow if _suffix(path) in (".arrow", ".feather") else rewrite_parquet
    rewrite = rewrite_saved if path.is_dir() else rewrite
    return lambda part, _: rewrite(path, label, changes, part, names=names, before=before)


def _asked(source: Source) -> Any:
    from icelens.data.own.asked import Asked

    return Asked(source.label, source.text, source.image, source.features, source.id)


def _write_log(path: Path, changes: Changes) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("row", "id", "before", "after", "verdict", "who", "when"))
        for change in changes.log:
            cells = (change.row, change.id, change.before, change.after or "", change.verdict)
            writer.writerow((*cells, change.who, change.at))


def _moved(source: Source, read: Labelled, out: Path) -> tuple[str, ...]:
    """A word where a table names image files beside it, and the new one lies elsewhere."""
    path = Path(source.path)
    beside = read.kind == "image" and isinstance(read.inputs, list) and path.is_file()
    if not beside or out.absolute().parent == path.absolute().parent:
        return ()
    return (f"the images are named by paths from {path.absolute().parent}: put {out.name} there",)
