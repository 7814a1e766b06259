"""Event time: which time a record has, what its split's watermark is, and how far splits may be apart.

Spark has one watermark for a query, from the latest event time seen anywhere. A source that knows how far splits may
drift apart chooses the end of each micro-batch so that none runs ahead of the slowest by more: then no row is late only
because another split was read first. The notions are those of Apache Flink's sources (watermark alignment, idleness).
"""

from penstock.source.event_time._assigners import ColumnTimestamps, TimestampAssigner
from penstock.source.event_time._idle import IdleTracker, describe_alignment
from penstock.source.event_time._settings import EventTimeSettings, event_time_options
from penstock.source.event_time._strategies import BoundedOutOfOrderness, Monotonic, Punctuated, WatermarkStrategy

__all__ = [
    "BoundedOutOfOrderness",
    "ColumnTimestamps",
    "EventTimeSettings",
    "IdleTracker",
    "Monotonic",
    "Punctuated",
    "TimestampAssigner",
    "WatermarkStrategy",
    "describe_alignment",
    "event_time_options",
]
