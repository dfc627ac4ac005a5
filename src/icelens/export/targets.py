"""`icelens export`: which tools are written for, and in what form."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icelens.auditing.source import found_source, source_of
from icelens.errors import InputError, unknown
from icelens.export import dynamics, fiftyone, huggingface, labelstudio, tables
from icelens.export.mark import is_marked, mark
from icelens.export.outputs import check_apart, check_free, replacing_either
from icelens.export.reviewed import Reviewed, read_reviewed

if TYPE_CHECKING:
    from icelens.data import Labelled


@dataclass(frozen=True)
class Target:
    """What is written for a tool.

    Args:
        what: in words.
        write: writes it to a path and says how much it was.
        suffixes: how the file may be called; none for a folder.
        trains: whether the network is trained once more for it.
    """

    what: str
    write: Callable[..., str]
    suffixes: tuple[str, ...] = ()
    trains: bool = False


TARGETS = {
    "csv": Target("a table of all examples with their verdicts", tables.write_csv, (".csv",)),
    "parquet": Target("the same with types", tables.write_parquet, (".parquet", ".pq")),
    "huggingface": Target("a folder for datasets.load_from_disk", huggingface.write_huggingface),
    "labelstudio": Target("tasks with predictions", labelstudio.write_labelstudio, (".json",)),
    "fiftyone": Target("a folder with samples.json for Dataset.from_json", fiftyone.write_fiftyone),
    "cleanlab": Target("the label_issues of CleanLearning.fit", tables.write_cleanlab, (".csv",)),
    "cartography": Target("a folder with training_dynamics", dynamics.write_cartography, trains=True),
    "aum": Target("sample_id and aum", dynamics.write_aum, (".csv",), trains=True),
}


def export_audit(
    folder: Path, to: str, out: Path, *, data: Path | None = None, first: int | None = None,
    device: str | None = None, force: bool = False, tell: Callable[[str], None] = lambda line: None,
) -> str:  # fmt: skip
    """Write an audit and its verdicts for another tool; returns a line that says how much it was.

    Args:
        folder: of the audit.
        to: a name of TARGETS.
        out: the file or folder to write.
        data: where the audited data lies, if it was moved.
        first: how many tasks for Label Studio.
        device: to train on, where that has to be done; "auto" where left out.
        force: replace what lies there.
        tell: called with a line before something long.
    """
    if to not in TARGETS:
        raise unknown("target", to, TARGETS)
    target = TARGETS[to]
    options = _options(to, target, out, first, device)
    _check_out(folder, target, out, data, force)
    reviewed = read_reviewed(folder, data)
    if out.is_dir() and not target.suffixes:
        _check_images(out, reviewed.data)
    if target.trains:
        tell(
            "an audit keeps no history of every example: the network is trained once more, with cross entropy"
        )
    with replacing_either(out, folder=not target.suffixes) as part:
        written = target.write(reviewed, part, **options)
        if not target.suffixes:
            mark(part)
    return written


def _options(to: str, target: Target, out: Path, first: int | None, device: str | None) -> dict[str, Any]:
    if first is not None and (to != "labelstudio" or first < 1):
        raise InputError(f"--first is at least 1 and for labelstudio alone, got {first} for {to}")
    if device is not None and not target.trains:
        training = " and ".join(name for name, each in TARGETS.items() if each.trains)
        raise InputError(f"--device is for {training} alone, got {device} for {to}")
    if to == "labelstudio":
        return {"out": out, "first": first}
    return {"device": device or "auto"} if target.trains else {}


def _check_out(folder: Path, target: Target, out: Path, data: Path | None, force: bool) -> None:
    if target.suffixes and out.suffix.lower() not in target.suffixes:
        raise InputError(f"{out}: what is written is a file, named {' or '.join(target.suffixes)} (--out)")
    places = [out, *([out.with_suffix(".xml")] if target.suffixes == (".json",) else [])]
    for place in places:
        if data is not None or source_of(folder) is not None:
            check_apart(place, Path(found_source(folder, data).path))
        check_apart(place, folder / "audit.json")
        check_free(place, force=force, ours=is_marked(place))


def _check_images(out: Path, data: Labelled) -> None:
    """Raise where replacing a folder would take away images that a table names."""
    files = data.inputs if data.kind == "image" and isinstance(data.inputs, list) else []
    real = Path(os.path.realpath(out))
    for place in {path.parent for path in files}:
        origin = Path(os.path.realpath(place))
        if real in (origin, *origin.parents):
            raise InputError(f"{out} holds images that were audited; give another place (--out)")


__all__ = ["TARGETS", "Reviewed", "Target", "export_audit"]
