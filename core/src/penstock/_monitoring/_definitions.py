"""Every metric: its name, unit, labels and meaning. Exports, the board, the alerts and the docs follow this table."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["METRICS", "Kind", "Metric"]


class Kind(str, Enum):
    """How a metric's values behave."""

    COUNTER = "counter"  #: only grows, from 0 when the driver's process begins to count
    GAUGE = "gauge"  #: what is so now


#: What Prometheus appends to a name, by OpenTelemetry's unit. A unit in braces counts things; the name says which.
_SUFFIXES = {"s": "_seconds", "By": "_bytes"}


@dataclass(frozen=True)
class Metric:
    """One metric. ``name`` has no unit, which is OpenTelemetry's: ``s``, ``By``, or a word in braces."""

    name: str
    kind: Kind
    unit: str
    labels: tuple[str, ...]
    help: str

    @property
    def otel_name(self) -> str:
        """The name of its OpenTelemetry instrument."""
        return f"penstock.{self.name}"

    @property
    def prometheus_name(self) -> str:
        """Its name in Prometheus: what OpenTelemetry's translation makes of the other name and the unit."""
        total = "_total" if self.kind is Kind.COUNTER else ""
        return f"penstock_{self.name.replace('.', '_')}{_SUFFIXES.get(self.unit, '')}{total}"


def _counter(name: str, unit: str, labels: str, text: str) -> Metric:
    return Metric(name, Kind.COUNTER, unit, tuple(labels.split()), text)


def _gauge(name: str, unit: str, labels: str, text: str) -> Metric:
    return Metric(name, Kind.GAUGE, unit, tuple(labels.split()), text)


_ALL = (
    # Queries.
    _counter("queries.started", "{query}", "", "Queries that have started."),
    _counter("queries.failed", "{query}", "", "Queries that have ended with an error."),
    _gauge("query.info", "{query}", "query id run", "Always 1; the ids that Spark gave the query and its run."),
    _gauge("query.running", "{query}", "query", "1 while the query runs, 0 once it has ended."),
    _gauge(
        "query.last_sign.timestamp",
        "s",
        "query",
        "When Spark last reported the query's start, a batch, or that it is idle; seconds since 1970.",
    ),
    _gauge("query.watermark.timestamp", "s", "query", "The query's watermark; seconds since 1970."),
    _counter("batches", "{batch}", "query", "Batches that have ended."),
    _counter("batch.time", "s", "query", "Time that batches took, all of them together."),
    _counter("batch.phase.time", "s", "query phase", "The same by phase, as Spark names it (addBatch commits, too)."),
    _gauge("batch.last", "s", "query", "How long the last batch took."),
    # Sources.
    _counter("source.rows", "{row}", "query source", "Rows that batches have read; again if a batch is run again."),
    _gauge("source.lag.records", "{record}", "query source", "Records that wait at the source, as of the last batch."),
    _gauge("source.lag", "By", "query source", "Bytes that wait at the source, as of the last batch."),
    _gauge("source.lag.files", "{file}", "query source", "Files that wait at the source, as of the last batch."),
    _gauge("source.lag.splits", "{split}", "query source", "Splits that wait at the source, as of the last batch."),
    _gauge(
        "source.lag.other",
        "{thing}",
        "query source what",
        "What waits in units of the source's own, and the distances that Spark's own sources report.",
    ),
    _gauge("source.partition.lag.records", "{record}", "query source partition", "Records that wait in a partition."),
    _gauge("source.partition.lag", "By", "query source partition", "Bytes that wait in a partition or stream."),
    _gauge("source.partitions", "{partition}", "query source", "Partitions whose lag the source reports."),
    _gauge(
        "source.partitions.left_out",
        "{partition}",
        "query source",
        "Those of them without a series of their own, because there are too many.",
    ),
    _gauge(
        "source.partition.event_time.timestamp",
        "s",
        "query source partition",
        "The event time up to which a partition is read; seconds since 1970.",
    ),
    _gauge("source.partitions.held", "{partition}", "query source", "Partitions that wait for others by event time."),
    _gauge("source.partitions.idle", "{partition}", "query source", "Partitions that no other waits for."),
    _gauge("source.tracked", "{thing}", "query source what", "What the source remembers, such as files it has read."),
    # Connectors.
    _counter("read.rows", "{row}", "query part", "Rows that tasks have read."),
    _counter("read", "By", "query part", "Bytes that tasks have read."),
    _counter("written.rows", "{row}", "query part", "Rows that tasks have written, also those that did not count."),
    _counter("written", "By", "query part", "Bytes that tasks have written, also those that did not count."),
    _counter(
        "bad.rows",
        "{row}",
        "query part",
        "Rows that did not fit and were nulled, dropped or sent to the dead letters.",
    ),
    _counter(
        "dead_letters",
        "{letter}",
        "query part",
        "Bad records, and rows that could not be written, that tasks have sent to a sink of their own.",
    ),
    _counter("rescued.rows", "{row}", "query part", "Rows of which something is in the column for rescued data."),
    _counter("dropped.rows", "{row}", "query part", "Rows that a delivery without promises has dropped."),
    _counter("lost.records", "{record}", "query part", "Records that were deleted before they were read."),
    _counter("data_losses", "{loss}", "query part", "How often records were gone before they were read."),
    _counter("odd.files", "{file}", "query part kind", "Files that were changed, missing, corrupt or rewritten."),
    _counter("retries", "{retry}", "query part", "Calls that were made again after a failure that passed."),
    _counter("retry.time", "s", "query part", "For how long something did not work and was tried again."),
    _counter("held_back.time", "s", "query part", "For how long quotas of the servers have held tasks back."),
    _counter("transactions.opened", "{transaction}", "query part", "Transactions that tasks have opened."),
    _counter("transactions.committed", "{transaction}", "query part", "Transactions that commits have ended well."),
    _counter(
        "transactions.aborted",
        "{transaction}",
        "query part",
        "Transactions that the driver has aborted: of attempts that lost or failed, and of earlier runs.",
    ),
    _counter("connector.counts", "{thing}", "query part counter", "All other counters, by the connector's name."),
    # Sinks that commit in two phases: what their decision log says.
    _counter("sink.commits", "{batch}", "query", "Batches that are decided and published."),
    _counter("sink.lost.commits", "{batch}", "query", "Decisions given up, because what they publish was lost."),
    _counter("sink.committed.rows", "{row}", "query", "Rows of committed batches, each counted once."),
    _counter("sink.committed", "By", "query", "Bytes of committed batches, each counted once."),
    _counter("sink.published", "{committable}", "query", "Transactions committed, or files published."),
    _gauge(
        "sink.pending.committables",
        "{committable}",
        "query",
        "Transactions that are decided and still open, or files that are decided and not published yet.",
    ),
    _gauge("sink.pending.parts", "{part}", "query", "Part files that are committed and not visible yet: still open."),
    _gauge("sink.log.unreadable", "{log}", "query", "1 if the decision log can't be read: its numbers are old."),
)  # fmt: skip

#: By name.
METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}
