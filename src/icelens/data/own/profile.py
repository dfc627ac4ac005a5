"""What the contents of a column tell about its use."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types

from icelens.data.own.table import is_string, strings

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm")
# 2024-03-01, 01/03/2024, 1.3.2024, each with or without a time of day. A year of two digits may be anything.
TIME = r"([01]?[0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.,][0-9]+)?)?( ?[AaPp][Mm])?"
MONTH, DAY, YEAR = "(0?[1-9]|1[0-2])", "(0?[1-9]|[12][0-9]|3[01])", "(1[89]|20|21)[0-9]{2}"
IN_ANY_ORDER = f"({YEAR}[-/.]{MONTH}[-/.]{DAY}|({MONTH}[-/.]{DAY}|{DAY}[-/.]{MONTH})[-/.]{YEAR})"
DATE = re.compile(rf"{IN_ANY_ORDER}([T ]{TIME} ?(Z|[+-][0-9]{{2}}:?[0-9]{{2}})?)?")
IN_ORDER = 20  # so many different numbers stand in order by chance once in 10^18 tables
SAMPLE = 5_000
LONG, MIXED, DENSE = 20, 0.5, 8
MOST_CATEGORIES = 1_000
# Scripts that write words without spaces between them: Thai to Khmer, kana, Chinese, Hangul.
SPACELESS = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def sample(column: Any) -> list[Any]:
    """Values from all over a column, the missing ones left out."""
    step = max(1, len(column) // SAMPLE)
    rows = pa.array(np.arange(0, len(column), step))
    return [value for value in pc.take(column, rows).to_pylist() if value is not None]


def is_text(column: Any, *, named: bool) -> bool:
    """Whether a column of strings is clearly text: words, mostly long, mostly different.

    One that has a name for texts need not be long.
    """
    texts = sample(column)
    if not texts or len(set(texts)) < MIXED * len(texts):
        return False
    wordy = sum(bool(re.search(r"\S\s+\S", text)) for text in texts) > MIXED * len(texts)
    dense = sum(bool(SPACELESS.search(text)) for text in texts) > MIXED * len(texts)
    length = sum(map(len, texts)) / len(texts)
    return (wordy and (named or length > LONG)) or (dense and (named or length > DENSE))


def ends_like_images(column: Any) -> bool:
    """Whether all strings of a column look like the names of image files."""
    texts = sample(column)
    return bool(texts) and all(text.lower().endswith(SUFFIXES) for text in texts)


def holds_image_files(column: Any, folder: Path) -> bool:
    """Whether a column names image files, of which one of the first is there."""
    return ends_like_images(column) and any(os.path.isfile(folder / text) for text in sample(column)[:20])


def few_values(column: Any) -> bool:
    """Whether strings repeat so often that they are categories.

    >>> few_values(pa.array(["red", "blue"] * 5)), few_values(pa.array(["Ann", "Bob", "Cy"]))
    (True, False)
    """
    values = distinct(column)
    rows = len(column) - column.null_count
    return 0 < values <= min(MOST_CATEGORIES, rows / 2) and (values <= 20 or values <= rows / 20)


def distinct(column: Any) -> int:
    """How many different values a column has, missing ones aside."""
    if types.is_dictionary(column.type):
        column = strings(column)
    return int(pc.count_distinct(column, mode="only_valid").as_py())


def constant(column: Any) -> bool:
    """Whether all values that are there are the same, or none is there."""
    if types.is_dictionary(column.type) or is_string(column.type):
        return distinct(column) < 2
    for part in (column.slice(0, 100), column):  # most often the first rows tell
        bounds = pc.min_max(_comparable(part))
        if not bounds["min"].equals(bounds["max"]):
            return False
    return True


def dates(column: Any) -> bool:
    """Whether all strings of a column are dates, as files without types write them.

    >>> dates(pa.array(["2024-03-01", "31.4.2024 9:30"])), dates(pa.array(["2024-03-01", "never"]))
    (True, False)
    """
    values = {value.strip() for value in sample(column)} - {""}
    return bool(values) and all(DATE.fullmatch(value) for value in values)


def order_of_rows(column: Any) -> str:
    """How whole numbers follow the rows, or nothing: what they tell is where an example stands.

    It would tell rows apart that are sorted by their labels, the wrong labels as well as the right ones.
    """
    if len(column) < 2 or column.null_count or not _whole(column):
        return ""
    numbers = column.cast(pa.float64(), safe=False).to_numpy()
    steps = np.diff(numbers)
    if abs(steps[0]) == 1 and (steps == steps[0]).all():
        return "counts the rows"
    sorted_by = ((steps > 0).all() or (steps < 0).all()) and (numbers == np.round(numbers)).all()
    return "in the order of the rows" if sorted_by and len(column) >= IN_ORDER else ""


def same_as(column: Any, codes: NDArray[np.int64]) -> bool:
    """Whether each value of a column stands for one label and each label for one value."""
    classes = int(codes.max()) + 1
    if types.is_floating(column.type) and not _whole(column):
        return False
    if len(set(sample(column.slice(0, SAMPLE)))) > classes:
        return False
    labelled = codes >= 0
    encoded = (column if types.is_dictionary(column.type) else column.dictionary_encode()).combine_chunks()
    values = encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)[labelled]
    pairs = np.unique(np.stack([values, codes[labelled]]), axis=1)
    return bool(pairs.shape[1] == classes == len(np.unique(pairs[0])) and values.min() >= 0)


def _whole(column: Any) -> bool:
    if types.is_integer(column.type):
        return True
    if not types.is_floating(column.type):
        return False
    head = np.array(sample(column.slice(0, 100)), dtype=np.float64)
    return bool(np.isfinite(head).all() and (head == np.round(head)).all())


def _comparable(column: Any) -> Any:
    """What has a least and a greatest value to pyarrow: durations as their ticks, floats without NaN."""
    if types.is_duration(column.type):
        return column.cast(pa.int64())
    return pc.filter(column, pc.is_finite(column)) if types.is_floating(column.type) else column
