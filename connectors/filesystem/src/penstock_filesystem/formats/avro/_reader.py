"""Reads Avro container files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa

from penstock.errors import BadConfigurationError, BadDataError, RetriableError
from penstock.metrics import Metrics
from penstock.serialization import MALFORMED, shortened
from penstock.serialization.avro import avro_to_arrow, contains_itself, holds_values_without_bytes, is_without_bytes
from penstock_filesystem.formats._input_file import InputFile
from penstock_filesystem.formats._options import ReadOptions
from penstock_filesystem.formats._reader_base import Decoder, FormatReader, Rows, SplitState, missing_column
from penstock_filesystem.formats.avro._plain import PlainStream

__all__ = ["AvroReader"]

_BATCH_ROWS = 8_192


class AvroRecords(NamedTuple):
    """Records as dictionaries, and the number of the first in the file."""

    records: list[dict[str, Any]]
    first_row: int


@contextmanager
def _corrupt() -> Iterator[None]:
    """Raises ValueError for whatever fastavro runs into in a file that is damaged: errors of many classes."""
    try:
        yield
    except (OSError, MemoryError, RetriableError, BadDataError):  # of the way to the file, or said already
        raise
    except Exception as error:
        raise ValueError(shortened(f"{type(error).__name__}: {error}")) from error


def _records(stream: PlainStream) -> Iterator[dict[str, Any]]:
    with _corrupt():
        reader = fastavro.reader(stream, return_record_name=False)
        _check(reader.writer_schema)
        yield from reader


def _check(writer: Any) -> None:
    """Raises ValueError for a schema that is no record's, and for one of which a few bytes can take the process down:
    fastavro trusts what it reads.
    """
    if not isinstance(writer, dict) or writer.get("type") != "record":
        raise ValueError("its values are not records")
    if contains_itself(writer):
        raise ValueError("its Avro schema contains itself, which can't be read")
    if is_without_bytes(writer) or holds_values_without_bytes(writer):
        raise ValueError("its Avro schema has values that take no bytes, which can't be read")


class AvroReader(FormatReader):
    """Reads a file as one range. fastavro makes a Python object of every value: no columnar reader exists."""

    def is_splittable(self, path: str) -> bool:
        """Always returns False."""
        return False

    def elements(self, file: InputFile, start: int, end: int, schema: pa.Schema) -> Iterator[AvroRecords]:
        """Yields batches of at most 8,192 records."""
        with file.buffered() as stream:
            row, records = 0, []
            for record in _records(PlainStream(stream, file.size, file.url)):
                records.append(record)
                if len(records) == _BATCH_ROWS:
                    yield AvroRecords(records, row)
                    row, records = row + len(records), []
            if records:
                yield AvroRecords(records, row)

    def decoder(self, schema: pa.Schema, metrics: Metrics, *, offsets: bool) -> Decoder:
        """Creates a decoder of records."""
        return _AvroDecoder(schema, self.options)

    def infer(self, files: Sequence[InputFile]) -> pa.Schema:
        """Translates the first file's writer schema."""
        with files[0].buffered() as stream, _corrupt():
            writer = fastavro.reader(PlainStream(stream, files[0].size, files[0].url)).writer_schema
        type_ = avro_to_arrow(writer)
        if not pa.types.is_struct(type_):
            raise BadConfigurationError(f"{files[0].url} holds Avro values that are not records")
        return pa.schema(list(type_))


def _plain(value: Any, type_: pa.DataType) -> Any:
    """Converts a value to what ``pa.array`` takes for ``type_``."""
    if value is None:
        return None
    if pa.types.is_map(type_):
        return [(key, _plain(item, type_.item_type)) for key, item in value.items()]
    if pa.types.is_list(type_):
        return [_plain(item, type_.value_type) for item in value]
    if pa.types.is_struct(type_):
        return {field.name: _plain(value.get(field.name), field.type) for field in type_}
    if pa.types.is_string(type_):
        return value if isinstance(value, str) else str(value)
    if pa.types.is_decimal(type_) and isinstance(value, int):
        return Decimal(value)
    return value


class _AvroDecoder(Decoder):
    def __init__(self, schema: pa.Schema, options: ReadOptions) -> None:
        self._schema = schema
        self._options = options

    def decode(self, element: AvroRecords, state: SplitState) -> Iterator[Rows]:
        """Yields the rows of a batch of records."""
        records = element.records
        columns = {}
        for field in self._schema:
            # Value by value in Python: that is how they come out of the Avro reader.
            if field.name not in records[0]:
                missing_column(field.name, records[0], self._options, state.url)
            values = [record.get(field.name) for record in records]
            try:
                if pa.types.is_nested(field.type) or pa.types.is_string(field.type) or pa.types.is_decimal(field.type):
                    values = [_plain(value, field.type) for value in values]
                columns[field.name] = pa.array(values, field.type)
            except (pa.ArrowException, *MALFORMED) as error:
                raise BadDataError(
                    f"{state.url}: field {field.name} does not fit {field.type}: {shortened(str(error))}; correct the "
                    "schema"
                ) from None
        numbers = pa.array(range(element.first_row, element.first_row + len(records)), pa.int64())
        yield Rows(columns, len(records), numbers)
