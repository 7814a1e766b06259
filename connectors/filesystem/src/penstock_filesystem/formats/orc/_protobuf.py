"""Just enough of protocol buffers' wire format for the tail of an ORC file: the fields of a message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

__all__ = ["Field", "encoded", "fields", "packed", "varint", "varints"]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
#: A number of 64 bits has ten groups of seven bits at most.
_LAST_SHIFT = 63
_FIXED_SIZES = {_FIXED64: 8, _FIXED32: 4}

#: The number of a field, and its value: a number, or bytes (texts, messages, packed numbers, fixed sizes).
Field = tuple[int, "int | bytes"]


def fields(data: bytes) -> Iterator[Field]:
    """Yields the fields of a message in order. Raises ValueError for bytes that are none."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = varint(data, at)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            size, at = varint(data, at)
        elif kind in _FIXED_SIZES:
            size = _FIXED_SIZES[kind]
        else:
            raise ValueError(f"its metadata has a field of kind {kind}")
        if size > len(data) - at:
            raise ValueError(f"its metadata has a field of {size} bytes, and {len(data) - at} bytes left")
        yield key >> 3, data[at : at + size]
        at += size


def varints(data: bytes) -> list[int]:
    """Returns the numbers of a packed field. Raises ValueError."""
    found, at = [], 0
    while at < len(data):
        value, at = varint(data, at)
        found.append(value)
    return found


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Returns the number of up to 64 bits that begins at ``at``, without a sign, and where it ends.

    ORC's runs hold such numbers, too. Raises ValueError.
    """
    value = shift = 0
    while shift <= _LAST_SHIFT:
        if at >= len(data):
            raise ValueError("a number is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("a number does not end")


def encoded(*message: Field) -> bytes:
    """Returns the bytes of a message: its fields in order."""
    return b"".join(_encoded(number, value) for number, value in message)


def packed(numbers: Iterable[int]) -> bytes:
    """Returns the value of a field that has several numbers."""
    return b"".join(map(_encoded_varint, numbers))


def _encoded(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _encoded_varint(number << 3 | _VARINT) + _encoded_varint(value)
    return _encoded_varint(number << 3 | _BYTES) + _encoded_varint(len(value)) + value


def _encoded_varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
