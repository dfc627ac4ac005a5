"""Where audited data was read from, and how to read it again."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icelens.errors import FileError, IcelensError, InputError, MissingFileError

if TYPE_CHECKING:
    from icelens.data import Labelled
    from icelens.data.labelled import Columns

FEATURES = "features"  # in recipe.json, of a DataFrame in memory: what each of its columns is

IN_A_FILE = (
    "Save the same rows in the same order and name that file (--data): numpy.savez('data.npz', X=X, y=y); of "
    "a DataFrame X.assign(label=y).to_parquet('data.parquet'); of texts a table with columns text and label; "
    "and your ids, if you gave some, as ids=ids or in a column id"
)


@dataclass(frozen=True)
class Source:
    """A file or folder and how it was read: the arguments of `read_labelled`, as `recipe.json` holds them."""

    path: str
    label: str | None = None
    text: tuple[str, ...] = ()
    image: str | None = None
    features: tuple[str, ...] = ()
    id: str | None = None
    drop_unlabelled: bool = False
    keep_rare: bool = False
    skip_broken: bool = False

    def read(self) -> Labelled:
        """The examples and their given labels."""
        from icelens.data import read_labelled

        options = {name: value for name, value in vars(self).items() if name != "path"}
        return read_labelled(self.path, **options)

    def recorded(self) -> dict[str, Any]:
        """What JSON holds: the path whole, so that it is found from any folder."""
        lists = {"text": list(self.text), "features": list(self.features)}
        return {**vars(self), **lists, "path": str(Path(self.path).absolute())}


def source_of(folder: str | Path) -> Source | None:
    """Where the data of the audit in this folder was read from; None for arrays handed in from Python."""
    recorded = _recipe(folder).get("source")
    if recorded is None:
        return None
    names = {field.name for field in dataclasses.fields(Source)}
    if not isinstance(recorded, dict) or "path" not in recorded or set(recorded) - names:
        raise FileError(f"{Path(folder) / 'recipe.json'}: its 'source' is not what an audit wrote")
    lists = {name: tuple(recorded.get(name) or ()) for name in ("text", "features")}
    return Source(**{**recorded, **lists})


def columns_of(folder: str | Path) -> Columns | None:
    """The columns that the data of the audit in this folder was read from.

    None where it was no table, and of an audit that was made before they were recorded.
    """
    from icelens.data.labelled import Columns

    recorded = _recipe(folder).get("columns")
    if recorded is None:
        return None
    names = {field.name for field in dataclasses.fields(Columns)}
    if not isinstance(recorded, dict) or set(recorded) - names:
        raise FileError(f"{Path(folder) / 'recipe.json'}: its 'columns' are not what an audit wrote")
    lists = {name: tuple(recorded.get(name) or ()) for name in ("others", "codes")}
    return Columns(**{**recorded, **lists})


def found_source(folder: str | Path, data: str | Path | None = None) -> Source:
    """The source of an audit at the place where its data lies today.

    Args:
        folder: of the audit.
        data: where the data lies, where that is known; else the recorded path is tried, and then its name
            beside the audit's folder: both may have been moved together.
    """
    source, folder = source_of(folder), Path(folder)
    if data is not None:
        return dataclasses.replace(source or _source_in_place(folder), path=str(data))
    if source is None:
        raise InputError(
            f"{folder}: was made from arrays in memory, so there is no file to read again. {IN_A_FILE}"
        )
    was, beside = Path(source.path), folder.absolute().parent / Path(source.path).name
    for place in (was, beside):
        if place.exists():
            return dataclasses.replace(source, path=str(place))
    also = "" if beside == was else f", nor {beside}"
    raise MissingFileError(f"{was}: no such file or folder{also}; say where it is (--data)")


def source_data(folder: str | Path, data: str | Path | None = None) -> Labelled:
    """The data of an audit, read again and found to be the same."""
    from icelens.auditing.fingerprint import is_data_of

    source, recipe = found_source(folder, data), _recipe(folder)
    in_memory = source_of(folder) is None
    read = _read_in_place(source, recipe.get(FEATURES)) if in_memory else source.read()
    if is_data_of(recipe, read):
        return read
    # A table may have a column that looks like ids, where none were given with the arrays.
    numbered = dataclasses.replace(read, ids=read.rows.astype(object))
    if in_memory and is_data_of(recipe, numbered):
        return numbered
    raise _other_data(source, folder, recipe, read)


def _source_in_place(folder: str | Path) -> Source:
    """How to read a file that stands in for arrays; that it holds the same is told by its fingerprint.

    What was let through in memory is let through here, and so is more.
    """
    features = tuple(_recipe(folder).get(FEATURES) or ())
    return Source("", features=features, drop_unlabelled=True, keep_rare=True)


def _read_in_place(source: Source, kinds: dict[str, str] | None) -> Labelled:
    from icelens.data.own.assemble import Let
    from icelens.data.own.frames import holds_table, read_frame

    if kinds and holds_table(Path(source.path)):
        return read_frame(Path(source.path), kinds, Let(source.drop_unlabelled, source.keep_rare))
    return dataclasses.replace(source, features=()).read()


def _other_data(source: Source, folder: str | Path, recipe: dict[str, Any], read: Labelled) -> InputError:
    from icelens.auditing.fingerprint import CONTENTS, are_files

    name = Path(source.path).name
    if recipe.get("source") is None:
        return InputError(f"{name} does not hold the arrays that were audited into {folder}. {IN_A_FILE}")
    dated = are_files(read.inputs) and CONTENTS not in recipe
    copied = ", or is a copy without the dates of its files, by which it is known here (cp -a keeps them)"
    return InputError(
        f"{name} changed since it was audited into {folder}{copied if dated else ''}, or this version of "
        "icelens reads it in another way; audit it again (icelens export --to csv keeps the verdicts for an "
        "import), or name the data as it was (--data)"
    )


def no_audit(folder: str | Path) -> IcelensError:
    """The error for a place that should hold a finished audit and does not."""
    folder = Path(folder)
    if folder.is_file():
        return InputError(f"{folder} is a file; name the folder that icelens audit wrote")
    if (folder / "recipe.json").exists():
        return MissingFileError(f"{folder}: holds an audit that was stopped; give its icelens audit again")
    if folder.exists():
        return MissingFileError(f"{folder}: holds no finished audit; run icelens audit first")
    others = sorted(path.parent.name for path in folder.parent.glob("*/audit.json"))[:5]
    there = f"; audits there are {', '.join(others)}" if others else "; run icelens audit first"
    return MissingFileError(f"{folder}: no such folder{there}")


def _recipe(folder: str | Path) -> dict[str, Any]:
    from icelens.auditing.folder import read_json

    path = Path(folder) / "recipe.json"
    if not path.exists():
        raise no_audit(folder)
    return read_json(path)
