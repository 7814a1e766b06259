"""The envelope of a change: the column that a user gets, and what it is made of."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadConfigurationError
from penstock.options import nearest_hint
from penstock.serialization.ddl import shown_type
from penstock.serialization.formats._rows import RowErrors, shown
from penstock.serialization.values import is_text

__all__ = ["check_envelope", "column_of", "envelope_type", "note_odd_records", "parsed_type"]

_TIME = pa.timestamp("us", "UTC")
_PLACE = ("version", "connector", "name", "snapshot", "db", "schema", "table")
_COUNTS = pa.list_(pa.field("element", pa.struct([("data_collection", pa.string()), ("event_count", pa.int64())])))
_OF_CHANGE = [("id", pa.string()), ("total_order", pa.int64()), ("data_collection_order", pa.int64())]
_OF_MARK = [("status", pa.string()), ("event_count", pa.int64()), ("data_collections", _COUNTS)]
_TIMES = [("ts_ms", pa.int64()), ("ts_us", pa.int64())]
_FIXED = {
    "op": pa.string(),
    "ts": _TIME,
    "transaction": pa.struct([*_OF_CHANGE, *_OF_MARK]),
    "message": pa.struct([("prefix", pa.string()), ("content", pa.binary())]),
    "unavailable": pa.list_(pa.field("element", pa.string())),
}
#: What is made of the source, next to the fields that it has.
_OF_SOURCE = {"source.ts": _TIME, "source.json": pa.string()}
_FIELDS = ("op", "before", "after", "source", "ts", "transaction", "message", "unavailable")
_OPS = ("c", "u", "d", "r", "t", "m")
_MARKS = ("BEGIN", "END")


def envelope_type(columns: pa.DataType) -> pa.DataType:
    """Returns the type of the column for a table of ``columns``, a struct."""
    source = pa.struct([*((name, pa.string()) for name in _PLACE), ("ts", _TIME), ("json", pa.string())])
    types = {**_FIXED, "before": columns, "after": columns, "source": source}
    return pa.struct([(name, types[name]) for name in _FIELDS])


def check_envelope(type_: pa.DataType) -> None:
    """Raises BadConfigurationError if ``type_`` is not made of fields of the envelope.

    Fields may be left out, and those of the source are as the user wants them.
    """
    if not pa.types.is_struct(type_) or not type_.num_fields:
        raise BadConfigurationError(
            f"format debezium decodes to a struct, not to {shown_type(type_)}: name the table's columns"
        )
    for field in type_:
        if field.name not in _FIELDS:
            near = nearest_hint(field.name, _FIELDS) or f"; its fields are {', '.join(_FIELDS)}"
            raise BadConfigurationError(f"format debezium has no field '{field.name}'{near}")
        wanted = _FIXED.get(field.name)
        if wanted is None and not (pa.types.is_struct(field.type) and field.type.num_fields):
            raise BadConfigurationError(f"format debezium: '{field.name}' is a struct, not {shown_type(field.type)}")
        if wanted is not None and field.type != wanted:
            raise BadConfigurationError(
                f"format debezium: '{field.name}' is {shown_type(wanted)}, not {shown_type(field.type)}"
            )
        _check_parts(field)


def _check_parts(field: pa.Field, path: str = "") -> None:
    path, kind, types = f"{path}{field.name}", field.type, pa.types
    own = _OF_SOURCE.get(path)
    if own is not None and kind != own:
        raise BadConfigurationError(
            f"format debezium: '{path}' is {shown_type(own, kind)}, not {shown_type(kind, own)}"
        )
    if types.is_struct(kind):
        for child in kind:
            _check_parts(child, f"{path}.")
    elif types.is_list(kind):
        _check_parts(kind.value_field, f"{path}.")
    elif types.is_map(kind):
        if not (is_text(kind.key_type) and is_text(kind.item_type)):
            raise BadConfigurationError(f"format debezium: the map '{path}' must be of strings, or a string")
    elif types.is_time(kind) or types.is_duration(kind) or types.is_large_binary(kind) or types.is_null(kind):
        raise BadConfigurationError(
            f"format debezium has no form for '{path}' of type {shown_type(kind, own)}: take a number"
        )


def parsed_type(type_: pa.DataType) -> pa.DataType:
    """Returns the type of what is read of a record for a column of ``type_``: Debezium's own fields."""
    fields = {field.name: field.type for field in type_}
    found = {name: fields[name] for name in ("before", "after") if name in fields}
    if "source" in fields:
        own = [field for field in fields["source"] if field.name not in ("ts", "json")]
        times = [pair for pair in _TIMES if pair[0] not in {field.name for field in own}]
        found["source"] = pa.struct([*own, *times])
    return pa.struct(
        [
            ("op", pa.string()),
            *found.items(),
            *_TIMES,
            ("transaction", pa.struct(_OF_CHANGE)),
            ("message", _FIXED["message"]),
            ("id", pa.string()),
            *_OF_MARK,
        ]
    )


def note_odd_records(parsed: pa.StructArray, errors: RowErrors) -> None:
    """Notes the records that are neither changes nor the marks of a transaction."""
    op, status, id_ = (_texts(parsed.field(name)) for name in ("op", "status", "id"))
    is_mark = pc.and_(pc.and_(op.is_null(), id_.is_valid()), pc.is_in(status, pa.array(_MARKS)))
    is_change = pc.is_in(op, pa.array(_OPS))
    if parsed.type.get_field_index("after") >= 0:
        needs_row = pc.is_in(op, pa.array(("c", "r")))
        is_change = pc.and_(is_change, pc.invert(pc.and_(needs_row, parsed.field("after").is_null())))
    odd = pc.invert(pc.or_(is_mark, is_change))
    if not pc.any(odd).as_py():
        return
    for row in pc.indices_nonzero(odd).to_pylist():
        errors.add(row, _why_odd(op[row].as_py()))


def _texts(column: pa.Array) -> pa.Array:
    return column if is_text(column.type) else pa.nulls(len(column), pa.string())


def _why_odd(op: str | None) -> str:
    if op is None:
        return (
            "neither a change (it has no 'op') nor the mark of a transaction: heartbeats, changes of a schema and rows "
            "without an envelope need another format, such as json"
        )
    return f"a change of op {op} without 'after'" if op in _OPS else f"op {shown(op)} is none of {', '.join(_OPS)}"


def column_of(
    parsed: pa.StructArray, type_: pa.DataType, source_texts: pa.Array | None, unavailable: pa.Array
) -> pa.Array:
    """Returns the column of ``type_``. ``source_texts`` are the sources as JSON, ``unavailable`` names of columns."""
    children = []
    for field in type_:
        if field.name == "ts":
            child = _time(parsed)
        elif field.name == "source":
            child = _source(parsed.field("source"), field.type, source_texts)
        elif field.name == "transaction":
            child = _transaction(parsed)
        elif field.name == "unavailable":
            child = unavailable
        else:
            child = parsed.field(field.name)
        children.append(child)
    return pa.StructArray.from_arrays(children, fields=list(type_))


def _time(parsed: pa.StructArray) -> pa.Array:
    millis = pc.multiply_checked(parsed.field("ts_ms"), 1000)
    return pc.coalesce(parsed.field("ts_us"), millis).cast(_TIME)


def _source(source: pa.StructArray, type_: pa.DataType, texts: pa.Array | None) -> pa.Array:
    children = [
        _time(source) if field.name == "ts" else texts if field.name == "json" else source.field(field.name)
        for field in type_
    ]
    return pa.StructArray.from_arrays(children, fields=list(type_), mask=source.is_null())


def _transaction(parsed: pa.StructArray) -> pa.Array:
    own, type_ = parsed.field("transaction"), _FIXED["transaction"]
    children = [own.field(name) for name, _ in _OF_CHANGE] + [parsed.field(name) for name, _ in _OF_MARK]
    children[0] = pc.coalesce(own.field("id"), parsed.field("id"))
    absent = pc.and_(own.is_null(), parsed.field("status").is_null())
    return pa.StructArray.from_arrays(children, fields=list(type_), mask=absent)
