"""Emits decoded rows as batches of the schema that was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.source import ConstantColumns, ReaderContext, RecordEmitter
from penstock.storage import Storage
from penstock_filesystem.formats import Decoder, FormatReader, InputFile, NewColumnsError, Rows, SplitState
from penstock_filesystem.source._metadata import METADATA_SCHEMA, OFFSET_COLUMN, data_schema, metadata_column
from penstock_filesystem.source._new_columns import NewColumns
from penstock_filesystem.source._partitions import PartitionColumns
from penstock_filesystem.source._split import FileSplit

__all__ = ["FileSystemRecordEmitter"]


@dataclass
class _FileState(SplitState):
    """With the values of the columns that the file's directories hold."""

    partition: dict[str, Any]


class FileSystemRecordEmitter(RecordEmitter[Any, FileSplit]):
    """Decodes elements in the task's main thread, and adds the columns of directories and the metadata columns."""

    def __init__(
        self,
        storage: Storage,
        format_reader: FormatReader,
        partitions: PartitionColumns | None,
        context: ReaderContext,
        new_columns: NewColumns | None,
    ) -> None:
        self._storage = storage
        self._format_reader = format_reader
        self._partitions = partitions
        self._new_columns = new_columns
        self._metrics = context.metrics
        self._schema = context.schema
        #: By the columns that directories hold: those are not in the files. As a rule, all files have the same.
        self._decoders: dict[tuple[str, ...], Decoder] = {}
        self._constants = ConstantColumns()

    def split_state(self, split: FileSplit) -> _FileState:
        """Starts a split: its first range begins with the header, if the file has one."""
        header = self._format_reader.has_header and split.start == 0
        partition = {} if self._partitions is None else self._partitions.values(split.path, self._schema)
        url = self._storage.url(split.path)
        return _FileState(split.path, url, split.size, split.mtime_ns, header, partition)

    def emit_record(self, element: Any, split_state: _FileState) -> Iterator[pa.RecordBatch]:
        """Yields the rows of an element, with the wanted columns in order."""
        partition = split_state.partition
        for rows in self._decoded(element, split_state):
            columns = []
            for field in self._schema:
                if field.name in METADATA_SCHEMA.names:
                    columns.append(metadata_column(field, rows, split_state))
                elif field.name in partition:
                    value = partition[field.name]
                    columns.append(self._constants.column(field.name, value, field.type, rows.count))
                else:
                    columns.append(rows.columns[field.name])
            yield pa.RecordBatch.from_arrays(columns, names=self._schema.names)

    def _decoded(self, element: Any, state: _FileState) -> Iterator[Rows]:
        try:
            yield from self._decoder(tuple(state.partition)).decode(element, state)
        except NewColumnsError as error:
            if self._new_columns is None:
                raise
            self._new_columns.refuse(InputFile(self._storage, state.path, state.size), error.names)

    def _decoder(self, held: tuple[str, ...]) -> Decoder:
        if held not in self._decoders:
            schema = pa.schema([field for field in data_schema(self._schema) if field.name not in held])
            offsets = OFFSET_COLUMN in self._schema.names
            elsewhere = {*held, *METADATA_SCHEMA.names}
            self._decoders[held] = self._format_reader.decoder(
                schema, self._metrics, offsets=offsets, elsewhere=elsewhere
            )
        return self._decoders[held]
