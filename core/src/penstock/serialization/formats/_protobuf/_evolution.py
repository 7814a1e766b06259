"""Whether messages that were written with one schema are read right with another."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import FieldDescriptor as Field

from penstock.serialization.formats._protobuf._columns import is_repeated

__all__ = ["why_unreadable"]

_INTEGERS = {
    Field.TYPE_BOOL: (0, 1),
    Field.TYPE_ENUM: (-(2**31), 2**31 - 1),
    Field.TYPE_INT32: (-(2**31), 2**31 - 1),
    Field.TYPE_INT64: (-(2**63), 2**63 - 1),
    Field.TYPE_UINT32: (0, 2**32 - 1),
    Field.TYPE_UINT64: (0, 2**64 - 1),
}
_ZIGZAG = {Field.TYPE_SINT32: 32, Field.TYPE_SINT64: 64}
_TEXTS = (Field.TYPE_STRING, Field.TYPE_BYTES)


def why_unreadable(writer: Any, reader: Any) -> str | None:
    """Returns which field of ``writer``'s messages would be lost or become another value in ``reader``'s, and why.

    Both are descriptors of messages. ``None`` if all that both have is read right: fields are the same by their
    numbers, and those that only one has are left out, or not set.
    """
    return _why(writer, reader, set(), "")


def _why(writer: Any, reader: Any, seen: set[tuple[str, str]], path: str) -> str | None:
    if (writer.full_name, reader.full_name) in seen:
        return None
    seen.add((writer.full_name, reader.full_name))
    for one in reader.fields:
        other = writer.fields_by_number.get(one.number)
        if other is None:
            continue
        where = f"{path}{one.name}"
        if is_repeated(other) and not is_repeated(one):
            return f"'{where}' was a list"
        if one.message_type is not None and other.message_type is not None and one.type == other.type:
            found = _why(other.message_type, one.message_type, seen, f"{where}.")
            if found is not None:
                return found
        elif not _keeps_values(other.type, one.type):
            return f"'{where}' (number {one.number}) was of another type"
    return None


def _keeps_values(writer: int, reader: int) -> bool:
    if writer == reader or (writer in _TEXTS and reader in _TEXTS):
        return True
    if writer in _INTEGERS and reader in _INTEGERS:
        return _INTEGERS[reader][0] <= _INTEGERS[writer][0] and _INTEGERS[writer][1] <= _INTEGERS[reader][1]
    return writer in _ZIGZAG and reader in _ZIGZAG and _ZIGZAG[writer] <= _ZIGZAG[reader]
