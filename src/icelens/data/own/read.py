"""read_labelled and from_arrays: the user's own data into `Labelled`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from icelens.data.labelled import Columns, Labelled, rows_in
from icelens.data.own import arrays, columns, imagefolder, inputs
from icelens.data.own.arrowfiles import is_saved, read_arrow, read_parquet, read_saved
from icelens.data.own.asked import Asked
from icelens.data.own.assemble import Let, assemble
from icelens.data.own.delimited import read_delimited
from icelens.data.own.jsonlines import read_jsonlines
from icelens.data.own.labels import read_labels
from icelens.data.own.npz import read_npz
from icelens.data.own.origin import Origin, brief
from icelens.data.own.profile import IN_ORDER
from icelens.data.own.table import Table
from icelens.errors import MissingFileError

DELIMITED = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
TYPED: dict[str, Callable[[Path], Table]] = {
    ".jsonl": read_jsonlines,
    ".ndjson": read_jsonlines,
    ".json": read_jsonlines,
    ".parquet": read_parquet,
    ".pq": read_parquet,
    ".arrow": read_arrow,
    ".feather": read_arrow,
}
GZIPPED = (*DELIMITED, ".jsonl", ".ndjson", ".json")


def read_labelled(
    path: Path | str,
    *,
    label: str | None = None,
    text: str | Sequence[str] = (),
    image: str | None = None,
    features: str | Sequence[str] = (),
    id: str | None = None,
    drop_unlabelled: bool = False,
    keep_rare: bool = False,
    skip_broken: bool = False,
) -> Labelled:
    """Read a file or folder of the user's own; what is not named is found, and told in `Labelled.said`.

    Read are CSV and TSV (.csv, .tsv, .tab), JSON Lines (.jsonl, .ndjson; .json also as one list), each also
    with .gz; Parquet (.parquet, .pq); Arrow and Feather (.arrow, .feather); a folder that Hugging Face's
    `save_to_disk` made; .npz; and a folder of images in class-named folders.

    Args:
        path: the file or folder.
        label: the column of labels, or the array of an .npz file.
        text: one or two columns of text to learn from.
        image: the column of image files, relative to the table's folder, or of their bytes.
        features: the columns of numbers, categories or vectors to learn from.
        id: the column that names each example.
        drop_unlabelled: leave rows out that have no label; else they are an error.
        keep_rare: let classes be that have one example alone; else they are an error.
        skip_broken: leave images out that cannot be decoded; else they are an error.
    """
    path = Path(path)
    asked = Asked(label, _several(text), image, _several(features), id)
    asked.check(Origin(path))
    let = Let(drop_unlabelled, keep_rare, skip_broken)
    if not os.path.exists(path):
        raise MissingFileError(f"{path}: no such file or folder")
    if path.is_dir():
        return _from_folder(path, asked, let)
    if not path.is_file():
        raise Origin(path).damaged("neither a file nor a folder")
    if suffix_of(path) == ".npz":
        return _from_npz(path, asked, let)
    return from_table(read_table(path, asked), asked, let)


def read_table(path: Path, asked: Asked) -> Table:
    """The columns of a file, or of a folder that `save_to_disk` made."""
    if path.is_dir():
        return read_saved(path)
    suffix = suffix_of(path)
    if suffix in DELIMITED:
        return read_delimited(path, DELIMITED[suffix], named=asked.names, exact=asked.exact)
    return TYPED[suffix](path)


def from_arrays(
    X: Any,
    y: Any = None,
    *,
    ids: Any = None,
    name: str = "arrays",
    classes: Sequence[str] | None = None,
    drop_unlabelled: bool = False,
    keep_rare: bool = False,
    skip_broken: bool = False,
) -> Labelled:
    """Data in memory as `Labelled`.

    Args:
        X: features as an array or tensor (rows, features), a scipy sparse matrix or a DataFrame; images as
            uint8 or as floats from 0 to 1, (rows, height, width) with channels last, in tensors first, or a
            list of paths; texts as a list, array or Series of strings, or a list of pairs; or, without y,
            a torch data set whose items are (x, y).
        y: the given labels: strings, integers, booleans, whole floats or categories.
        ids: a name for each example; row numbers if left out.
        name: what to call the data set.
        classes: what the integers in y stand for: the name of class 0, 1, ...
        drop_unlabelled: leave rows out that have no label; else they are an error.
        keep_rare: let classes be that have one example alone; else they are an error.
        skip_broken: leave images out that cannot be decoded; else they are an error.

    >>> pets = from_arrays(["purrs", "barks", "meows", "howls"], ["cat", "dog", "cat", "dog"])
    >>> pets.kind, pets.classes, pets.labels.tolist()
    ('text', ('cat', 'dog'), [0, 1, 0, 1])
    """
    origin = Origin()
    if y is None:
        from icelens.data.own import items

        dataset, (X, y) = X, items.read_items(X, origin)
        classes = classes or items.class_names(dataset, y)
    data = _from_memory(
        X, y, ids, origin=origin, let=Let(drop_unlabelled, keep_rare, skip_broken), classes=classes
    )
    return replace(data, name=name)


def _several(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def suffix_of(path: Path) -> str:
    """What a file is by its name: `.csv` also of `reviews.csv.gz`."""
    name = path.name.lower()
    suffix = Path(name.removesuffix(".gz")).suffix
    known = GZIPPED if name.endswith(".gz") else (*DELIMITED, *TYPED, ".npz")
    if suffix not in known:
        raise Origin(path).damaged(
            f"not a known kind of file; names end in {', '.join((*DELIMITED, *TYPED, '.npz'))}, those of "
            "text also in .gz"
        )
    return suffix


def _from_folder(folder: Path, asked: Asked, let: Let) -> Labelled:
    if is_saved(folder):
        return replace(from_table(read_table(folder, asked), asked, let), name=folder.resolve().name)
    if not any(imagefolder.class_folders(folder).values()):
        raise imagefolder.no_known_folder(folder)
    origin = Origin(folder)
    if asked.names:
        raise origin.error(f"column {brief(asked.names[0])} is named, but a folder of images has no columns")
    paths, names, ids, said = imagefolder.read_imagefolder(folder)
    labels = read_labels(pa.array(names), let.rules(origin, "the folder"))
    said = ("classes are the names of folders", "ids are paths below the folder", *said)
    return assemble("image", paths, labels, np.array(ids, dtype=object), origin=origin, let=let, said=said)


def from_table(table: Table, asked: Asked, let: Let) -> Labelled:
    """The examples of a table: what is not asked for by name is found."""
    asked.check_names(table.origin, table.names)
    label, label_said = columns.find_label(table, asked)
    rules = let.rules(table.origin, f"label column {brief(label)}", "; name another column with --label")
    names = table.class_names.get(label)
    labels = read_labels(table.column(label), rules, names=names, untyped=label in table.untyped)
    named, id_said = columns.find_id(table, asked, label)
    codes = np.full(len(table), -1)
    codes[labels.rows] = labels.codes
    found = columns.find_inputs(table, asked, {label, *([named] if named else [])}, codes)
    built, built_said = inputs.build_inputs(table, found)
    ids = inputs.build_ids(table.column(named), table.origin, f"id column {brief(named)}") if named else None
    said = (*table.said, *label_said, *found.said, *id_said, *built_said)
    data = assemble(found.kind, built, labels, ids, origin=table.origin, let=let, said=said)
    others = tuple(name for name in table.names if name not in (label, named))
    return replace(data, columns=Columns(label, named, others, tuple(names or ())))


def _from_npz(path: Path, asked: Asked, let: Let) -> Labelled:
    arrays_, said = read_npz(path, asked)
    origin = Origin(path, inputs=f"array {brief(arrays_.names[0])}")
    data = _from_memory(*arrays_.values, origin=origin, let=let, called=arrays_.names)
    if asked.inputs and asked.inputs[0] != data.kind:
        raise origin.error(f"{origin.inputs} holds {_KINDS[data.kind]}, not {_KINDS[asked.inputs[0]]}")
    return replace(data, said=(*said, *data.said))


_KINDS = {"text": "text", "image": "images", "table": "features"}


def _from_memory(X: Any, y: Any, ids: Any, *, origin: Origin, let: Let, classes: Sequence[str] | None = None,
                 called: Sequence[str] | None = None) -> Labelled:  # fmt: skip
    label, named = (f"array {brief(name)}" for name in called[1:]) if called else ("y", "ids")
    given = arrays.column_of(y, origin, label)
    names = None if ids is None else inputs.build_ids(arrays.column_of(ids, origin, named), origin, named)
    found = arrays.find_inputs(X, origin)
    _check_lengths(origin, rows_in(found.inputs), {label: given} | ({} if names is None else {named: names}))
    labels = read_labels(given, let.rules(origin, label), names=classes)
    if isinstance(found.inputs, pd.DataFrame) and len(found.inputs) >= IN_ORDER:
        arrays.check_no_label(found.inputs, labels, origin)
    return assemble(found.kind, found.inputs, labels, names, origin=origin, let=let, said=found.said)


def _check_lengths(origin: Origin, rows: int, others: dict[str, Any]) -> None:
    if not rows:
        raise origin.error(f"{origin.inputs} has no rows")
    for name, values in others.items():
        if len(values) != rows:
            raise origin.error(f"{origin.inputs} has {rows:,} rows but {name} has {len(values):,}")
