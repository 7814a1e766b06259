"""Where reading a log starts and stops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "EARLIEST",
    "EARLIEST_OFFSET",
    "LATEST",
    "LATEST_OFFSET",
    "AtTimestamp",
    "Committed",
    "Earliest",
    "Latest",
    "Position",
    "SpecificOffsets",
]

#: In :class:`SpecificOffsets`, the offsets that stand for the ends of a partition, as Spark and Kafka write them.
LATEST_OFFSET, EARLIEST_OFFSET = -1, -2


@dataclass(frozen=True)
class Earliest:
    """The first record that is there."""


@dataclass(frozen=True)
class Latest:
    """Behind the last record that is there."""


EARLIEST, LATEST = Earliest(), Latest()


@dataclass(frozen=True)
class Committed:
    """What a consumer group committed; ``fallback`` where it committed nothing."""

    fallback: Literal["earliest", "latest", "error"] = "error"


@dataclass(frozen=True)
class AtTimestamp:
    """The first record at or after a time (ms since the epoch).

    ``timestamp_ms`` is for every partition, or ``by_partition`` names each as ``(stream, partition)``. Where no record
    is that young: an error, or ``latest``.
    """

    timestamp_ms: int | None = None
    by_partition: Mapping[tuple[str, int], int] = field(default_factory=dict)
    on_missing: Literal["error", "latest"] = "error"

    def of(self, stream: str, partition: int) -> int | None:
        """The time for one partition; ``None`` if it is not named."""
        return self.by_partition.get((stream, partition), self.timestamp_ms)


@dataclass(frozen=True)
class SpecificOffsets:
    """An offset for each ``(stream, partition)``; -2 is the earliest, -1 the latest."""

    offsets: Mapping[tuple[str, int], int]


Position = Earliest | Latest | Committed | AtTimestamp | SpecificOffsets
