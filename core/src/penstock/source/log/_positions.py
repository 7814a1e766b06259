"""Partitions, and where reading them starts and stops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "EARLIEST_OFFSET",
    "LATEST_OFFSET",
    "Earliest",
    "GroupOffsets",
    "Latest",
    "LogPartition",
    "SpecificOffsets",
    "StartPosition",
    "StopPosition",
    "Timestamp",
    "TimestampsByPartition",
]

#: In :class:`SpecificOffsets`, what stands for the ends of a partition, as Spark and Kafka write them.
EARLIEST_OFFSET = -2
LATEST_OFFSET = -1


@dataclass(frozen=True, order=True)
class LogPartition:
    """One partition of one stream (a topic's partition). Its text is that of Kafka's tools: ``topic-0``."""

    stream: str
    partition: int

    def __str__(self) -> str:
        return f"{self.stream}-{self.partition}"


@dataclass(frozen=True)
class Earliest:
    """The first record that is there."""


@dataclass(frozen=True)
class Latest:
    """Behind the last record that is there at the time of looking."""


@dataclass(frozen=True)
class GroupOffsets:
    """What the consumer group ``group`` has committed; ``fallback`` for partitions in which it has not."""

    group: str
    fallback: Literal["earliest", "latest", "error"] = "error"


@dataclass(frozen=True)
class Timestamp:
    """The first record at or after a time (ms since the epoch) in every partition; ``if_none`` where there is none."""

    timestamp_ms: int
    if_none: Literal["error", "latest"] = "latest"


@dataclass(frozen=True)
class TimestampsByPartition:
    """As :class:`Timestamp`, for each partition its own. Every partition that is read must be named."""

    timestamps_ms: Mapping[LogPartition, int] = field(hash=False)
    if_none: Literal["error", "latest"] = "latest"


@dataclass(frozen=True)
class SpecificOffsets:
    """Offsets by partition, each 0 or more, :data:`EARLIEST_OFFSET` or :data:`LATEST_OFFSET`.

    ``streams`` holds one of the two constants for all partitions of a stream. Every partition that is read must be
    named in one of the two.
    """

    offsets: Mapping[LogPartition, int] = field(hash=False)
    streams: Mapping[str, int] = field(default_factory=dict, hash=False)

    def of(self, partition: LogPartition) -> int | None:
        """Returns the offset for ``partition``; ``None`` if it is not named."""
        return self.offsets.get(partition, self.streams.get(partition.stream))


#: Where a stream may start, and where it may stop.
StartPosition = Earliest | Latest | GroupOffsets | Timestamp | TimestampsByPartition | SpecificOffsets
StopPosition = Latest | Timestamp | TimestampsByPartition | SpecificOffsets
