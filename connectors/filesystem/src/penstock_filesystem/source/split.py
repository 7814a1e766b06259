"""A piece of a file, and its stored form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.serialization import JsonSerializer

__all__ = ["SPLIT_SERIALIZER", "FileSplit", "split_from_fields", "split_to_fields"]


@dataclass(frozen=True)
class FileSplit:
    """``length`` bytes of a file from ``start``, with the size and time the file had when it was planned.

    What belongs to a range: the rows that start in it (line formats), the row groups whose first byte is in it
    (Parquet); other files are one range. ``mtime_ns`` is nanoseconds since 1970 UTC.
    """

    path: str
    mtime_ns: int
    size: int
    start: int
    length: int

    @property
    def split_id(self) -> str:
        """Path and range."""
        return f"{self.path}:{self.start}+{self.length}"

    @property
    def size_bytes(self) -> int:
        """Bytes of the range."""
        return self.length

    @property
    def group(self) -> str:
        """The path: limits count files."""
        return self.path

    @property
    def end(self) -> int:
        """First byte after the range."""
        return self.start + self.length

    @property
    def is_last(self) -> bool:
        """Whether the range reaches the end of the file."""
        return self.end >= self.size


def split_to_fields(split: FileSplit) -> list[Any]:
    """JSON fields of a split."""
    return [split.path, split.mtime_ns, split.size, split.start, split.length]


def split_from_fields(fields: list[Any]) -> FileSplit:
    """The inverse of :func:`split_to_fields`."""
    path, mtime_ns, size, start, length = fields
    return FileSplit(str(path), int(mtime_ns), int(size), int(start), int(length))


#: ``[path, mtime_ns, size, start, length]``
SPLIT_SERIALIZER: JsonSerializer[FileSplit] = JsonSerializer(
    1, split_to_fields, lambda version, fields: split_from_fields(fields)
)
