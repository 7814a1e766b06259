"""Reads ORC files: stripes of a range of bytes, columns by name."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from penstock.storage import LocalStorage
from penstock_filesystem.formats._batch_decoder import BatchReader, NumberedBatch, columns_to_read
from penstock_filesystem.formats._fit import find_name
from penstock_filesystem.formats._input_file import InputFile
from penstock_filesystem.formats.orc._columns import ColumnReader, arrow_type, numbers_of
from penstock_filesystem.formats.orc._layout import Column, OrcTail, read_streams, read_tail
from penstock_filesystem.formats.orc._times import Times

__all__ = ["OrcReader"]

_BATCH_ROWS = 65_536


class OrcReader(BatchReader):
    """Reads stripes. A stripe belongs to the range that holds its first byte, so planning opens no file.

    Columns, and fields of structs, are found by name as in Parquet files. Times and days are Spark's: in years and
    zones that pyarrow's own reader can't give.
    Memory: the wanted columns of one stripe.
    """

    holds_schema = True

    def is_splittable(self, path: str) -> bool:
        """Always returns True: a range is a number of stripes."""
        return True

    def elements(self, file: InputFile, start: int, end: int, schema: pa.Schema) -> Iterator[NumberedBatch]:
        """Yields batches of the wanted columns of the range's stripes."""
        with _opened(file) as source:
            tail = read_tail(source)
            names = columns_to_read(schema, tail.root.names, self.options, file.url)
            columns = {name: child for name, child in _named_columns(tail) if names is None or name in names}
            asked = {find_name(field.name, tail.root.names): field.type for field in schema}
            row = 0
            for stripe in tail.stripes:
                if start <= stripe.offset < end:
                    numbers = {number for column in columns.values() for number in numbers_of(column)}
                    streams = read_streams(source, tail, stripe, numbers)
                    times = Times(streams.zone, self.options.times, is_proleptic=tail.is_proleptic)
                    reader = ColumnReader(streams, times)
                    arrays = {name: reader.read(one, stripe.rows, asked.get(name)) for name, one in columns.items()}
                    for first in range(0, stripe.rows, _BATCH_ROWS):
                        count = min(_BATCH_ROWS, stripe.rows - first)
                        yield NumberedBatch(row + first, _batch(arrays, first, count))
                row += stripe.rows

    def _schema_of(self, file: InputFile) -> pa.Schema:
        return _schema_of(file)


def _opened(file: InputFile) -> pa.NativeFile:
    return file.random_access() if isinstance(file.storage, LocalStorage) else file.checked_access()


def _named_columns(tail: OrcTail) -> Iterator[tuple[str, Column]]:
    return zip(tail.root.names, tail.root.children, strict=True)


def _batch(arrays: dict[str, pa.Array], first: int, count: int) -> pa.RecordBatch:
    parts = [array.slice(first, count) for array in arrays.values()]
    if not parts:
        return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), count, [None]))
    return pa.RecordBatch.from_arrays(parts, names=list(arrays))


def _schema_of(file: InputFile) -> pa.Schema:
    with _opened(file) as source:
        return pa.schema([(name, arrow_type(column)) for name, column in _named_columns(read_tail(source))])
