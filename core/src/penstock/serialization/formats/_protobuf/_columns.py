"""Which column a message becomes, and the step from what ptars reads to it.

ptars reads a batch of messages at once. What it does not look at is looked at here, for whole columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor import FieldDescriptor as Field

from penstock.errors import BadConfigurationError
from penstock.serialization.ddl import shown_type
from penstock.serialization.formats._rows import Misfit

__all__ = [
    "Column",
    "check_message",
    "check_range",
    "check_supported",
    "is_map",
    "is_repeated",
    "members_of_oneofs",
    "message_column",
    "range_of",
    "read_settings",
    "required_fields",
    "value_type",
]

_SCALARS: dict[int, pa.DataType] = {
    **dict.fromkeys((Field.TYPE_INT32, Field.TYPE_SINT32, Field.TYPE_SFIXED32), pa.int32()),
    **dict.fromkeys((Field.TYPE_INT64, Field.TYPE_SINT64, Field.TYPE_SFIXED64), pa.int64()),
    **dict.fromkeys((Field.TYPE_UINT32, Field.TYPE_FIXED32), pa.int64()),
    **dict.fromkeys((Field.TYPE_UINT64, Field.TYPE_FIXED64), pa.decimal128(20, 0)),
    Field.TYPE_FLOAT: pa.float32(),
    Field.TYPE_DOUBLE: pa.float64(),
    Field.TYPE_BOOL: pa.bool_(),
    Field.TYPE_STRING: pa.string(),
    Field.TYPE_ENUM: pa.string(),
    Field.TYPE_BYTES: pa.binary(),
}
_PACKAGE = "google.protobuf."
_WRAPPERS: dict[str, pa.DataType] = {
    f"{_PACKAGE}DoubleValue": pa.float64(),
    f"{_PACKAGE}FloatValue": pa.float32(),
    f"{_PACKAGE}Int64Value": pa.int64(),
    f"{_PACKAGE}UInt64Value": pa.decimal128(20, 0),
    f"{_PACKAGE}Int32Value": pa.int32(),
    f"{_PACKAGE}UInt32Value": pa.int64(),
    f"{_PACKAGE}BoolValue": pa.bool_(),
    f"{_PACKAGE}StringValue": pa.string(),
    f"{_PACKAGE}BytesValue": pa.binary(),
}
_SECOND = 1_000_000
#: The years 1 to 9999, and 10,000 years, in microseconds: what these messages may hold. ptars cuts off what it can't.
_RANGES = {
    f"{_PACKAGE}Timestamp": (-62_135_596_800 * _SECOND, 253_402_300_800 * _SECOND - 1),
    f"{_PACKAGE}Duration": (-315_576_000_000 * _SECOND, 315_576_000_000 * _SECOND),
}
_TIMES = {f"{_PACKAGE}Timestamp": pa.timestamp("us", "UTC"), f"{_PACKAGE}Duration": pa.duration("us")}
#: ptars passes over groups, and makes a day of a date without one.
_REFUSED = ("group", "google.type.Date", "google.type.TimeOfDay")


def read_settings() -> Any:
    """Returns how ptars is to read and write messages."""
    import ptars

    return ptars.PtarsConfig(
        timestamp_unit="us",
        duration_unit="us",
        list_value_name="element",
        list_nullable=True,
        map_nullable=True,
        list_value_nullable=True,
        map_value_nullable=True,
        enum_repr="string",
    )


@dataclass(frozen=True)
class Column:
    """A field, or a whole message. ``type`` is what :meth:`read` returns. Pickled.

    ``parts`` of a struct are names of the message's fields with what they become; of a list or a map, what its values
    become (and a map's keys).
    """

    type: pa.DataType
    parts: tuple[tuple[str, Column], ...] = ()
    required: tuple[str, ...] = ()
    oneofs: tuple[tuple[str, ...], ...] = ()
    default: Any = None
    range: tuple[int, int] | None = None
    message: str = ""

    def read(self, array: pa.Array, defaults: Callable[[str], pa.Array]) -> pa.Array:
        """Returns the column for what ptars read. ``defaults`` gives one message of a name without any field.

        Raises Misfit if a value is not what Protobuf allows, or ArrowException if it does not fit the type.
        """
        if pa.types.is_map(array.type):
            return self._read_map(array, defaults)
        if pa.types.is_list(array.type):
            return pa.ListArray.from_arrays(
                array.offsets, self.parts[0][1].read(array.values, defaults), type=self.type
            )
        if pa.types.is_struct(array.type):
            return self._read_struct(array, defaults)
        if self.range is not None:
            check_range(array, self.range, self.message)
        if self.default is not None and array.null_count:
            array = pc.fill_null(array, pa.scalar(self.default, array.type))
        return array if array.type == self.type else array.cast(self.type)

    def _read_struct(self, array: pa.StructArray, defaults: Callable[[str], pa.Array]) -> pa.Array:
        given = dict(zip((one.name for one in array.type), array.flatten(), strict=True))
        check_message(given, array.is_valid(), self.required, self.oneofs, self.message)
        children = [part.read(given[name], defaults) for name, part in self.parts]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(self.type), mask=mask)

    def _read_map(self, array: pa.MapArray, defaults: Callable[[str], pa.Array]) -> pa.Array:
        keys, items, offsets = array.keys, array.items, array.offsets
        (_, key), (_, item) = self.parts
        if items.null_count and item.message:
            both = pa.concat_arrays([items, defaults(item.message).cast(items.type)])
            places = pc.if_else(items.is_valid(), pa.array(range(len(items)), pa.int64()), len(items))
            items = both.take(places)
        keep = _last_of_each_key(offsets, keys)
        if keep is not None:
            keys, items = keys.take(keep[1]), items.take(keep[1])
            offsets = keep[0]
        return pa.MapArray.from_arrays(offsets, key.read(keys, defaults), item.read(items, defaults), type=self.type)


def check_message(
    given: dict[str, pa.Array],
    valid: pa.Array,
    required: tuple[str, ...],
    oneofs: tuple[tuple[str, ...], ...],
    message: str,
) -> None:
    """Raises Misfit if a message of ``valid`` lacks a required field, or has two fields of a oneof."""
    for name in required:
        if name not in given or pc.any(pc.and_(valid, given[name].is_null())).as_py():
            raise Misfit(f"{message} lacks the field '{name}', which is required")
    for members in oneofs:
        set_ = [given[name].is_valid().cast(pa.int8()) for name in members if name in given]
        if len(set_) > 1:
            count = set_[0]
            for one in set_[1:]:
                count = pc.add(count, one)
            if (pc.max(count).as_py() or 0) > 1:
                raise Misfit(f"{message} has several of the fields {', '.join(members)}, of which it may have one")


def check_range(array: pa.Array, range_: tuple[int, int], message: str) -> None:
    """Raises Misfit if a time is not within ``range_``, in microseconds."""
    found = pc.min_max(array.cast(pa.int64())).as_py()
    if found["min"] is not None and not (range_[0] <= found["min"] and found["max"] <= range_[1]):
        raise Misfit(f"a {message} is out of its range")


def _last_of_each_key(offsets: pa.Array, keys: pa.Array) -> tuple[pa.Array, pa.Array] | None:
    """Returns offsets and places of the entries that count, where a key is there twice; ``None`` where none is.

    To Protobuf the last one counts.
    """
    if not len(keys):
        return None
    owners = pc.list_parent_indices(pa.ListArray.from_arrays(offsets, keys))
    entries = pa.table({"owner": owners, "key": keys, "place": pa.array(range(len(keys)), pa.int64())})
    last = entries.group_by(["owner", "key"]).aggregate([("place", "max")])
    if last.num_rows == len(keys):
        return None
    places = pc.sort_indices(last["place_max"])
    keep = last["place_max"].combine_chunks().take(places)
    counts = dict(zip(*(one.to_pylist() for one in pc.value_counts(owners.take(keep)).flatten()), strict=True))
    ends = [0]
    for owner in range(len(offsets) - 1):
        ends.append(ends[-1] + counts.get(owner, 0))
    return pa.array(ends, pa.int32()), keep


def message_column(message: Any, wanted: pa.DataType | None) -> Column:
    """Returns the column of a message: all its fields, or those of the struct ``wanted``, with its types.

    Raises BadConfigurationError for what has no column, or can't become the type that is wanted.
    """
    if wanted is not None and not pa.types.is_struct(wanted):
        raise BadConfigurationError(f"format protobuf is for struct columns, not {shown_type(wanted)}")
    return _struct(message, wanted, message.name, (message.full_name,))


def is_repeated(one: Any) -> bool:
    """Returns whether a field is a list or a map. Releases of protobuf differ in how they say it."""
    found = getattr(one, "is_repeated", None)
    return bool(one.label == Field.LABEL_REPEATED if found is None else found)


def is_map(one: Any) -> bool:
    """Returns whether a field is a map: to Protobuf, a list of entries."""
    return bool(is_repeated(one) and one.message_type is not None and one.message_type.GetOptions().map_entry)


def required_fields(message: Any) -> tuple[str, ...]:
    """Returns names of the fields without which a message is not valid."""
    return tuple(one.name for one in message.fields if _is_required(one))


def _is_required(one: Any) -> bool:
    found = getattr(one, "is_required", None)
    return bool(one.label == Field.LABEL_REQUIRED if found is None else found)


def value_type(one: Any) -> pa.DataType | None:
    """Returns the type of a field's values; ``None`` for messages that become structs."""
    if one.message_type is None:
        return _SCALARS[one.type]
    return {**_TIMES, **_WRAPPERS}.get(one.message_type.full_name)


def check_supported(one: Any, path: str) -> None:
    """Raises BadConfigurationError for a field that ptars does not read, or does not read as it is."""
    name = "group" if one.type == Field.TYPE_GROUP else one.message_type and one.message_type.full_name
    if name in _REFUSED:
        raise BadConfigurationError(f"format protobuf has no column for {path} of type {name}: leave it out")


def range_of(message: Any) -> tuple[int, int] | None:
    """Returns the first and the last time that a message may hold, in microseconds; ``None`` if it is no time."""
    return _RANGES.get(message.full_name)


def members_of_oneofs(message: Any) -> tuple[tuple[str, ...], ...]:
    """Returns names of the fields of which a message has one at most."""
    return tuple(tuple(one.name for one in oneof.fields) for oneof in message.oneofs if len(oneof.fields) > 1)


def _struct(message: Any, wanted: pa.DataType | None, path: str, within: tuple[str, ...]) -> Column:
    names = [one.name for one in message.fields] if wanted is None else [one.name for one in wanted]
    if not names:
        raise BadConfigurationError(f"format protobuf: {path} has no fields: leave it out of the schema")
    parts = []
    for name in names:
        if name not in message.fields_by_name:
            raise BadConfigurationError(f"format protobuf: the message {message.full_name} has no field '{name}'")
        own = None if wanted is None else wanted.field(name).type
        parts.append((name, _field(message.fields_by_name[name], own, f"{path}.{name}", within)))
    return Column(
        pa.struct([(name, part.type) for name, part in parts]),
        tuple(parts),
        required=required_fields(message),
        oneofs=members_of_oneofs(message),
        message=message.full_name,
    )


def _field(one: Any, wanted: pa.DataType | None, path: str, within: tuple[str, ...]) -> Column:
    if not is_repeated(one):
        return _value(one, wanted, path, within)
    if is_map(one):
        if wanted is not None and not pa.types.is_map(wanted):
            raise _unfit(path, "a map", wanted)
        entry = one.message_type.fields_by_name
        key = _value(entry["key"], None if wanted is None else wanted.key_type, f"{path}.key", within)
        item = _value(entry["value"], None if wanted is None else wanted.item_type, f"{path}.value", within)
        return Column(pa.map_(key.type, item.type), (("key", key), ("value", item)))
    if wanted is not None and not pa.types.is_list(wanted):
        raise _unfit(path, "a list", wanted)
    element = _value(one, None if wanted is None else wanted.value_type, f"{path}.element", within)
    return Column(pa.list_(pa.field("element", element.type)), (("element", element),))


def _value(one: Any, wanted: pa.DataType | None, path: str, within: tuple[str, ...]) -> Column:
    own, message = value_type(one), one.message_type
    if own is not None and message is None:
        return Column(_fit(path, own, wanted), default=_default(one))
    name = message.full_name
    if own is not None:
        return Column(_fit(path, own, wanted), range=range_of(message), message=name)
    check_supported(one, path)
    if name in within:
        if wanted is not None and pa.types.is_binary(wanted):
            return Column(pa.binary())
        raise BadConfigurationError(
            f"format protobuf: {path} is of the type {name}, which contains itself: declare a schema without it, or "
            "with binary for it"
        )
    if wanted is not None and not pa.types.is_struct(wanted):
        raise _unfit(path, f"a message ({name})", wanted)
    return _struct(message, wanted, path, (*within, name))


def _default(one: Any) -> Any:
    if is_repeated(one) or not one.has_default_value:
        return None
    if one.enum_type is not None:
        return one.enum_type.values_by_number[one.default_value].name
    return one.default_value


def _fit(path: str, own: pa.DataType, wanted: pa.DataType | None) -> pa.DataType:
    if wanted is None or wanted == own:
        return own
    try:
        pa.array([], own).cast(wanted)
    except pa.ArrowException:
        raise _unfit(path, shown_type(own, wanted), wanted) from None
    return wanted


def _unfit(path: str, own: str, wanted: pa.DataType) -> BadConfigurationError:
    return BadConfigurationError(f"format protobuf: {path} is {own}, which can't be {shown_type(wanted)}")
