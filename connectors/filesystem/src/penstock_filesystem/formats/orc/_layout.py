"""What the tail of an ORC file says: its stripes, the types of its columns, and how its bytes are compressed.

Source: ORC Specification v1, "File Tail" and "Stripe Footer".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from penstock_filesystem.formats.orc._chunks import plain_bytes
from penstock_filesystem.formats.orc._protobuf import fields, varints
from penstock_filesystem.formats.orc._specification import (
    MAGIC,
    PROLEPTIC_GREGORIAN,
    WRITER_IN_CPP,
    AttributeFields,
    EncodingFields,
    Footer,
    Kind,
    Postscript,
    StreamFields,
    StreamKind,
    StripeFields,
    StripeFooter,
    TypeFields,
)

__all__ = ["Column", "OrcTail", "Stripe", "StripeStreams", "read_streams", "read_tail"]

#: Most files have a tail that is smaller.
_TAIL_BYTES = 16 << 10
_MOST_DIGITS = 38
#: Bytes that are read for nothing rather than that a store is asked once more.
_GAP_BYTES = 64 << 10
_DEFAULT_BLOCK_BYTES = 256 << 10
_MOST_BLOCK_BYTES = 1 << 23
_DEEPEST = 64


@dataclass(frozen=True)
class Column:
    """A column in the file's tree of types. ``kind`` is a :class:`Kind`, or a number that is not known here.

    ``number`` is that of its streams. ``attributes`` are what the writer noted about the type. ``digits`` are the
    precision and the scale of a decimal.
    """

    number: int
    kind: int
    names: tuple[str, ...]
    children: tuple[Column, ...]
    attributes: dict[str, str]
    digits: tuple[int, int]


@dataclass(frozen=True)
class Stripe:
    """Rows that follow each other. Its bytes are indexes, then data, then its footer."""

    offset: int
    index_length: int
    data_length: int
    footer_length: int
    rows: int


@dataclass(frozen=True)
class OrcTail:
    """The tail of a file. ``codec`` and ``block_bytes`` say how its bytes are compressed.

    ``is_proleptic`` says whether days before 1582-10-15 are counted by the Gregorian calendar.
    """

    codec: int
    block_bytes: int
    root: Column
    stripes: tuple[Stripe, ...]
    is_proleptic: bool


class StripeStreams:
    """The streams of some columns of a stripe, without compression. ``zone`` is that of the writer's clocks."""

    def __init__(
        self, zone: str, encodings: list[dict[int, int]], stored: dict[tuple[int, int], bytes], tail: OrcTail
    ) -> None:
        self.zone = zone
        self._encodings = encodings
        self._stored = stored
        self._tail = tail

    def get(self, column: int, kind: int) -> bytes | None:
        """Returns the stream of that kind, ``None`` if the column has none. Raises ValueError or OSError."""
        stored = self._stored.get((column, kind))
        return None if stored is None else plain_bytes(stored, self._tail.codec, self._tail.block_bytes)

    def encoding(self, column: int) -> int:
        """Returns the number that the specification gives to how a column is encoded."""
        return self._encodings[column].get(EncodingFields.KIND, 0)

    def words(self, column: int) -> int:
        """Returns how many words the dictionary of a column has."""
        return self._encodings[column].get(EncodingFields.WORDS, 0)


def read_tail(source: Any) -> OrcTail:
    """Reads the tail of an open file. Raises ValueError or OSError for one that is no ORC file, or is damaged."""
    size = source.size()
    source.seek(max(0, size - _TAIL_BYTES))
    data = bytes(source.read(_TAIL_BYTES))
    length = data[-1] if data else 0
    postscript = data[-1 - length : -1]
    if not length or len(postscript) < length or MAGIC not in postscript:
        raise ValueError("it does not end as an ORC file does")
    head = _numbers(postscript)
    codec, block_bytes = head.get(Postscript.COMPRESSION, 0), head.get(Postscript.BLOCK_SIZE, _DEFAULT_BLOCK_BYTES)
    footer_length = head.get(Postscript.FOOTER_LENGTH, 0)
    footer_offset = size - 1 - length - footer_length
    if footer_offset < 0 or not 0 < block_bytes <= _MOST_BLOCK_BYTES:
        raise ValueError(f"its last bytes are damaged: a footer of {footer_length} bytes, blocks of {block_bytes}")
    source.seek(footer_offset)
    footer = plain_bytes(bytes(source.read(footer_length)), codec, block_bytes)
    numbers = _numbers(footer)
    calendar, writer = numbers.get(Footer.CALENDAR, 0), numbers.get(Footer.WRITER, 0)
    types = _messages(footer, Footer.TYPES)
    if not types:
        raise ValueError("its footer has no types")
    return OrcTail(
        codec=codec,
        block_bytes=block_bytes,
        root=_column(types, 0, 0),
        stripes=tuple(_stripe(message, footer_offset) for message in _messages(footer, Footer.STRIPES)),
        # The library in C++ knows one calendar, and does not note it.
        is_proleptic=calendar == PROLEPTIC_GREGORIAN or (calendar == 0 and writer == WRITER_IN_CPP),
    )


def read_streams(source: Any, tail: OrcTail, stripe: Stripe, columns: Collection[int]) -> StripeStreams:
    """Reads the data of ``columns`` in a stripe of an open file. Raises ValueError or OSError for damaged bytes."""
    end = stripe.offset + stripe.index_length + stripe.data_length
    footer = plain_bytes(_bytes(source, end, stripe.footer_length), tail.codec, tail.block_bytes)
    zone = next(iter(_messages(footer, StripeFooter.ZONE)), b"")
    encodings = [_numbers(message) for message in _messages(footer, StripeFooter.ENCODINGS)]
    if any(column >= len(encodings) for column in columns):
        raise ValueError("a stripe has fewer columns than the file")
    wanted: list[tuple[int, int, int, int]] = []
    offset = stripe.offset
    for stream in map(_numbers, _messages(footer, StripeFooter.STREAMS)):
        kind, column = stream.get(StreamFields.KIND, 0), stream.get(StreamFields.COLUMN, 0)
        length = stream.get(StreamFields.LENGTH, 0)
        if length > end - offset:
            raise ValueError(f"a stream of {length} bytes where {end - offset} are left")
        if column in columns and kind <= max(StreamKind):
            wanted.append((offset, length, column, kind))
        offset += length
    return StripeStreams(_text(zone), encodings, dict(_read(source, wanted)), tail)


def _read(source: Any, wanted: list[tuple[int, int, int, int]]) -> Iterator[tuple[tuple[int, int], bytes]]:
    """Yields column and kind, and the bytes. Streams that are close to each other are read at once: it is a request."""
    group: list[tuple[int, int, int, int]] = []
    for one in [*wanted, None]:
        if group and (one is None or one[0] - sum(group[-1][:2]) > _GAP_BYTES):
            first = group[0][0]
            data = _bytes(source, first, sum(group[-1][:2]) - first)
            for offset, length, column, kind in group:
                yield (column, kind), data[offset - first : offset - first + length]
            group = []
        if one is not None:
            group.append(one)


def _bytes(source: Any, offset: int, length: int) -> bytes:
    source.seek(offset)
    data = bytes(source.read(length))
    if len(data) < length:
        raise ValueError(f"it ends after {offset + len(data)} bytes, inside of a stripe")
    return data


def _numbers(message: bytes) -> dict[int, int]:
    return {number: value for number, value in fields(message) if isinstance(value, int)}


def _messages(message: bytes, number: int) -> list[bytes]:
    return [value for field, value in fields(message) if field == number and isinstance(value, bytes)]


def _stripe(message: bytes, end: int) -> Stripe:
    numbers = _numbers(message)
    stripe = Stripe(*(numbers.get(name, 0) for name in StripeFields))
    if stripe.offset + stripe.index_length + stripe.data_length + stripe.footer_length > end:
        raise ValueError(f"a stripe ends behind the data of the file: {stripe}")
    return stripe


def _column(types: list[bytes], number: int, depth: int) -> Column:
    if depth > _DEEPEST or number >= len(types):
        raise ValueError(f"its tree of types is damaged, at column {number}")
    numbers = _numbers(types[number])
    children: list[int] = []
    for field, value in fields(types[number]):
        if field == TypeFields.SUBTYPES:
            children += [value] if isinstance(value, int) else varints(value)
    if any(child <= number for child in children):
        raise ValueError(f"its tree of types is damaged: column {number} holds {children}")
    column = Column(
        number,
        numbers.get(TypeFields.KIND, 0),
        tuple(_text(name) for name in _messages(types[number], TypeFields.NAMES)),
        tuple(_column(types, child, depth + 1) for child in children),
        dict(map(_attribute, _messages(types[number], TypeFields.ATTRIBUTES))),
        (numbers.get(TypeFields.PRECISION, 0), numbers.get(TypeFields.SCALE, 0)),
    )
    _check(column)
    return column


def _check(column: Column) -> None:
    counts: dict[int, int] = {Kind.LIST: 1, Kind.MAP: 2, Kind.STRUCT: len(column.names)}
    precision, scale = column.digits
    if column.kind in counts and len(column.children) != counts[column.kind]:
        raise ValueError(f"column {column.number} of kind {column.kind} holds {len(column.children)} others")
    if column.kind == Kind.DECIMAL and not 0 <= scale <= precision <= _MOST_DIGITS:
        raise ValueError(f"column {column.number} has {precision} digits, {scale} of them behind the point")


def _attribute(message: bytes) -> tuple[str, str]:
    pair = {number: _text(value) for number, value in fields(message) if isinstance(value, bytes)}
    return pair.get(AttributeFields.KEY, ""), pair.get(AttributeFields.VALUE, "")


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
