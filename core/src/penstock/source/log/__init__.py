"""The template for logs: partitions with records at growing positions."""

from penstock.source.log._contracts import LogClient, LogOptions, LogPartition, LogSplit, LogState
from penstock.source.log._log_source import LogSource
from penstock.source.log._serializers import SPLIT_SERIALIZER, STATE_SERIALIZER, positions_by_stream
from penstock.source.log.positions import (
    EARLIEST,
    EARLIEST_OFFSET,
    LATEST,
    LATEST_OFFSET,
    AtTimestamp,
    Committed,
    Earliest,
    Latest,
    Position,
    SpecificOffsets,
)

__all__ = [
    "EARLIEST",
    "EARLIEST_OFFSET",
    "LATEST",
    "LATEST_OFFSET",
    "SPLIT_SERIALIZER",
    "STATE_SERIALIZER",
    "AtTimestamp",
    "Committed",
    "Earliest",
    "Latest",
    "LogClient",
    "LogOptions",
    "LogPartition",
    "LogSource",
    "LogSplit",
    "LogState",
    "Position",
    "SpecificOffsets",
    "positions_by_stream",
]
