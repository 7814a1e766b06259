"""Splits, and how far a stream is: what is stored in Spark's checkpoint."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.serialization import JsonSerializer

__all__ = ["SPLIT_SERIALIZER", "STATE_SERIALIZER", "LinesSplit"]


@dataclass(frozen=True)
class LinesSplit:
    """The lines from byte ``start`` to byte ``end``, which is after the end of a line."""

    start: int
    end: int

    @property
    def split_id(self) -> str:
        return str(self.start)

    @property
    def size_bytes(self) -> int:
        return self.end - self.start

    @property
    def group(self) -> str:
        return self.split_id


SPLIT_SERIALIZER = JsonSerializer(
    1, lambda split: [split.start, split.end], lambda version, fields: LinesSplit(*fields)
)
#: The state is the byte that is handed out next.
STATE_SERIALIZER = JsonSerializer(1, lambda position: position, lambda version, fields: int(fields))
