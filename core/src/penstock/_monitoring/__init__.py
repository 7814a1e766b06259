"""Metrics of queries: one table of what there is, where the numbers are kept, and two ways out.

Nothing here knows Spark; :mod:`penstock.spark` feeds it.
"""

from penstock._monitoring._counters import NOTICEABLE, Counted, counted
from penstock._monitoring._decisions import DecisionReader, Decisions, count_open
from penstock._monitoring._definitions import METRICS, Kind, Metric
from penstock._monitoring._meter import QueryMeter
from penstock._monitoring._opentelemetry import observe
from penstock._monitoring._progress import SourceProgress, is_batch, source_progress
from penstock._monitoring._prometheus import MetricsServer
from penstock._monitoring._registry import MOST_ENDED, MOST_PARTITIONS, RETENTION_S, Registry, Sample

__all__ = [
    "METRICS",
    "MOST_ENDED",
    "MOST_PARTITIONS",
    "NOTICEABLE",
    "RETENTION_S",
    "Counted",
    "DecisionReader",
    "Decisions",
    "Kind",
    "Metric",
    "MetricsServer",
    "QueryMeter",
    "Registry",
    "Sample",
    "SourceProgress",
    "count_open",
    "counted",
    "is_batch",
    "observe",
    "source_progress",
]
