"""Decoded rows as batches of the schema that was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from penstock.source import ReaderContext, RecordEmitter
from penstock.storage import Storage
from penstock_filesystem.source.formats import FileFormat, SplitState
from penstock_filesystem.source.metadata_columns import METADATA_SCHEMA, OFFSET_COLUMN, data_schema, metadata_column
from penstock_filesystem.source.options import FileSourceSettings
from penstock_filesystem.source.split import FileSplit

__all__ = ["FileEmitter"]


class FileEmitter(RecordEmitter[Any, FileSplit]):
    """Decodes elements in the task's main thread and adds the metadata columns."""

    def __init__(
        self, storage: Storage, format_: FileFormat, settings: FileSourceSettings, context: ReaderContext
    ) -> None:
        self._storage = storage
        self._settings = settings
        self._schema = context.schema
        self._decoder = format_.decoder(
            data_schema(context.schema), context.metrics, offsets=OFFSET_COLUMN in context.schema.names
        )

    def split_state(self, split: FileSplit) -> SplitState:
        """See the base class."""
        header = self._settings.format == "csv" and self._settings.csv.header and split.start == 0
        return SplitState(split, self._storage.url(split.path), header)

    def emit_record(self, element: Any, split_state: SplitState) -> Iterator[pa.RecordBatch]:
        """See the base class."""
        for rows in self._decoder.decode(element, split_state):
            columns = [
                metadata_column(field, rows, split_state)
                if field.name in METADATA_SCHEMA.names
                else rows.columns[field.name]
                for field in self._schema
            ]
            yield pa.RecordBatch.from_arrays(columns, names=self._schema.names)
