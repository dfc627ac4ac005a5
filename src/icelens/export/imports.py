"""`icelens import`: annotations of Label Studio, or a table of verdicts, into the review of an audit."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from pathlib import Path

from icelens.auditing.source import columns_of, source_of
from icelens.data.labelled import Columns
from icelens.data.own.read import DELIMITED
from icelens.errors import FileError, InputError
from icelens.export.labelstudio_back import annotations_of
from icelens.export.said import Known, Said
from icelens.export.table_back import rows_of
from icelens.review.store import VERDICTS, Judgement, Store


@dataclass(frozen=True)
class Imported:
    """What came of a file of verdicts.

    Args:
        read: how many it held.
        new: how many of them were new.
        disagreed: how many examples they disagree on.
        passed: how many examples have another verdict than the newest of the file, given before.
    """

    read: int
    new: int
    disagreed: int
    passed: int


def import_verdicts(
    folder: Path,
    file: Path,
    *,
    who: str,
    data: Path | None = None,
    new_classes: bool = False,
    again: bool = False,
) -> Imported:
    """Add the verdicts of a file to the review of an audit: all of them, or none where one is wrong.

    A verdict that was imported before is not added again: another may have been given since.

    Args:
        folder: of the audit.
        file: Label Studio's export (JSON), or a CSV or TSV file with `id` or `index`, and `verdict` or
            `label`; the columns may have the names that they have in the audited data.
        who: whose verdicts they are, where the file does not say.
        data: where the audited data lies, if it was moved.
        new_classes: let labels be that no example has.
        again: give those too that were given before and do not stand.
    """
    from icelens.review.build import build_from_source

    if not file.is_file():
        raise FileError(f"{file}: no such file")
    build_from_source(folder, data)
    known = _known(folder)
    with Store(folder) as store:
        said = _read(file, known, _fingerprint(folder), who)
        if not said:
            raise InputError(f"{file}: holds no verdict, nor a label in the place of a given one")
        _check_classes(file, said, store, new_classes)
        before = len(store.history())
        _give(_unsaid(said, store), store, new_classes)
        passed = _unsaid(_newest(said), store)  # they were given before, and others since
        wanted = [replace(one, mark=f"{one.mark} {one.when}") for one in passed if _is_later(one, store)]
        if again:
            wanted = [replace(one, mark=f"{one.mark} {before}") for one in passed]
        _give(wanted, store, new_classes)
        new = len(store.history()) - before
        passed = _unsaid(_newest(said), store)
    return Imported(len(said), new, _disagreed(said), len(passed))


def _give(said: list[Said], store: Store, new_classes: bool) -> None:
    for person, theirs in groupby(said, lambda one: one.who):
        store.judge_all([_judgement(one) for one in theirs], who=person, new_class=new_classes)


def _is_later(one: Said, store: Store) -> bool:
    """Whether it was said after the verdict that stands, if the file tells."""
    try:
        said = datetime.fromisoformat(one.when)
        return said > datetime.fromisoformat(store.history(one.index)[-1].at)
    except (ValueError, TypeError):  # no time, or one without a zone
        return False


def _known(folder: Path) -> Known:
    from icelens.auditing.folder import AuditFolder

    table = AuditFolder(folder).read().examples
    ids, labels = ([str(name) for name in table[column]] for column in ("id", "label"))
    columns, source = columns_of(folder), source_of(folder)
    named = Columns(source.label, source.id) if source else Columns()  # all that audits wrote down before
    return Known(ids, labels, columns or named, recorded=columns is not None)


def _read(file: Path, known: Known, fingerprint: str, who: str) -> list[Said]:
    suffix = Path(file.name.lower().removesuffix(".gz")).suffix
    if file.suffix.lower() == ".json":
        found = annotations_of(file, _json(file), fingerprint)
    elif suffix in DELIMITED:
        found = rows_of(file, DELIMITED[suffix], known, who)
    else:
        raise InputError(f"{file}: neither .json, as Label Studio exports it, nor .csv or .tsv")
    return [_settled(file, one, known) for one in found]


def _settled(file: Path, one: Said, known: Known) -> Said:
    """The verdict in the store's words; an error where it cannot be meant for this audit."""
    if not 0 <= one.index < len(known.ids):
        raise InputError(f"{file}: {one.where}: no example {one.index}; there are {len(known.ids):,}")
    held = known.ids[one.index]
    if one.id is not None and held != one.id:
        raise InputError(
            f"{file}: {one.where}: example {one.index} has the id '{held}', not '{one.id}'; another audit?"
        )
    if one.verdict and one.verdict not in VERDICTS:
        raise InputError(
            f"{file}: {one.where}: unknown verdict '{one.verdict}'; known are {', '.join(VERDICTS)}"
        )
    if one.verdict == "relabel" and not one.label:
        raise InputError(f"{file}: {one.where}: 'relabel' needs a label")
    if one.verdict in ("", "relabel"):
        same = one.label == known.labels[one.index]
        return replace(one, verdict="keep" if same else "relabel", label=None if same else one.label)
    return replace(one, label=None)


def _check_classes(file: Path, said: list[Said], store: Store, new_classes: bool) -> None:
    known = {*store.classes, *store.new_classes()}
    for one in said:
        if one.verdict == "relabel" and one.label not in known and not new_classes:
            raise InputError(
                f"{file}: {one.where}: no class is called '{one.label}'; if it is meant, give --new-classes"
            )


def _unsaid(said: list[Said], store: Store) -> list[Said]:
    """Without those that stand already, word for word, as in a file that was exported from this review."""
    standing = {verdict.index: (verdict.verdict, verdict.label, verdict.who) for verdict in store.verdicts()}
    times = Counter(one.index for one in said)
    return [
        one for one in said
        if times[one.index] > 1 or standing.get(one.index) != (one.verdict, one.label, one.who)
    ]  # fmt: skip


def _newest(said: list[Said]) -> list[Said]:
    return list({one.index: one for one in said}.values())


def _judgement(one: Said) -> Judgement:
    return Judgement(one.index, one.verdict, _key(one), one.label)


def _key(one: Said) -> str:
    """The same for the same verdict of the same person, so that a file can be imported twice."""
    content = repr((one.index, one.verdict, one.label, one.who, one.mark))
    return f"import:{hashlib.blake2b(content.encode(), digest_size=16).hexdigest()}"


def _disagreed(said: list[Said]) -> int:
    answers: dict[int, set[tuple[str, str | None]]] = {}
    for one in said:
        answers.setdefault(one.index, set()).add((one.verdict, one.label))
    return sum(len(given) > 1 for given in answers.values())


def _json(file: Path) -> object:
    try:
        return json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise FileError(f"{file}: not JSON ({error}); is the file whole?") from None


def _fingerprint(folder: Path) -> str:
    from icelens.auditing.folder import read_json

    return str(read_json(folder / "recipe.json")["data_fingerprint"])
