"""Where the row groups of a Parquet file begin, out of its footer (Thrift's compact protocol).

pyarrow has the numbers, too. But to ask it for a column of a damaged footer may end the process: an exception of C++
that it does not catch.
"""

from __future__ import annotations

import struct
from typing import Any

__all__ = ["first_bytes", "footer_of"]

_MAGIC = b"PAR1"
#: Kinds of values.
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
#: Fields: row groups of a file, columns of a row group, metadata of a column, and where its pages begin.
_ROW_GROUPS, _COLUMNS, _METADATA, _DATA_PAGE, _DICTIONARY_PAGE = 4, 1, 3, 9, 11
_DEEPEST = 32


def footer_of(source: Any) -> bytes:
    """Returns the footer of an open file. Raises ValueError for a file that has none."""
    size = source.size()
    source.seek(max(0, size - 8))
    tail = bytes(source.read(8))
    (length,) = struct.unpack("<I", tail[:4]) if len(tail) == 8 else (0,)
    if tail[4:] != _MAGIC or not 0 < length <= size - 12:
        raise ValueError("it has no footer of Parquet")
    source.seek(size - 8 - length)
    return bytes(source.read(length))


def first_bytes(footer: bytes) -> list[int]:
    """Returns the first byte of each row group, of its pages and dictionaries. Raises ValueError."""
    try:
        return _Footer(footer).first_bytes()
    except IndexError:
        raise ValueError("its footer is cut off") from None


class _Footer:
    """Reads from ``_at`` on."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def first_bytes(self) -> list[int]:
        found: list[int] = []
        field = 0
        while (field_kind := self._field(field)) is not None:
            field, kind = field_kind
            if field == _ROW_GROUPS and kind == _LIST:
                found += [self._row_group() for _ in range(self._structs())]
            else:
                self._skip(kind, 0)
        return found

    def _row_group(self) -> int:
        starts: list[int] = []
        field = 0
        while (field_kind := self._field(field)) is not None:
            field, kind = field_kind
            if field == _COLUMNS and kind == _LIST:
                for _ in range(self._structs()):
                    starts += self._column()
            else:
                self._skip(kind, 0)
        return min(starts, default=0)

    def _column(self) -> list[int]:
        starts: list[int] = []
        field = 0
        while (field_kind := self._field(field)) is not None:
            field, kind = field_kind
            if field == _METADATA and kind == _STRUCT:
                starts += self._pages()
            else:
                self._skip(kind, 0)
        return starts

    def _pages(self) -> list[int]:
        starts: list[int] = []
        field = 0
        while (field_kind := self._field(field)) is not None:
            field, kind = field_kind
            if field in (_DATA_PAGE, _DICTIONARY_PAGE) and kind == _I64:
                start = self._number()
                # Writers without a dictionary may write 0 for it.
                if start or field == _DATA_PAGE:
                    starts.append(start)
            else:
                self._skip(kind, 0)
        return starts

    # --- values -------------------------------------------------------------------------------------------------------

    def _field(self, before: int) -> tuple[int, int] | None:
        """Returns the number and the kind of the next field; ``None`` at the end of the struct."""
        head = self._byte()
        if head == 0:
            return None
        number = before + (head >> 4) if head >> 4 else self._number()
        return number, head & 0x0F

    def _structs(self) -> int:
        """Returns the length of a list, which must be of structs: each takes a byte at least."""
        count, kind = self._list_head()
        if kind != _STRUCT:
            raise ValueError(f"its footer has a list of kind {kind} for one of structs")
        return count

    def _list_head(self) -> tuple[int, int]:
        head = self._byte()
        count = head >> 4 if head >> 4 != 15 else self._unsigned()
        if count > len(self._data) - self._at:
            raise ValueError(f"its footer has a list of {count} values, and {len(self._data) - self._at} bytes left")
        return count, head & 0x0F

    def _byte(self) -> int:
        value = self._data[self._at]
        self._at += 1
        return value

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("its footer has a number that does not end")

    def _number(self) -> int:
        value = self._unsigned()
        return value >> 1 ^ -(value & 1)

    def _skip(self, kind: int, depth: int) -> None:
        if depth > _DEEPEST:
            raise ValueError("its footer is nested too deeply")
        if kind in (_TRUE, _FALSE):
            return
        if kind in (_I16, _I32, _I64):
            self._unsigned()
        elif kind == _BYTE:
            self._at += 1
        elif kind == _DOUBLE:
            self._at += 8
        elif kind == _BINARY:
            length = self._unsigned()
            self._at += length
        elif kind in (_LIST, _SET):
            count, inner = self._list_head()
            for _ in range(count):
                self._skip(_BYTE if inner in (_TRUE, _FALSE) else inner, depth + 1)
        elif kind == _STRUCT:
            field = 0
            while (field_kind := self._field(field)) is not None:
                field = field_kind[0]
                self._skip(field_kind[1], depth + 1)
        else:  # there is no map in a footer
            raise ValueError(f"its footer has a value of kind {kind}")
