"""Arrow columns as text, without a loop over rows: the values of CSV and JSON."""

from __future__ import annotations

import struct

import pyarrow as pa
import pyarrow.compute as pc

from penstock.serialization.values._time_writer import TimeWriter

__all__ = ["ValueText", "concatenated", "holds_any", "is_plain", "is_text"]


def is_plain(kind: pa.DataType) -> bool:
    """Returns whether :class:`ValueText` writes the type: booleans, numbers, dates, timestamps, strings."""
    types = pa.types
    numbers = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_boolean(kind)
    times = types.is_date(kind) or types.is_timestamp(kind)
    return bool(numbers or times or is_text(kind))


def is_text(kind: pa.DataType) -> bool:
    """Returns whether it is one of Arrow's string types."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def concatenated(text: pa.Array) -> memoryview:
    """Returns the bytes of all strings after each other: a view of the array's own buffer, not a copy."""
    _, offsets, data = text.buffers()
    if data is None:
        return memoryview(b"")
    (start,) = struct.unpack_from("=i", offsets, 4 * text.offset)
    (end,) = struct.unpack_from("=i", offsets, 4 * (text.offset + len(text)))
    return memoryview(data)[start:end]


def holds_any(text: pa.Array, characters: bytes) -> bool:
    """Returns whether one of the ASCII ``characters`` may be in the strings; several times as fast as a regular
    expression.
    """
    data = bytes(concatenated(text))
    return len(data.translate(None, characters)) != len(data)


class ValueText:
    """Writes values as Spark's CSV and JSON writers do, except for timestamps: in UTC, and with their microseconds.

    ``timestamp`` writes those with a zone, ``ntz`` those without; ISO texts stand for what has no writer.
    """

    def __init__(
        self, timestamp: TimeWriter | None = None, date: TimeWriter | None = None, ntz: TimeWriter | None = None
    ) -> None:
        self._timestamp = timestamp
        self._date = date
        self._ntz = ntz

    def __call__(self, values: pa.Array) -> pa.Array:
        """Strings; null stays null. The type must be plain (:func:`is_plain`)."""
        kind = values.type
        if pa.types.is_floating(kind):
            return _floats(values)
        if pa.types.is_timestamp(kind):
            return self._timestamps(values)
        if pa.types.is_date(kind) and self._date:
            return self._date.write(values)
        return values.cast(pa.string())

    def _timestamps(self, values: pa.Array) -> pa.Array:
        zone = values.type.tz
        if zone:
            values = values.cast(pa.timestamp(values.type.unit, "UTC"))
        writer = self._timestamp if zone else self._ntz
        if writer:
            return writer.write(values)
        # Casting takes a thirtieth of the time that strftime takes.
        micros = values.cast(pa.timestamp("us", zone and "UTC"), safe=values.type.unit != "ns")
        text = pc.replace_substring(micros.cast(pa.timestamp("us")).cast(pa.string()), " ", "T", max_replacements=1)
        return pc.binary_join_element_wise(text, "Z", "") if zone else text


def _floats(values: pa.Array) -> pa.Array:
    if pa.types.is_float16(values.type):
        values = values.cast(pa.float32())  # Arrow's functions take no smaller ones
    text = values.cast(pa.string())
    if pc.any(pc.equal(pc.trunc(values), values)).as_py():
        # 100 → 100.0, so that schema inference sees a fraction.
        text = pc.replace_substring_regex(text, r"^(-?\d+)$", r"\1.0")
    if pc.all(pc.is_finite(values)).as_py() is False:
        infinite = pc.if_else(pc.greater(values, 0), "Infinity", "-Infinity")
        text = pc.if_else(pc.is_nan(values), "NaN", pc.if_else(pc.is_inf(values), infinite, text))
    return text
