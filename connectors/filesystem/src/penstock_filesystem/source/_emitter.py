"""Emits decoded rows as batches of the schema that was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from penstock.source import ReaderContext, RecordEmitter
from penstock.storage import Storage
from penstock_filesystem.formats import FormatReader, SplitState
from penstock_filesystem.source._metadata import METADATA_SCHEMA, OFFSET_COLUMN, data_schema, metadata_column
from penstock_filesystem.source._split import FileSplit

__all__ = ["FileSystemRecordEmitter"]


class FileSystemRecordEmitter(RecordEmitter[Any, FileSplit]):
    """Decodes elements in the task's main thread and adds the metadata columns."""

    def __init__(self, storage: Storage, format_reader: FormatReader, context: ReaderContext) -> None:
        self._storage = storage
        self._has_header = format_reader.has_header
        self._schema = context.schema
        self._decoder = format_reader.decoder(
            data_schema(context.schema), context.metrics, offsets=OFFSET_COLUMN in context.schema.names
        )

    def split_state(self, split: FileSplit) -> SplitState:
        """Starts a split: its first range begins with the header, if the file has one."""
        header = self._has_header and split.start == 0
        return SplitState(split.path, self._storage.url(split.path), split.size, split.mtime_ns, header)

    def emit_record(self, element: Any, split_state: SplitState) -> Iterator[pa.RecordBatch]:
        """Yields the rows of an element, with the wanted columns in order."""
        for rows in self._decoder.decode(element, split_state):
            columns = [
                metadata_column(field, rows, split_state)
                if field.name in METADATA_SCHEMA.names
                else rows.columns[field.name]
                for field in self._schema
            ]
            yield pa.RecordBatch.from_arrays(columns, names=self._schema.names)
