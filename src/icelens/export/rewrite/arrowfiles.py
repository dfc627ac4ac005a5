"""Parquet, Arrow and Feather: equal tables, with schema, metadata and the cut into groups kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from icelens.data.own.origin import Origin
from icelens.export.changes import Changes
from icelens.export.rewrite.columns import gone_rows, kept_rows, relabelled_column, taken_rows
from icelens.export.rewrite.features import extended_schema


class Rewriter:
    """The rows of one table, part by part, with the changes in them.

    Args:
        labels: the column of all rows, as it is.
        schema: of the table.
        label: what the column is called.
        changes: what to do.
        names: what its codes stand for, where they are codes.
        origin: what errors start with.
        before: the name of a last column to add, which holds the labels as they were.
    """

    def __init__(
        self, labels: Any, schema: Any, label: str, changes: Changes, *, names: Sequence[str] | None,
        origin: Origin, before: str | None,
    ) -> None:  # fmt: skip
        self.place, self.gone, self.given = schema.get_field_index(label), gone_rows(changes), labels
        self.labels = relabelled_column(labels, changes, names, origin)
        self.schema = extended_schema(schema, label, before, changes, names)
        self.before = before
        self.row = self.kept = 0

    def part(self, rows: Any) -> Any:
        """The next rows, a table, as they are to be written."""
        first, self.row = self.row, self.row + len(rows)
        columns = [rows.column(number) for number in range(rows.num_columns)]
        columns[self.place] = self.labels.slice(first, len(rows))
        if self.before is not None:
            columns.append(self.given.slice(first, len(rows)))
        changed = pa.Table.from_arrays(columns, schema=self.schema)
        kept = kept_rows(self.gone, first, len(rows))
        self.kept += len(kept)
        if len(kept) == len(rows):
            return changed
        return pa.Table.from_arrays(
            [taken_rows(column, kept) for column in changed.columns], schema=self.schema
        )


def rewrite_parquet(
    source: Path, label: str, changes: Changes, out: Path, *, names: Sequence[str] | None = None,
    before: str | None = None,
) -> int:  # fmt: skip
    """Write a Parquet file again, row group by row group; returns the number of rows."""
    with parquet.ParquetFile(source, pre_buffer=False) as file:
        groups = range(file.num_row_groups)
        labels = file.read(columns=[label]).column(label)
        rewriter = Rewriter(
            labels, file.schema_arrow, label, changes, names=names, origin=Origin(source), before=before
        )
        with parquet.ParquetWriter(out, rewriter.schema, **_settings(file)) as writer:
            for group in groups:
                rows = rewriter.part(file.read_row_group(group))
                if len(rows) or len(groups) == 1:
                    writer.write_table(rows, row_group_size=max(1, len(rows)))
    return rewriter.kept


def _settings(file: Any) -> dict[str, Any]:
    """How the columns of a file are stored."""
    group = file.metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    codecs = {column.path_in_schema: column.compression for column in columns}
    return {
        "compression": {path: "NONE" if codec == "UNCOMPRESSED" else codec for path, codec in codecs.items()},
        "use_dictionary": [column.path_in_schema for column in columns if column.has_dictionary_page]
        or False,
        "write_statistics": any(column.is_stats_set for column in columns),
        "store_schema": b"ARROW:schema" in (file.metadata.metadata or {}),
    }


def rewrite_arrow(
    source: Path, label: str, changes: Changes, out: Path, *, names: Sequence[str] | None = None,
    before: str | None = None,
) -> int:  # fmt: skip
    """Write an Arrow file or stream, or a Feather file, again, batch by batch; returns the number of rows."""
    with pa.memory_map(str(source)) as mapped:
        as_file = mapped.read(6) == b"ARROW1"
        mapped.seek(0)
        reader = pa.ipc.open_file(mapped) if as_file else pa.ipc.open_stream(mapped)
        batches = list(_batches(reader, as_file))
        labels = pa.chunked_array([batch.column(label) for batch in batches], reader.schema.field(label).type)
        rewriter = Rewriter(
            labels, reader.schema, label, changes, names=names, origin=Origin(source), before=before
        )
        # What pandas writes as Feather is compressed so; whether this one is cannot be asked.
        compression = (
            "lz4" if source.suffix.lower() == ".feather" and pa.Codec.is_available("lz4_frame") else None
        )
        options = pa.ipc.IpcWriteOptions(compression=compression)
        with (pa.ipc.new_file if as_file else pa.ipc.new_stream)(
            out, rewriter.schema, options=options
        ) as sink:
            for batch in batches:
                sink.write_table(rewriter.part(pa.Table.from_batches([batch])))
    return rewriter.kept


def _batches(reader: Any, as_file: bool) -> Iterator[Any]:
    if not as_file:
        yield from reader
        return
    for number in range(reader.num_record_batches):
        yield reader.get_batch(number)
