"""Reads Parquet files: row groups of a range of bytes, columns by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import BadDataError
from penstock.storage import LocalStorage
from penstock_filesystem.formats._batch_decoder import BatchReader, NumberedBatch, columns_to_read
from penstock_filesystem.formats._input_file import InputFile
from penstock_filesystem.formats._julian import JulianDays
from penstock_filesystem.formats.parquet._footer import first_bytes, footer_of

__all__ = ["ParquetReader"]

_BATCH_ROWS = 65_536


class ParquetReader(BatchReader):
    """Reads row groups. A row group belongs to the range that holds its first byte, so planning opens no file.

    Columns, and fields of structs, are found by name, exactly or else without regard to case; missing ones are as
    ``missingColumns`` says; types must cast safely.
    Memory: batches of 65,536 rows and what the pages of one row group need.
    """

    holds_schema = True

    def is_splittable(self, path: str) -> bool:
        """Always returns True: a range is a number of row groups."""
        return True

    def elements(self, file: InputFile, start: int, end: int, schema: pa.Schema) -> Iterator[NumberedBatch]:
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
    ) -> Iterator[NumberedBatch]:
        with open_file() as source:
            pre_buffer = not isinstance(file.storage, LocalStorage)
            parquet = pq.ParquetFile(source, pre_buffer=pre_buffer, coerce_int96_timestamp_unit="us")
            columns = columns_to_read(schema, parquet.schema_arrow.names, self.options, file.url)
            julian = _julian_days(parquet, file.url)
            row = 0
            count = parquet.metadata.num_row_groups
            is_whole = start == 0 and end >= file.size
            starts = [0] * count if is_whole else first_bytes(footer_of(source))
            if len(starts) != count:
                raise ValueError("its footer has two numbers of row groups")
            for index, first in enumerate(starts):
                if start <= first < end:
                    try:
                        for rows in self._group(parquet, index, columns, row):
                            for column in rows.batch.columns if julian else ():
                                julian.check(column)
                            yield rows
                    except pa.ArrowMemoryError as error:
                        # No corrupt file, so that none is skipped which other machines can read.
                        raise BadDataError(
                            f"{file.url}: {error}: its pages need more memory than the task has, or it is damaged"
                        ) from error
                row += parquet.metadata.row_group(index).num_rows

    def _group(
        self, parquet: pq.ParquetFile, index: int, columns: list[str] | None, row: int
    ) -> Iterator[NumberedBatch]:
        for batch in parquet.iter_batches(_BATCH_ROWS, row_groups=[index], columns=columns, use_threads=False):
            yield NumberedBatch(row, batch)
            row += batch.num_rows

    def _schema_of(self, file: InputFile) -> pa.Schema:
        return _schema_of(file)


def _julian_days(parquet: pq.ParquetFile, url: str) -> JulianDays:
    texts = {key.decode(): text.decode() for key, text in (parquet.metadata.metadata or {}).items() if b"spark" in key}
    columns = parquet.schema
    has_int96 = any(columns.column(number).physical_type == "INT96" for number in range(len(columns)))
    return JulianDays(texts, url, has_int96=has_int96)


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
        columns = parquet.schema
        kinds = iter([columns.column(number).physical_type for number in range(len(columns))])
        return pa.schema(
            [field.with_type(_typed(field.type, kinds)).remove_metadata() for field in parquet.schema_arrow]
        )


#: Whole numbers without a sign as the columns that Spark has for them.
_SIGNED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}


def _typed(type_: pa.DataType, kinds: Iterator[str]) -> pa.DataType:
    """Returns the type of a column for Spark: INT96 is a point in time, as Spark and Hive write it.

    Takes from ``kinds`` those of the columns that the type has in the file.
    """
    if pa.types.is_struct(type_):
        return pa.struct([one.with_type(_typed(one.type, kinds)) for one in type_])
    if pa.types.is_map(type_):
        return pa.map_(_typed(type_.key_type, kinds), type_.item_field.with_type(_typed(type_.item_type, kinds)))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        item = type_.value_field.with_type(_typed(type_.value_type, kinds))
        if pa.types.is_fixed_size_list(type_):
            return pa.list_(item, type_.list_size)
        return pa.large_list(item) if pa.types.is_large_list(type_) else pa.list_(item)
    if pa.types.is_dictionary(type_):
        return _typed(type_.value_type, kinds)
    return pa.timestamp("us", "UTC") if next(kinds) == "INT96" else _SIGNED.get(type_, type_)
