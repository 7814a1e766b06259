"""How Debezium writes the values of a column, and what turns them into the column's declared type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from penstock.options import OptionValues
from penstock.serialization.formats._rows import Misfit, shown
from penstock.serialization.values import is_text

__all__ = ["UNSEEN", "Encoding", "Encodings", "How", "Kind", "nested", "raw_type", "undescribed"]

#: What a value is made of, in JSON or by its schema. Only a schema says that a value is of bytes.
Kind = Literal["null", "boolean", "number", "text", "bytes", "object", "list"]
How = Literal[
    "plain",
    "nested",
    "boolean",
    "number",
    "days",
    "iso date",
    "ms",
    "us",
    "ns",
    "iso",
    "iso local",
    "base64",
    "base64-url-safe",
    "hex",
    "unscaled",
    "scaled",
]


@dataclass(frozen=True)
class Encoding:
    """How values of a type are written. ``scale`` is that of unscaled decimals.

    ``parts`` are those of a struct's fields, in their order, or the one of a list's items. ``is_known`` is false where
    only nulls were seen.
    """

    how: How = "plain"
    scale: int = 0
    parts: tuple[Encoding, ...] = ()
    is_known: bool = True

    def holds(self, how: How) -> bool:
        """Returns whether this or a part of it is written so."""
        return self.how == how or any(part.holds(how) for part in self.parts)

    def completed(self, earlier: Encoding) -> Encoding:
        """Returns the same with what is unknown as it was ``earlier``, in values of the same type."""
        if not self.is_known:
            return earlier
        if self.how != "nested" or earlier.how != "nested":
            return self
        return nested(part.completed(before) for part, before in zip(self.parts, earlier.parts, strict=True))


#: Of values that are null, so any would do.
UNSEEN = Encoding(is_known=False)

_DATES = ("", "io.debezium.time.Date", "org.apache.kafka.connect.data.Date")
_UNITS: Mapping[str, How] = {
    "io.debezium.time.Timestamp": "ms",
    "org.apache.kafka.connect.data.Timestamp": "ms",
    "io.debezium.time.MicroTimestamp": "us",
    "io.debezium.time.NanoTimestamp": "ns",
}
_TEXTS: Mapping[str, How] = {
    "bytes": "base64",
    "base64": "base64",
    "base64-url-safe": "base64-url-safe",
    "hex": "hex",
}


class Encodings:
    """Finds how values are written: by a schema's types and names, or by the values and the options."""

    def __init__(self, options: OptionValues) -> None:
        self._unit: How | None = options["timestamp.unit"]
        self._decimals: str | None = options["decimal.handling.mode"]
        self._binary: str | None = options["binary.handling.mode"]
        self._prefix = f"{options['part']}.format."

    def of_value(self, type_: pa.DataType, value: Any, path: str = "") -> Encoding:
        """Returns the encoding of a parsed JSON value that no schema describes. Raises Misfit if nothing says what a
        value means.
        """
        if value is None:
            return UNSEEN if _needs_encoding(type_) else Encoding()
        if pa.types.is_struct(type_) and isinstance(value, dict):
            below = f"{path}." if path else ""
            return nested([self.of_value(one.type, value.get(one.name), f"{below}{one.name}") for one in type_])
        if pa.types.is_list(type_) and isinstance(value, list) and _needs_encoding(type_):
            found = {self.of_value(type_.value_type, item, f"{path}[]") for item in value} - {UNSEEN}
            if len(found) > 1:
                raise Misfit(f"field {path}: the items of {shown(value)} are written in different ways")
            return nested(found or {UNSEEN})
        return self.of_schema(type_, _kind(value), path, value=value)

    def of_schema(
        self, type_: pa.DataType, kind: Kind, path: str, name: str = "", scale: int | None = None, value: Any = None
    ) -> Encoding:
        """Returns the encoding of values that are neither structs nor lists. ``name`` is Debezium's of their meaning.

        ``value`` is one of them, where no schema describes them. Raises Misfit if they can't become ``type_``.
        """
        types = pa.types
        if kind == "null":
            return UNSEEN
        if types.is_date(type_):
            return self._date(kind, name, path)
        if types.is_timestamp(type_):
            return self._timestamp(type_, kind, name, path, value)
        if types.is_decimal(type_):
            return self._decimal(type_, kind, scale, path, value)
        if types.is_binary(type_):
            return self._bytes(kind, path)
        return Encoding("boolean") if is_text(type_) and kind == "boolean" else Encoding()

    def _date(self, kind: Kind, name: str, path: str) -> Encoding:
        if kind == "number" and name in _DATES:
            return Encoding("days")
        if kind == "text" and not name.endswith(("Time", "Timestamp")):
            return Encoding("iso date")
        raise Misfit(f"field {path}: {name or f'a {kind}'} is not a date")

    def _timestamp(self, type_: pa.DataType, kind: Kind, name: str, path: str, value: Any) -> Encoding:
        if kind == "text":
            is_local = type_.tz is None and name == "io.debezium.time.IsoTimestamp"
            return Encoding("iso local" if is_local else "iso")
        if kind == "number" and name in _UNITS:
            return Encoding(_UNITS[name])
        if kind == "number" and not name:
            if self._unit is None:
                what = "a number" if value is None else shown(value)
                raise Misfit(f"field {path}: nothing says which unit {what} has: set '{self._prefix}timestamp.unit'")
            return Encoding(self._unit)
        raise Misfit(f"field {path}: {name or f'a {kind}'} is not a timestamp")

    def _decimal(self, type_: pa.DataType, kind: Kind, scale: int | None, path: str, value: Any) -> Encoding:
        if kind == "object":
            return Encoding("scaled")
        if kind == "number":
            return Encoding("number")
        if kind == "bytes" or (kind == "text" and value is not None and self._decimals == "precise"):
            return Encoding("unscaled", type_.scale if scale is None else scale)
        if kind == "text" and (value is None or self._decimals == "string"):
            return Encoding()
        if kind == "text":
            option = f"set '{self._prefix}decimal.handling.mode' to precise or string"
            raise Misfit(f"field {path}: nothing says how the decimal {shown(value)} is written: {option}")
        raise Misfit(f"field {path}: a {kind} is not a decimal")

    def _bytes(self, kind: Kind, path: str) -> Encoding:
        if kind == "bytes":
            return Encoding("base64")
        if kind != "text":
            raise Misfit(f"field {path}: a {kind} is not binary")
        if self._binary is None:
            raise Misfit(
                f"field {path}: nothing says how bytes are written as text: set '{self._prefix}binary.handling.mode'"
            )
        return Encoding(_TEXTS[self._binary])


def _kind(value: Any) -> Kind:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "text"
    return "object" if isinstance(value, dict) else "list" if isinstance(value, list) else "number"


def nested(parts: Iterable[Encoding]) -> Encoding:
    """Returns the encoding of structs, or with one part of lists."""
    return Encoding("nested", parts=tuple(parts))


def undescribed(type_: pa.DataType) -> Encoding:
    """Returns the encoding of a field that a schema does not have: plain, or where that says too little, of nulls."""
    if pa.types.is_struct(type_):
        return nested(undescribed(field.type) for field in type_)
    return UNSEEN if _needs_encoding(type_) else Encoding()


def _needs_encoding(type_: pa.DataType) -> bool:
    """Returns whether values of the type are written in more than one way."""
    types = pa.types
    if types.is_list(type_):
        return _needs_encoding(type_.value_type)
    several = types.is_date(type_) or types.is_timestamp(type_) or types.is_decimal(type_) or types.is_binary(type_)
    return bool(several or types.is_struct(type_))


_RAW: Mapping[How, pa.DataType] = {
    "boolean": pa.bool_(),
    "days": pa.int32(),
    **dict.fromkeys(("ms", "us", "ns"), pa.int64()),
    "scaled": pa.struct([("scale", pa.int32()), ("value", pa.string())]),
}


def raw_type(encoding: Encoding, type_: pa.DataType) -> pa.DataType:
    """Returns the type that JSON is parsed as, before its values become ``type_``."""
    if encoding.how == "nested" and pa.types.is_struct(type_):
        parts = zip(type_, encoding.parts, strict=True)
        return pa.struct([(field.name, raw_type(part, field.type)) for field, part in parts])
    if encoding.how == "nested":
        return pa.list_(raw_type(encoding.parts[0], type_.value_type))
    if not encoding.is_known:
        return pa.null()  # anything else in it needs a closer look
    return type_ if encoding.how in ("plain", "number") else _RAW.get(encoding.how, pa.string())
