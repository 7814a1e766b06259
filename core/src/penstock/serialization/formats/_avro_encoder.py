"""A column to Avro records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
from fastavro.schema import expand_schema

from penstock.errors import BadConfigurationError
from penstock.serialization.avro import AvroSchema, avro_to_arrow, holds_map, stored_type, with_dicts
from penstock.serialization.ddl import shown_type
from penstock.serialization.formats._contracts import RecordEncoder
from penstock.serialization.formats._rows import first_bad_row
from penstock.serialization.values import is_text

__all__ = ["AvroEncoder"]


class AvroEncoder(RecordEncoder):
    """Writes columns of ``type_`` as records of ``schema``, each after ``header``.

    Raises BadConfigurationError if the type does not fit the schema.
    """

    def __init__(self, schema: AvroSchema, type_: pa.DataType, *, header: bytes = b"") -> None:
        _check("the column", type_, expand_schema(schema))
        self._schema = fastavro.parse_schema(schema)
        self._header = header
        self._units = _top_level_times(stored_type(schema))

    def encode(self, column: pa.Array) -> pa.Array:
        try:
            return self._encode(column)
        except Exception as error:  # whatever fastavro runs into
            raise first_bad_row(column, self._encode, error) from error

    def _encode(self, column: pa.Array) -> pa.Array:
        records = self._structs(column) if pa.types.is_struct(column.type) else self._values(column)
        # Row by row in Python: in Avro the fields of a record follow each other. The writing itself is compiled.
        encoded: list[bytes | None] = []
        for record in records:
            if record is None:
                encoded.append(None)
                continue
            stream = BytesIO()
            stream.write(self._header)
            fastavro.schemaless_writer(stream, self._schema, record)
            encoded.append(stream.getvalue())
        return pa.array(encoded, pa.binary())

    def _structs(self, column: pa.Array) -> Iterator[Any]:
        fields = list(column.type)
        columns = [
            _python_values(values, self._units.get(field.name))
            for field, values in zip(fields, column.flatten(), strict=True)
        ]
        names = [field.name for field in fields]
        rows: Iterator[Sequence[Any]] = zip(*columns, strict=True)
        for valid, row in zip(column.is_valid().to_pylist(), rows, strict=True):
            yield dict(zip(names, row, strict=True)) if valid else None

    def _values(self, column: pa.Array) -> Iterator[Any]:
        yield from _python_values(column, self._units.get(""))


def _top_level_times(stored: pa.DataType) -> dict[str, pa.DataType]:
    """Returns the times that go in as the integers Avro stores, which is several times as fast: field name to their
    type.
    """
    fields = list(stored) if pa.types.is_struct(stored) else [pa.field("", stored)]
    return {f.name: f.type for f in fields if pa.types.is_temporal(f.type)}


def _python_values(values: pa.Array, time: pa.DataType | None) -> list[Any]:
    if time is not None:
        integer = pa.int32() if time.bit_width == 32 else pa.int64()
        return list(values.cast(time, safe=False).cast(integer).to_pylist())
    plain: list[Any] = values.to_pylist()
    return [with_dicts(value, values.type) for value in plain] if holds_map(values.type) else plain


def _check(path: str, type_: pa.DataType, schema: Any) -> None:
    """Raises BadConfigurationError unless every value of ``type_`` that is not null has a form in ``schema``."""
    if isinstance(schema, list):
        _check_union(path, type_, [branch for branch in schema if branch != "null"])
        return
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(kind, dict | list):
        _check(path, type_, kind)
    elif kind in ("record", "error") and pa.types.is_struct(type_):
        _check_record(path, type_, schema)
    elif kind == "array" and (pa.types.is_list(type_) or pa.types.is_large_list(type_)):
        _check(f"{path}[]", type_.value_type, schema["items"])
    elif kind == "map" and pa.types.is_map(type_) and is_text(type_.key_type):
        _check(f"{path}[]", type_.item_type, schema["values"])
    elif not _fits(type_, avro_to_arrow(schema)):
        logical = schema.get("logicalType") if isinstance(schema, dict) else None
        wanted = f"{kind} ({logical})" if logical else kind
        raise BadConfigurationError(
            f"format avro: {path} is {shown_type(type_)}, which the schema's {wanted} can't hold: cast it"
        )


def _check_union(path: str, type_: pa.DataType, branches: list[Any]) -> None:
    problem: BadConfigurationError | None = None
    for branch in branches:
        try:
            _check(path, type_, branch)
            return
        except BadConfigurationError as error:
            problem = problem or error
    if not pa.types.is_null(type_):
        raise problem or BadConfigurationError(f"format avro: {path} can only be null in the schema")


def _check_record(path: str, type_: pa.DataType, schema: Any) -> None:
    given = {field.name: field.type for field in type_}
    wanted = {field["name"]: field for field in schema["fields"]}
    unknown = [name for name in given if name not in wanted]
    if unknown:
        raise BadConfigurationError(f"format avro: the schema has no field '{unknown[0]}' in {path}: leave it out")
    for name, field in wanted.items():
        if name in given:
            _check(name if path == "the column" else f"{path}.{name}", given[name], field["type"])
        elif "default" not in field:
            raise BadConfigurationError(f"format avro: {path} lacks the field '{name}', which has no default")


def _fits(type_: pa.DataType, wanted: pa.DataType) -> bool:
    types = pa.types
    if types.is_signed_integer(type_) and types.is_signed_integer(wanted):
        return bool(type_.bit_width <= wanted.bit_width)
    if types.is_floating(type_) and types.is_floating(wanted):
        return bool(type_.bit_width <= wanted.bit_width)
    if types.is_timestamp(type_) and types.is_timestamp(wanted):
        return (type_.tz is None) == (wanted.tz is None)
    if types.is_decimal(type_) and types.is_decimal(wanted):
        return bool(type_.scale == wanted.scale and type_.precision <= wanted.precision)
    if is_text(type_) or is_text(wanted):
        return is_text(type_) and is_text(wanted)
    both_bytes = (types.is_binary(type_) or types.is_large_binary(type_)) and types.is_binary(wanted)
    return bool(
        type_ == wanted or both_bytes or (types.is_time(type_) and types.is_time(wanted)) or types.is_null(type_)
    )
