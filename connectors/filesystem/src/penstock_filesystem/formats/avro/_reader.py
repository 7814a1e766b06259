"""Reads Avro container files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from ctypes import c_float
from datetime import datetime
from decimal import Decimal
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa

from penstock.errors import BadConfigurationError, BadDataError, RetriableError
from penstock.metrics import Metrics
from penstock.serialization import MALFORMED, shortened
from penstock.serialization.avro import avro_to_arrow, contains_itself, holds_values_without_bytes, is_without_bytes
from penstock.serialization.ddl import shown_type
from penstock_filesystem.formats._batch_decoder import BatchDecoder, NumberedBatch
from penstock_filesystem.formats._fit import Lacks, find_name
from penstock_filesystem.formats._inference import FileSchemas, SchemaInference
from penstock_filesystem.formats._input_file import InputFile
from penstock_filesystem.formats._julian import JulianDays
from penstock_filesystem.formats._options import ReadOptions
from penstock_filesystem.formats._reader_base import Decoder, FormatReader, Rows, SplitState, missing_column
from penstock_filesystem.formats._rescue import as_text
from penstock_filesystem.formats.avro._plain import PlainStream

__all__ = ["AvroReader"]

_BATCH_ROWS = 8_192


class AvroRecords(NamedTuple):
    """Records as dictionaries, the number of the first in the file, and the Avro schema that the file holds."""

    records: list[dict[str, Any]]
    first_row: int
    writer: Any


@contextmanager
def _corrupt() -> Iterator[None]:
    """Raises ValueError for whatever fastavro runs into in a file that is damaged: errors of many classes."""
    try:
        yield
    except (OSError, MemoryError, RetriableError, BadDataError):  # of the way to the file, or said already
        raise
    except Exception as error:
        raise ValueError(shortened(f"{type(error).__name__}: {error}")) from error


def _batches(stream: PlainStream, url: str) -> Iterator[AvroRecords]:
    with _corrupt():
        reader = fastavro.reader(stream, return_record_name=False)
        _check(reader.writer_schema)
        julian = JulianDays(reader.metadata, url)
        row = 0
        while records := list(islice(reader, _BATCH_ROWS)):
            if julian:
                julian.check_value(records)
            yield AvroRecords(records, row, reader.writer_schema)
            row += len(records)


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

    holds_schema = True

    def is_splittable(self, path: str) -> bool:
        """Always returns False."""
        return False

    def elements(self, file: InputFile, start: int, end: int, schema: pa.Schema) -> Iterator[AvroRecords]:
        """Yields batches of at most 8,192 records."""
        with file.buffered() as stream:
            yield from _batches(PlainStream(stream, file.size, file.url), file.url)

    def decoder(self, schema: pa.Schema, metrics: Metrics, *, offsets: bool, elsewhere: Collection[str]) -> Decoder:
        """Creates a decoder of records."""
        if self.options.rescue_column in schema.names:
            columns = BatchDecoder(schema, self.options, metrics, offsets=offsets, elsewhere=elsewhere)
            return _RescuingDecoder(columns)
        return _AvroDecoder(schema, self.options)

    def inference(self, progress: Callable[[int], object]) -> SchemaInference:
        """Translates the first file's writer schema, or with ``mergeSchema`` those of all."""
        return FileSchemas(_schema_of, progress, merge=self.options.merge_schema)


def _schema_of(file: InputFile) -> pa.Schema:
    with file.buffered() as stream, _corrupt():
        writer = fastavro.reader(PlainStream(stream, file.size, file.url)).writer_schema
    type_ = avro_to_arrow(writer)
    if not pa.types.is_struct(type_):
        raise ValueError("its values are not records")
    return pa.schema(list(type_))


#: Types of which Arrow takes some values in another way than a column of them, or changes them without an error.
_LOOKED_AT = (
    pa.types.is_nested,
    pa.types.is_string,
    pa.types.is_decimal,
    pa.types.is_float32,
    pa.types.is_date,
)


def _plain(value: Any, type_: pa.DataType, path: str, lacks: Lacks) -> Any:
    """Converts a value, called ``path``, to what ``pa.array`` takes for ``type_``. ``lacks`` as of fit_column."""
    if value is None:
        return None
    if pa.types.is_map(type_):
        return [(key, _plain(item, type_.item_type, f"{path}.value", lacks)) for key, item in value.items()]
    if pa.types.is_list(type_):
        return [_plain(item, type_.value_type, path, lacks) for item in value]
    if pa.types.is_struct(type_):
        return {field.name: _member(value, field, path, lacks) for field in type_}
    if pa.types.is_string(type_):
        return value if isinstance(value, str) else str(value)
    if pa.types.is_decimal(type_) and isinstance(value, int):
        return Decimal(value)
    if isinstance(value, float) and _as_float(value, type_) != value and value == value:
        raise ValueError(f"{value} would be another value")
    if isinstance(value, datetime) and pa.types.is_date(type_):
        raise ValueError(f"{value} is not a date")
    return value


def _as_float(value: float, type_: pa.DataType) -> float:
    return c_float(value).value if pa.types.is_float32(type_) else value


def _member(record: dict[str, Any], field: pa.Field, path: str, lacks: Lacks) -> Any:
    name = field.name if field.name in record else find_name(field.name, list(record))
    if name is None:
        lacks(f"{path}.{field.name}", list(record))
        return None
    return _plain(record[name], field.type, f"{path}.{field.name}", lacks)


class _AvroDecoder(Decoder):
    def __init__(self, schema: pa.Schema, options: ReadOptions) -> None:
        self._schema = schema
        self._options = options

    def decode(self, element: AvroRecords, state: SplitState) -> Iterator[Rows]:
        """Yields the rows of a batch of records."""

        lacks = partial(missing_column, options=self._options, url=state.url)
        records = element.records
        columns = {}
        for field in self._schema:
            # Value by value in Python: that is how they come out of the Avro reader.
            name = find_name(field.name, list(records[0]))
            if name is None:
                lacks(field.name, list(records[0]))
            values = [None if name is None else record[name] for record in records]
            try:
                if any(is_kind(field.type) for is_kind in _LOOKED_AT):
                    values = [_plain(value, field.type, field.name, lacks) for value in values]
                columns[field.name] = pa.array(values, field.type)
            except (pa.ArrowException, *MALFORMED) as error:
                raise BadDataError(
                    f"{state.url}: field {field.name} does not fit {shown_type(field.type)}: {shortened(str(error))}; "
                    "correct the schema"
                ) from None
        numbers = pa.array(range(element.first_row, element.first_row + len(records)), pa.int64())
        yield Rows(columns, len(records), numbers)


class _RescuingDecoder(Decoder):
    """Makes a column of every field of the file first: the columns say what does not fit."""

    def __init__(self, columns: BatchDecoder) -> None:
        self._columns = columns

    def decode(self, element: AvroRecords, state: SplitState) -> Iterator[Rows]:
        """Yields the rows of a batch of records."""
        records, first, writer = element
        fields = fastavro.schema.expand_schema(writer)["fields"]
        columns = {field["name"]: _column(field, records, state.url) for field in fields}
        yield from self._columns.decode(NumberedBatch(first, pa.RecordBatch.from_pydict(columns)), state)


def _column(field: Any, records: list[dict[str, Any]], url: str) -> pa.Array:
    """Returns a field of all records, as JSON if its type has no column type. Raises BadDataError."""
    name = field["name"]
    values = [record[name] for record in records]
    try:
        type_ = avro_to_arrow(field["type"])
        return pa.array([_plain(value, type_, name, _lacks_nothing) for value in values], type_)
    except BadConfigurationError:
        return pa.array([as_text(value) for value in values], pa.string())
    except (pa.ArrowException, *MALFORMED) as error:
        raise BadDataError(f"{url}: field {name} holds values that its Avro type does not: {error}") from None


def _lacks_nothing(name: str, there: Sequence[str]) -> None:
    raise AssertionError(f"{name} is not among {there}")
