"""Protobuf messages to a struct column."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadConfigurationError
from penstock.serialization.formats._contracts import Decoded, RecordDecoder
from penstock.serialization.formats._protobuf._columns import message_column, read_settings
from penstock.serialization.formats._protobuf._evolution import why_unreadable
from penstock.serialization.formats._protobuf._schema import ProtobufSchema
from penstock.serialization.formats._registered_decoder import WriterDecoders
from penstock.serialization.formats._rows import Misfit, RowErrors, by_parts, described, shown, with_nulls
from penstock.serialization.formats._schemas import SchemaKey

__all__ = ["ProtobufDecoder", "ProtobufDecoders", "read_indexes"]

_MOST_INDEXES = 100


class ProtobufDecoder(RecordDecoder):
    """Reads records as the message ``name`` of ``schema``. ``type_`` chooses fields, and may cast them.

    Raises BadConfigurationError if the message has no such column.
    """

    def __init__(self, schema: ProtobufSchema, name: str, type_: pa.DataType | None) -> None:
        self._schema = schema
        self._name = name
        self._column = message_column(schema.message(name), type_)
        self._handlers: dict[str, Any] = {}
        self._pool: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_handlers": {}, "_pool": None}

    @property
    def type(self) -> pa.DataType:
        return self._column.type

    @property
    def message(self) -> Any:
        """The descriptor of the message."""
        return self._schema.message(self._name)

    def decode(self, values: pa.Array) -> Decoded:
        return with_nulls(values, self._decode)

    def _decode(self, values: pa.Array) -> Decoded:
        errors = RowErrors()
        reason = ""

        def attempt(start: int, stop: int) -> pa.Array | None:
            nonlocal reason
            try:
                batch = self._handler(self._name).array_to_record_batch(values.slice(start, stop - start))
                return self._column.read(batch.to_struct_array(), self._of_nothing)
            except Misfit as error:
                reason = str(error)
            except (pa.ArrowException, ValueError) as error:
                reason = f"not a {self._name}: {shown(described(error))}"
            return None

        def give_up(start: int, stop: int) -> pa.Array:
            errors.add(start, reason)
            return pa.nulls(stop - start, self.type)

        if not len(values):
            return Decoded(pa.nulls(0, self.type))
        return Decoded(by_parts(0, len(values), attempt, give_up, few=1), errors.array(len(values)))

    def _handler(self, name: str) -> Any:
        if name not in self._handlers:
            import ptars

            if self._pool is None:
                self._pool = ptars.HandlerPool([self._schema.message(self._name).file], config=read_settings())
            self._handlers[name] = self._pool.get_for_message(self._schema.message(name))
        return self._handlers[name]

    def _of_nothing(self, name: str) -> pa.Array:
        """Returns a message without fields."""
        return self._handler(name).array_to_record_batch(pa.array([b""], pa.binary())).to_struct_array()


class ProtobufDecoders(WriterDecoders[ProtobufSchema]):
    """Decoders of messages of any schema as that of ``reader``: by the numbers of its fields."""

    def __init__(self, reader: ProtobufDecoder) -> None:
        self._reader = reader

    @property
    def type(self) -> pa.DataType:
        return self._reader.type

    def decoder(self, key: SchemaKey, schema: ProtobufSchema) -> RecordDecoder:
        return _IndexedDecoder(self._reader, key, schema)


class _IndexedDecoder(RecordDecoder):
    """Reads records that begin with the place of their message in the schema ``writer``: a list of indexes."""

    def __init__(self, reader: ProtobufDecoder, key: SchemaKey, writer: ProtobufSchema) -> None:
        self._reader = reader
        self._key = key
        self._writer = writer
        self._problems: dict[tuple[int, ...], str | None] = {}

    @property
    def type(self) -> pa.DataType:
        return self._reader.type

    def decode(self, values: pa.Array) -> Decoded:
        return with_nulls(values, self._decode)

    def _decode(self, values: pa.Array) -> Decoded:
        errors = RowErrors()
        if pc.all(pc.starts_with(values, b"\0")).as_py():  # the first message: nearly every schema has no other
            payloads = pc.binary_replace_slice(values, 0, 1, b"")
            problem = self._problem((0,)) if len(values) else None
            if problem is not None:
                for row in range(len(values)):
                    errors.add(row, problem)
                return Decoded(pa.nulls(len(values), self.type), errors.array(len(values)))
            return self._reader.decode(payloads)
        # Row by row in Python: the indexes have any length.
        found: list[bytes | None] = []
        for row, value in enumerate(values.to_pylist()):
            try:
                indexes, length = read_indexes(value)
                problem = self._problem(indexes)
            except (IndexError, ValueError):
                problem = "does not name its message after the schema's id"
            if problem is not None:
                errors.add(row, problem)
            found.append(None if problem is not None else value[length:])
        decoded = self._reader.decode(pa.array(found, pa.binary()))
        errors.add_all(decoded.errors)
        return Decoded(decoded.column, errors.array(len(values)))

    def _problem(self, indexes: tuple[int, ...]) -> str | None:
        if indexes not in self._problems:
            try:
                message = self._writer.at(indexes)
            except (IndexError, BadConfigurationError):
                return f"schema {self._key} has no message at {'.'.join(map(str, indexes))}"
            reader = self._reader.message
            if message.full_name != reader.full_name:
                problem: str | None = f"is a {message.full_name}, not a {reader.full_name}"
            else:
                why = why_unreadable(message, reader)
                problem = None if why is None else f"schema {self._key} can't be read as the column's: {why}"
            self._problems[indexes] = problem
        return self._problems[indexes]


def read_indexes(value: bytes) -> tuple[tuple[int, ...], int]:
    """Returns the indexes that ``value`` begins with, and their length. Raises IndexError or ValueError."""
    count, place = _zigzag(value, 0)
    if not 0 <= count <= _MOST_INDEXES:
        raise ValueError(count)
    found = []
    for _ in range(count):
        index, place = _zigzag(value, place)
        found.append(index)
    return tuple(found) or (0,), place


def _zigzag(value: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = value[place]
        place += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), place
        if shift > 63:
            raise ValueError(place)
