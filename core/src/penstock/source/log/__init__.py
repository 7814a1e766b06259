"""The template for logs: partitions with records at growing positions."""

from penstock.source.log._contracts import LogClient, LogOptions, LogSplit, LogState
from penstock.source.log._first_answer import FirstAnswer
from penstock.source.log._log_source import LogSource
from penstock.source.log._losses import LossPolicy
from penstock.source.log._positions import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    Earliest,
    GroupOffsets,
    Latest,
    LogPartition,
    SpecificOffsets,
    StartPosition,
    StopPosition,
    Timestamp,
    TimestampsByPartition,
)
from penstock.source.log._serializers import SPLIT_SERIALIZER, STATE_SERIALIZER, positions_by_stream

__all__ = [
    "EARLIEST_OFFSET",
    "LATEST_OFFSET",
    "SPLIT_SERIALIZER",
    "STATE_SERIALIZER",
    "Earliest",
    "FirstAnswer",
    "GroupOffsets",
    "Latest",
    "LogClient",
    "LogOptions",
    "LogPartition",
    "LogSource",
    "LogSplit",
    "LogState",
    "LossPolicy",
    "SpecificOffsets",
    "StartPosition",
    "StopPosition",
    "Timestamp",
    "TimestampsByPartition",
    "positions_by_stream",
]
