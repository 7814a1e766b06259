"""A struct column to Protobuf messages.

ptars leaves out without a word what it can't write: nulls in lists, names that an enum lacks, columns of another type.
So types are checked first, and values before each batch.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadConfigurationError
from penstock.serialization.ddl import shown_type
from penstock.serialization.formats._contracts import RecordEncoder
from penstock.serialization.formats._protobuf._columns import (
    check_message,
    check_range,
    check_supported,
    is_map,
    is_repeated,
    members_of_oneofs,
    range_of,
    read_settings,
    required_fields,
    value_type,
)
from penstock.serialization.formats._protobuf._schema import ProtobufSchema
from penstock.serialization.formats._rows import Misfit, first_bad_row, shown
from penstock.serialization.values import is_text

__all__ = ["ProtobufEncoder"]


class ProtobufEncoder(RecordEncoder):
    """Writes columns of ``type_`` as the message ``name`` of ``schema``, each after ``header``.

    Raises BadConfigurationError if the type does not fit the message.
    """

    def __init__(self, schema: ProtobufSchema, name: str, type_: pa.DataType, *, header: bytes = b"") -> None:
        self._schema = schema
        self._name = name
        self._header = header
        if not pa.types.is_struct(type_):
            raise BadConfigurationError(
                f"format protobuf is for struct columns, not {shown_type(type_)}: use struct(…)"
            )
        message = schema.message(name)
        _check_message(message, type_, message.name)
        self._handler: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_handler": None}

    def encode(self, column: pa.Array) -> pa.Array:
        try:
            return self._encode(column)
        except Exception as error:  # whatever ptars runs into
            raise first_bad_row(column, self._encode, error) from error

    def _encode(self, column: pa.Array) -> pa.Array:
        present = column.drop_null() if column.null_count else column
        if not len(present):
            return pa.nulls(len(column), pa.binary())
        message = self._schema.message(self._name)
        if self._handler is None:
            import ptars

            self._handler = ptars.HandlerPool([message.file], config=read_settings()).get_for_message(message)
        struct = _message(present, message, _nullable(pa.struct(list(self._handler.schema()))))
        batch = pa.RecordBatch.from_arrays(struct.flatten(), names=[one.name for one in struct.type])
        records = self._handler.record_batch_to_array(batch)
        if self._header:
            records = pc.binary_replace_slice(records, 0, 0, self._header)
        if not column.null_count:
            return records
        valid = column.is_valid()
        places = pc.if_else(valid, pc.subtract(pc.cumulative_sum(valid.cast(pa.int64())), 1), None)
        return records.take(places)


def _check_message(message: Any, type_: pa.DataType, path: str) -> None:
    given = {one.name: one.type for one in type_}
    for name, own in given.items():
        if name not in message.fields_by_name:
            raise BadConfigurationError(
                f"format protobuf: the message {message.full_name} has no field '{name}': leave it out of {path}"
            )
        _check_field(message.fields_by_name[name], own, f"{path}.{name}")
    for name in required_fields(message):
        if name not in given:
            raise BadConfigurationError(f"format protobuf: {path} lacks the field '{name}', which is required")


def _check_field(one: Any, type_: pa.DataType, path: str) -> None:
    types = pa.types
    if is_map(one):
        if not types.is_map(type_):
            raise _unfit(path, "a map", type_)
        entry = one.message_type.fields_by_name
        _check_value(entry["key"], type_.key_type, f"{path}.key")
        _check_value(entry["value"], type_.item_type, f"{path}.value")
    elif is_repeated(one):
        if not (types.is_list(type_) or types.is_large_list(type_)):
            raise _unfit(path, "a list", type_)
        _check_value(one, type_.value_type, f"{path}.element")
    else:
        _check_value(one, type_, path)


def _check_value(one: Any, type_: pa.DataType, path: str) -> None:
    own = value_type(one)
    check_supported(one, path)
    if own is None and pa.types.is_struct(type_):
        _check_message(one.message_type, type_, path)
    elif own is None:
        raise _unfit(path, f"a message ({one.message_type.full_name})", type_)
    elif not _fits(type_, own):
        raise _unfit(path, shown_type(own), type_)


def _fits(type_: pa.DataType, own: pa.DataType) -> bool:
    types = pa.types
    if types.is_signed_integer(own) or types.is_decimal(own):
        whole = types.is_decimal(type_) and types.is_decimal(own) and type_.scale == 0
        narrow = types.is_signed_integer(type_) and (types.is_decimal(own) or type_.bit_width <= own.bit_width)
        return bool(whole or narrow or types.is_null(type_))
    if types.is_floating(own):
        return bool(types.is_null(type_) or (types.is_floating(type_) and type_.bit_width <= own.bit_width))
    if is_text(own):
        return is_text(type_) or types.is_null(type_)
    if types.is_binary(own):
        return bool(types.is_binary(type_) or types.is_large_binary(type_) or types.is_null(type_))
    if types.is_timestamp(own):
        return bool(types.is_null(type_) or (types.is_timestamp(type_) and type_.tz is not None))
    return bool(type_ == own or types.is_null(type_) or (types.is_duration(type_) and types.is_duration(own)))


def _unfit(path: str, own: str, type_: pa.DataType) -> BadConfigurationError:
    return BadConfigurationError(f"format protobuf: {path} is {shown_type(type_)}, and the message has {own}: cast it")


def _message(array: pa.StructArray, message: Any, target: pa.DataType) -> pa.StructArray:
    """Returns the array with all fields of ``target``, as ptars takes them. Raises Misfit for what can't be written."""
    values = dict(zip((one.name for one in array.type), array.flatten(), strict=True))
    check_message(values, array.is_valid(), required_fields(message), members_of_oneofs(message), message.full_name)
    children = [
        _field(values[one.name], message.fields_by_name[one.name], one.type)
        if one.name in values
        else pa.nulls(len(array), one.type)
        for one in target
    ]
    return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null() if array.null_count else None)


def _field(array: pa.Array, one: Any, target: pa.DataType) -> pa.Array:
    if not is_repeated(one):
        return _value(array, one, target)
    if is_map(one):
        array = pa.concat_arrays([array, array.slice(0, 0)]) if array.offset else array
        entries = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
        array = pa.ListArray.from_arrays(array.offsets, entries, mask=array.is_null() if array.null_count else None)
    lengths = pc.fill_null(pc.list_value_length(array), 0)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])
    values = array.flatten()
    if not is_map(one):
        _check_nulls(values, f"the list '{one.name}'")
        return pa.ListArray.from_arrays(offsets, _value(values, one, target.value_type), type=target)
    keys, items = values.flatten()
    _check_nulls(items, f"the map '{one.name}'")
    entry = one.message_type.fields_by_name
    keys, items = _value(keys, entry["key"], target.key_type), _value(items, entry["value"], target.item_type)
    return pa.MapArray.from_arrays(offsets, keys, items, type=target)


def _nullable(target: pa.DataType) -> pa.DataType:
    """Returns a type of ptars without what it says of nulls, as Arrow compares that, too."""
    if pa.types.is_struct(target):
        return pa.struct([pa.field(one.name, _nullable(one.type)) for one in target])
    if pa.types.is_map(target):
        return pa.map_(target.key_type, _nullable(target.item_type))
    return pa.list_(pa.field("element", _nullable(target.value_type))) if pa.types.is_list(target) else target


def _value(array: pa.Array, one: Any, target: pa.DataType) -> pa.Array:
    if pa.types.is_struct(array.type):
        return _message(array, one.message_type, target)
    found = array if array.type == target else array.cast(target)
    if one.enum_type is not None:
        _check_names(found, one)
    if one.message_type is not None and (limits := range_of(one.message_type)) is not None:
        check_range(found, limits, one.message_type.full_name)
    return found


def _check_names(array: pa.Array, one: Any) -> None:
    unknown = [name for name in pc.unique(array.drop_null()).to_pylist() if name not in one.enum_type.values_by_name]
    if unknown:
        raise Misfit(f"'{one.name}': the enum {one.enum_type.full_name} has no {shown(unknown[0])!r}")


def _check_nulls(values: pa.Array, where: str) -> None:
    if values.null_count:
        raise Misfit(f"{where} has a null, which Protobuf can't hold")
