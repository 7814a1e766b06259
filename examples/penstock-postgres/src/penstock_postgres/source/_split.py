"""A range of keys at a moment, and how far a stream is: what is stored in Spark's checkpoint."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.serialization import JsonSerializer

__all__ = ["SPLIT_SERIALIZER", "STATE_SERIALIZER", "Position", "PostgresSplit"]

Key = int | str


@dataclass(frozen=True)
class PostgresSplit:
    """The rows above ``after``, up to ``last``, as they were at ``snapshot``: how many, and their checksum.

    ``first`` is how many rows stand before them.
    """

    snapshot: str
    after: Key | None
    last: Key
    first: int
    rows: int
    checksum: int

    @property
    def split_id(self) -> str:
        return str(self.first)

    @property
    def size_bytes(self) -> int:
        return 100 * self.rows  # a guess

    @property
    def group(self) -> str:
        return self.split_id


@dataclass(frozen=True)
class Position:
    """What is left: the keys above ``after``, up to ``end``. Bounded in size; with it, the ranges can be cut anew."""

    snapshot: str
    after: Key | None
    end: Key | None
    first: int
    rows: int
    checksum: int


SPLIT_SERIALIZER = JsonSerializer(
    1,
    lambda s: [s.snapshot, s.after, s.last, s.first, s.rows, s.checksum],
    lambda version, fields: PostgresSplit(*fields),
)
STATE_SERIALIZER = JsonSerializer(
    1,
    lambda p: [p.snapshot, p.after, p.end, p.first, p.rows, p.checksum],
    lambda version, fields: Position(*fields),
)
