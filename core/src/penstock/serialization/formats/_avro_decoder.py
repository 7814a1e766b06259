"""Avro records to a column."""

from __future__ import annotations

from io import BytesIO
from typing import Any, Protocol

import fastavro
import pyarrow as pa

from penstock.errors import BadConfigurationError, PenstockError
from penstock.serialization.avro import AvroSchema, avro_to_arrow, holds_map, stored_type, with_pairs, without_logical
from penstock.serialization.formats._contracts import Decoded, RecordDecoder
from penstock.serialization.formats._rows import Misfit, RowErrors, by_parts, described, shown, with_nulls

__all__ = ["AvroDecoder", "SchemaLookup"]

_UUID = frozenset({"uuid"})
_TIMES = frozenset({"date", "time-millis", "time-micros", "timestamp-millis", "timestamp-micros"})
_TIMES |= {"local-timestamp-millis", "local-timestamp-micros"}
_HEADER = 5


class SchemaLookup(Protocol):
    """A registry, to a decoder."""

    def schema(self, schema_id: int) -> AvroSchema:
        """Returns the schema with that id. Raises Misfit for one that does not exist, RetriableError,
        BadConfigurationError.
        """


class AvroDecoder(RecordDecoder):
    """Reads records as ``reader``, written as ``writer`` or, with a ``registry``, as the schema whose id they name.

    ``type_`` is what the column is cast to; unset, the type of ``reader``.
    """

    def __init__(
        self,
        reader: AvroSchema,
        type_: pa.DataType | None,
        *,
        writer: AvroSchema | None = None,
        registry: SchemaLookup | None = None,
    ) -> None:
        self._reader = reader
        self._stored = stored_type(reader)
        self._type = _checked(avro_to_arrow(reader), type_)
        self._has_map = holds_map(self._type)
        self._registry = registry
        self._pair = _resolution(reader if writer is None else writer, reader)
        self._pairs: dict[int, tuple[Any, Any]] = {}

    @property
    def type(self) -> pa.DataType:
        return self._type

    def decode(self, values: pa.Array) -> Decoded:
        return with_nulls(values, self._decode)

    def _decode(self, values: pa.Array) -> Decoded:
        errors = RowErrors()
        records: list[Any] = []
        read = self._read_plain if self._registry is None else self._read_registered
        # Row by row in Python: in Avro the fields of a record follow each other, without anything that says where the
        # next one begins. The reading itself is compiled (fastavro).
        for row, value in enumerate(values.to_pylist()):
            try:
                records.append(read(value))
            except PenstockError:
                raise
            except Exception as error:  # whatever fastavro runs into in bytes that mean something else
                records.append(None)
                errors.add(row, str(error) if isinstance(error, Misfit) else f"not Avro of this schema: {_why(error)}")
        return Decoded(self._column(records, errors), errors.array(len(records)))

    def _read_plain(self, value: bytes) -> Any:
        return _read(BytesIO(value), len(value), self._pair)

    def _read_registered(self, value: bytes) -> Any:
        if len(value) < _HEADER or value[0] != 0:
            raise Misfit("does not begin with a zero byte and a schema's id (4 bytes)")
        schema_id = int.from_bytes(value[1:_HEADER], "big")
        pair = self._pairs.get(schema_id)
        if pair is None:
            assert self._registry is not None
            pair = self._pairs[schema_id] = _resolution(self._registry.schema(schema_id), self._reader)
        stream = BytesIO(value)
        stream.seek(_HEADER)
        return _read(stream, len(value), pair)

    def _column(self, records: list[Any], errors: RowErrors) -> pa.Array:
        if self._has_map:
            records = [with_pairs(record, self._stored) for record in records]
        reason = ""

        def attempt(start: int, stop: int) -> pa.Array | None:
            nonlocal reason
            try:
                return pa.array(records[start:stop], self._stored).cast(self._type)
            except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                reason = _why(error)
                return None

        def give_up(start: int, stop: int) -> pa.Array:
            errors.add(start, f"does not fit the column: {reason}")
            return pa.nulls(stop - start, self._type)

        return by_parts(0, len(records), attempt, give_up, few=1)


def _why(error: Exception) -> str:
    return shown(described(error))


def _read(stream: BytesIO, size: int, pair: tuple[Any, Any]) -> Any:
    record = fastavro.schemaless_reader(stream, pair[0], pair[1])
    if stream.tell() != size:
        raise Misfit(f"not Avro of this schema: {size - stream.tell()} bytes are left over")
    return record


def _resolution(writer: AvroSchema, reader: AvroSchema) -> tuple[Any, Any]:
    """Returns what fastavro takes to read records of ``writer`` as ``reader``.

    Times come as the integers that Avro stores, which is faster and has no year 9999, but where two schemas may
    differ in the unit: there they come as Python's.
    """
    if writer == reader:
        return fastavro.parse_schema(without_logical(writer, _UUID | _TIMES)), None
    has_times = without_logical(reader, _TIMES) != reader
    writer = without_logical(writer, _UUID if has_times else _UUID | _TIMES)
    return fastavro.parse_schema(writer), fastavro.parse_schema(reader)


def _checked(own: pa.DataType, wanted: pa.DataType | None) -> pa.DataType:
    if wanted is None or wanted == own:
        return own
    try:
        pa.array([], own).cast(wanted)
    except pa.ArrowException:
        raise BadConfigurationError(f"the Avro schema gives {own}, which can't be cast to {wanted}") from None
    return wanted
