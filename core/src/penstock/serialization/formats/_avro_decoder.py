"""Avro records to a column."""

from __future__ import annotations

from io import BytesIO
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.serialization.avro import (
    AvroSchema,
    avro_to_arrow,
    contains_itself,
    holds_map,
    holds_values_without_bytes,
    stored_type,
    with_pairs,
    without_logical,
)
from penstock.serialization.ddl import shown_type
from penstock.serialization.formats._contracts import Decoded, RecordDecoder
from penstock.serialization.formats._registered_decoder import WriterDecoders
from penstock.serialization.formats._rows import Misfit, RowErrors, by_parts, described, shown, with_nulls
from penstock.serialization.formats._schemas import SchemaKey
from penstock.serialization.values import cast_column

__all__ = ["AvroDecoder", "AvroDecoders"]

_WITHOUT_BYTES = "arrays of values that take no bytes (null): a few bytes would stand for any number of them"
_UUID = frozenset({"uuid"})
_TIMES = frozenset({"date", "time-millis", "time-micros", "timestamp-millis", "timestamp-micros"})
_TIMES |= {"local-timestamp-millis", "local-timestamp-micros"}
#: Of a record that may be nested in itself: each level takes a byte at least, and some hundred bytes of the stack.
_DEEPEST = 2_000


class AvroDecoder(RecordDecoder):
    """Reads records that were written as ``writer``; unset, as ``reader``, which they are read as.

    ``type_`` is what the column is cast to; unset, the type of ``reader``.
    """

    def __init__(self, reader: AvroSchema, type_: pa.DataType | None, *, writer: AvroSchema | None = None) -> None:
        self._reader = reader
        self._stored = stored_type(reader)
        self._type = _checked(avro_to_arrow(reader), type_)
        self._has_map = holds_map(self._type)
        writer = reader if writer is None else writer
        if holds_values_without_bytes(writer):
            raise BadConfigurationError(f"the Avro schema has {_WITHOUT_BYTES}")
        self._pair = _resolution(writer, reader)

    @property
    def type(self) -> pa.DataType:
        return self._type

    def decode(self, values: pa.Array) -> Decoded:
        return with_nulls(values, self._decode)

    def _decode(self, values: pa.Array) -> Decoded:
        errors = RowErrors()
        records: list[Any] = []
        # Row by row in Python: in Avro the fields of a record follow each other, without anything that says where the
        # next one begins. The reading itself is compiled (fastavro).
        for row, value in enumerate(values.to_pylist()):
            try:
                records.append(_read(BytesIO(value), len(value), self._pair))
            except Exception as error:  # whatever fastavro runs into in bytes that mean something else
                records.append(None)
                errors.add(row, str(error) if isinstance(error, Misfit) else f"not Avro of this schema: {_why(error)}")
        return Decoded(self._column(records, errors), errors.array(len(records)))

    def _column(self, records: list[Any], errors: RowErrors) -> pa.Array:
        if self._has_map:
            records = [with_pairs(record, self._stored) for record in records]
        reason = ""

        def attempt(start: int, stop: int) -> pa.Array | None:
            nonlocal reason
            try:
                return cast_column(pa.array(records[start:stop], self._stored), self._type)
            except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                reason = _why(error)
                return None

        def give_up(start: int, stop: int) -> pa.Array:
            errors.add(start, f"does not fit the column: {reason}")
            return pa.nulls(stop - start, self._type)

        return by_parts(0, len(records), attempt, give_up, few=1)


class AvroDecoders(WriterDecoders[AvroSchema]):
    """Decoders of records of any schema as ``reader``."""

    def __init__(self, reader: AvroSchema, type_: pa.DataType | None) -> None:
        self._reader = reader
        self._type = AvroDecoder(reader, type_).type

    @property
    def type(self) -> pa.DataType:
        return self._type

    def decoder(self, key: SchemaKey, schema: AvroSchema) -> AvroDecoder:
        return AvroDecoder(self._reader, self._type, writer=schema)


def _why(error: Exception) -> str:
    return shown(described(error))


class _Pair(NamedTuple):
    """What fastavro takes to read records of one schema as another."""

    writer: Any
    reader: Any
    is_recursive: bool


def _read(stream: BytesIO, size: int, pair: _Pair) -> Any:
    if pair.is_recursive and size > _DEEPEST:
        raise Misfit(f"a record of a type that contains itself has {size} bytes: up to {_DEEPEST} are read")
    record = fastavro.schemaless_reader(stream, pair.writer, pair.reader)
    if stream.tell() != size:
        raise Misfit(f"not Avro of this schema: {size - stream.tell()} bytes are left over")
    return record


def _resolution(writer: AvroSchema, reader: AvroSchema) -> _Pair:
    """Returns what fastavro takes to read records of ``writer`` as ``reader``.

    Times come as the integers that Avro stores, which is faster and has no year 9999, but where two schemas may
    differ in the unit: there they come as Python's.
    """
    is_recursive = contains_itself(writer)
    if writer == reader:
        return _Pair(fastavro.parse_schema(without_logical(writer, _UUID | _TIMES)), None, is_recursive)
    has_times = without_logical(reader, _TIMES) != reader
    writer = without_logical(writer, _UUID if has_times else _UUID | _TIMES)
    return _Pair(fastavro.parse_schema(writer), fastavro.parse_schema(reader), is_recursive)


def _checked(own: pa.DataType, wanted: pa.DataType | None) -> pa.DataType:
    if wanted is None or wanted == own:
        return own
    try:
        pa.array([], own).cast(wanted)
    except pa.ArrowException:
        raise BadConfigurationError(
            f"the Avro schema gives {shown_type(own)}, which can't be cast to {shown_type(wanted)}"
        ) from None
    return wanted
