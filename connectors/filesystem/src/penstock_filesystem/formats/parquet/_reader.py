"""Reads Parquet files: row groups of a range of bytes, columns by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import islice
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import BadDataError
from penstock.metrics import Metrics
from penstock.storage import LocalStorage
from penstock_filesystem.formats._fit import find_name, fit_column
from penstock_filesystem.formats._inference import FileSchemas, SchemaInference
from penstock_filesystem.formats._input_file import InputFile
from penstock_filesystem.formats._options import ReadOptions
from penstock_filesystem.formats._reader_base import Decoder, FormatReader, Rows, SplitState, missing_column
from penstock_filesystem.formats.parquet._footer import first_bytes, footer_of

__all__ = ["ParquetReader"]

_BATCH_ROWS = 65_536


class TableRows(NamedTuple):
    """A batch of a file's columns, and the number of its first row in the file."""

    batch: pa.RecordBatch
    first_row: int


class ParquetReader(FormatReader):
    """Reads row groups. A row group belongs to the range that holds its first byte, so planning opens no file.

    Columns, and fields of structs, are found by name, exactly or else without regard to case; missing ones are as
    ``missingColumns`` says; types must cast safely.
    Memory: batches of 65,536 rows and what the pages of one row group need.
    """

    holds_schema = True

    def is_splittable(self, path: str) -> bool:
        """Always returns True: a range is a number of row groups."""
        return True

    def elements(self, file: InputFile, start: int, end: int, schema: pa.Schema) -> Iterator[TableRows]:
        """Yields batches of the wanted columns of the range's row groups."""
        count = 0
        try:
            for rows in self._batches(file, file.random_access, start, end, schema):
                yield rows
                count += 1
        except (pa.ArrowException, OSError, ValueError):
            if isinstance(file.storage, LocalStorage):
                raise
            # It may be an answer of the store that is damaged, and not the file: only the slower way tells.
            yield from islice(self._batches(file, file.checked_access, start, end, schema), count, None)

    def _batches(
        self, file: InputFile, open_file: Callable[[], pa.NativeFile], start: int, end: int, schema: pa.Schema
    ) -> Iterator[TableRows]:
        with open_file() as source:
            pre_buffer = not isinstance(file.storage, LocalStorage)
            parquet = pq.ParquetFile(source, pre_buffer=pre_buffer, coerce_int96_timestamp_unit="us")
            names = {wanted: find_name(wanted, parquet.schema_arrow.names) for wanted in schema.names}
            for wanted in (wanted for wanted, name in names.items() if name is None):
                missing_column(wanted, parquet.schema_arrow.names, self.options, file.url)
            columns = [name for name in names.values() if name is not None]
            row = 0
            count = parquet.metadata.num_row_groups
            is_whole = start == 0 and end >= file.size
            starts = [0] * count if is_whole else first_bytes(footer_of(source))
            if len(starts) != count:
                raise ValueError("its footer has two numbers of row groups")
            for index, first in enumerate(starts):
                if start <= first < end:
                    try:
                        yield from self._group(parquet, index, columns, row)
                    except pa.ArrowMemoryError as error:
                        # No corrupt file, so that none is skipped which other machines can read.
                        raise BadDataError(
                            f"{file.url}: {error}: its pages need more memory than the task has, or it is damaged"
                        ) from error
                row += parquet.metadata.row_group(index).num_rows

    def _group(self, parquet: pq.ParquetFile, index: int, columns: list[str], row: int) -> Iterator[TableRows]:
        for batch in parquet.iter_batches(_BATCH_ROWS, row_groups=[index], columns=columns, use_threads=False):
            yield TableRows(batch, row)
            row += batch.num_rows

    def decoder(self, schema: pa.Schema, metrics: Metrics, *, offsets: bool, elsewhere: Collection[str]) -> Decoder:
        """Creates a decoder that casts columns."""
        return _ParquetDecoder(schema, self.options)

    def inference(self, progress: Callable[[int], object]) -> SchemaInference:
        """Takes the first file's schema, or with ``mergeSchema`` that of all."""
        return FileSchemas(_schema_of, progress, merge=self.options.merge_schema)


def _schema_of(file: InputFile) -> pa.Schema:
    try:
        return _schema_in(file.random_access())
    except (pa.ArrowException, OSError, ValueError):
        if isinstance(file.storage, LocalStorage):
            raise
        # As of the rows: it may be an answer of the store that is damaged.
        return _schema_in(file.checked_access())


def _schema_in(opened: pa.NativeFile) -> pa.Schema:
    with opened as source:
        parquet = pq.ParquetFile(source)
        return _with_points_in_time(parquet.schema_arrow.remove_metadata(), parquet.schema)


def _with_points_in_time(schema: pa.Schema, columns: pq.ParquetSchema) -> pa.Schema:
    """Returns ``schema`` with a zone where a file has INT96, which Spark and Hive write for points in time."""
    kinds = [columns.column(number).physical_type for number in range(len(columns))]
    if "INT96" not in kinds:
        return schema
    left = iter(kinds)
    return pa.schema([field.with_type(_typed(field.type, left)) for field in schema])


def _typed(type_: pa.DataType, kinds: Iterator[str]) -> pa.DataType:
    """Takes from ``kinds`` those of the columns that a type has in the file."""
    if pa.types.is_struct(type_):
        return pa.struct([one.with_type(_typed(one.type, kinds)) for one in type_])
    if pa.types.is_map(type_):
        return pa.map_(_typed(type_.key_type, kinds), type_.item_field.with_type(_typed(type_.item_type, kinds)))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        item = type_.value_field.with_type(_typed(type_.value_type, kinds))
        if pa.types.is_fixed_size_list(type_):
            return pa.list_(item, type_.list_size)
        return pa.large_list(item) if pa.types.is_large_list(type_) else pa.list_(item)
    return pa.timestamp("us", "UTC") if next(kinds) == "INT96" else type_


class _ParquetDecoder(Decoder):
    """Takes columns by name and casts them safely to the wanted types."""

    def __init__(self, schema: pa.Schema, options: ReadOptions) -> None:
        self._schema = schema
        self._options = options

    def decode(self, element: TableRows, state: SplitState) -> Iterator[Rows]:
        """Yields the rows of a batch."""
        batch = element.batch
        columns = {field.name: self._column(batch, field, state.url) for field in self._schema}
        numbers = pa.array(range(element.first_row, element.first_row + batch.num_rows), pa.int64())
        yield Rows(columns, batch.num_rows, numbers)

    def _column(self, batch: pa.RecordBatch, field: pa.Field, url: str) -> pa.Array:
        name = find_name(field.name, batch.schema.names)
        if name is None:
            return pa.nulls(batch.num_rows, field.type)
        column = batch.column(name)
        try:
            _check_decimals(column)
            return fit_column(
                column, field.type, field.name, lambda name, there: missing_column(name, there, self._options, url)
            )
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise BadDataError(
                f"{url}: column {field.name} holds {column.type}, which does not fit {field.type}: {error}; "
                "correct the schema"
            ) from None


def _check_decimals(column: pa.Array) -> None:
    """Raises pa.ArrowInvalid for more digits than the type has: Spark fails at them, and can't say in which file."""
    if not _holds_decimals(column.type):
        return
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        # Texts that are not UTF-8 are taken as they are, as Spark takes them.
        if "precision" in str(error):
            raise


def _holds_decimals(type_: pa.DataType) -> bool:
    if pa.types.is_nested(type_):
        return any(_holds_decimals(type_.field(number).type) for number in range(type_.num_fields))
    return bool(pa.types.is_decimal(type_))
