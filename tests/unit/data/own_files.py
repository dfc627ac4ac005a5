"""Small data sets of a user's own, written in every format that is read."""

import csv
import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
from PIL import Image

TEXTS = [
    "The parcel came two days late and the box was open.",
    "Wonderful service, I will order here again soon.",
    'She said "never again" and sent it back, twice.',
    "Größe passt, Farbe auch; gerne wieder 👍 bei euch.",
    "It broke on the first day, I want my money back.",
    "Exactly what my daughter had wished for, thanks.",
]
LABELS = ["bad", "good", "bad", "good", "bad", "good"]
IDS = ["007", "008", "NA", "None", "x1", "x2"]
REVIEWS = {"id": IDS, "review": TEXTS, "label": LABELS}


def write_csv(path, columns, delimiter=",", **options):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter, **options)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def write_tsv(path, columns):
    return write_csv(path, columns, delimiter="\t")


def write_jsonl(path, columns):
    opener = gzip.open if path.suffix == ".gz" else open
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    with opener(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return path


def write_json(path, columns):
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    path.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return path


def write_parquet(path, columns):
    pa.parquet.write_table(pa.table(columns), path)
    return path


def write_arrow_file(path, columns):
    table = pa.table(columns)
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)
    return path


def write_arrow_stream(path, columns):
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    with pa.ipc.new_stream(str(path), table.schema) as writer:
        writer.write_table(table)
    return path


def write_feather(path, columns):
    pa.feather.write_feather(pa.table(columns), str(path))
    return path


def write_saved(folder, columns, features=None):
    """The files that `datasets.Dataset.save_to_disk` writes, in two shards."""
    folder.mkdir(parents=True)
    table = pa.table(columns)
    shards = [table.slice(0, 2), table.slice(2)]
    names = [f"data-{number:05}-of-00002.arrow" for number in range(2)]
    for name, shard in zip(names, shards, strict=True):
        write_arrow_stream(folder / name, shard)
    (folder / "dataset_info.json").write_text(json.dumps({"features": features or {}}))
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    return folder


# Every format with the name of a file in it.
TABLES = {
    "reviews.csv": write_csv,
    "reviews.csv.gz": write_csv,
    "reviews.tsv": write_tsv,
    "reviews.tsv.gz": write_tsv,
    "reviews.jsonl": write_jsonl,
    "reviews.ndjson": write_jsonl,
    "reviews.jsonl.gz": write_jsonl,
    "reviews.json": write_json,
    "reviews.parquet": write_parquet,
    "reviews.arrow": write_arrow_file,
    "stream.arrow": write_arrow_stream,
    "reviews.feather": write_feather,
    "saved": write_saved,
}


def picture(path, seed=0, size=(9, 7)):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def picture_folder(folder):
    """Three images of each of two classes."""
    for seed, name in enumerate(
        ("cat/1.png", "cat/2.PNG", "cat/10.jpg", "dog/a.jpeg", "dog/b.bmp", "dog/c.gif")
    ):
        picture(folder / name, seed)
    return folder
