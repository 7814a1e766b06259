"""The options of source and sink, as data."""

from __future__ import annotations

from penstock.options import Option, OptionSet
from penstock.storage import STORAGE_OPTIONS

__all__ = ["SINK_OPTIONS", "SOURCE_OPTIONS"]

_CONNECTION = (
    Option("host", "Nodes to ask first, with commas between", default="127.0.0.1"),
    Option("port", "Where nodes listen for clients", kind="int", default="9042", minimum=1),
    Option("localDatacenter", "Name of the data centre whose nodes are asked; default: any node"),
    Option("user", "User name"),
    Option("password", "Password of the user", secret=True),
    Option("bundle", "Path of a cloud's secure connect bundle; in place of host and tls. Must be on every executor"),
    Option("tls", "Connect with TLS", kind="bool", default="false"),
    Option("tls.caFile", "Certificates to trust (PEM); default: those of the system"),
    Option("tls.certFile", "Own certificate (PEM), if the server wants one"),
    Option("tls.keyFile", "Its key (PEM); default: in tls.certFile"),
    Option("tls.keyPassword", "Password of the key", secret=True),
    Option("tls.checkHostname", "Whether the server's name must be in its certificate", kind="bool", default="true"),
    Option("connectTimeout", "How long connecting may take", kind="duration", default="10s", minimum=1),
    Option("requestTimeout", "How long one request may take", kind="duration", default="30s", minimum=1),
    Option(
        "retryFor",
        "How long a request that failed (time-out, node down, overload) is tried again, with growing pauses, before "
        "the task fails",
        kind="duration",
        default="60s",
        minimum=0,
    ),
)

_LEVELS = ("ANY", "ONE", "TWO", "THREE", "QUORUM", "ALL", "LOCAL_QUORUM", "EACH_QUORUM", "LOCAL_ONE", "SERIAL")

#: What the source takes, for `penstock describe` and the page.
SOURCE_OPTIONS = OptionSet(
    (
        *_CONNECTION,
        Option("keyspace", "Keyspace of the table"),
        Option("table", "Table to read; either this or query"),
        Option(
            "query",
            "CQL query to read: SELECT of one table, that can be split by token (no aggregates, DISTINCT, GROUP BY, "
            "ORDER BY, LIMIT, IN on the partition key)",
        ),
        Option("where", "CQL condition for table, such as: day = '2026-01-01' AND hour > 3"),
        Option("ttlColumns", "Columns whose remaining time to live is added (seconds), as <column>_ttl; with commas"),
        Option(
            "writetimeColumns", "Columns whose write time is added (µs since 1970), as <column>_writetime; with commas"
        ),
        Option("consistency", "Consistency level of reads", kind="choice", choices=_LEVELS[1:], default="LOCAL_ONE"),
        Option(
            "maxSplitSize",
            "Most bytes in memory of a split, about, by the server's estimates; larger ones are paged all the same",
            kind="bytes",
            default="64mb",
            minimum=1 << 20,
        ),
        Option(
            "splits",
            "Number of splits, in place of maxSplitSize; default where the server has no estimates: twice the slots",
            kind="int",
            minimum=1,
        ),
        Option("maxSplitsPerTrigger", "Most splits in a step of a stream", kind="int", default="100", minimum=1),
        Option(
            "pageBytes", "Bytes of a page, about: bounds a task's memory", kind="bytes", default="4mb", minimum=1024
        ),
        Option("pageRows", "Rows of a page, in place of pageBytes", kind="int", minimum=1),
        Option("maxRowsPerSecond", "Most rows that a task reads in a second", kind="int", minimum=1),
    )
)

#: What the sink takes, for `penstock describe` and the page.
SINK_OPTIONS = OptionSet(
    (
        *_CONNECTION,
        Option("keyspace", "Keyspace of the table"),
        Option("table", "Table to write to, columns by name; either this or statement"),
        Option("statement", "CQL statement with a ? for each column of the rows, by position"),
        Option(
            "columns",
            "Where names differ, or nulls of some columns are treated in another way: JSON such as "
            '{"sensor": "id", "celsius": {"name": "temperature", "nulls": "unset"}}, or package.module:Class of a '
            "dataclass. Columns that are not in it go by name",
        ),
        Option(
            "delivery",
            "exactly-once: rows are written under their key, with a timestamp for each batch; write-ahead: rows are "
            "kept in the checkpoint until their batch is decided, for statements that can't be repeated; at-least-once",
            kind="choice",
            choices=("exactly-once", "write-ahead", "at-least-once"),
            default="exactly-once",
        ),
        Option(
            "consistency", "Consistency level of writes", kind="choice", choices=_LEVELS[:-1], default="LOCAL_QUORUM"
        ),
        Option("ttl", "Time to live of every row, in whole seconds; 0 is for ever", kind="int", minimum=0),
        Option("ttlColumn", "Column with each row's time to live (seconds); not written itself"),
        Option("timestamp", "Write timestamp of every row (µs since 1970), in place of the batch's", kind="int"),
        Option("timestampColumn", "Column with each row's write timestamp (µs, or a timestamp); not written itself"),
        Option(
            "nulls",
            "A null: delete (the column's old value is deleted) or unset (it stays as it is)",
            kind="choice",
            choices=("delete", "unset"),
            default="delete",
        ),
        Option(
            "deleteColumn", "Boolean column: where it is true, the row with that key is deleted; not written itself"
        ),
        Option(
            "ifNotExists",
            "Write only rows whose key is not there, by a light-weight transaction for each: slow, first one wins",
            kind="bool",
            default="false",
        ),
        Option(
            "batchBytes",
            "Most bytes of a request's batch; the server refuses batches above its batch_size_fail_threshold (50 KiB)",
            kind="bytes",
            default="16kb",
            minimum=1,
        ),
        Option(
            "batchGrouping",
            "Which rows share a batch: those of one partition, of the same replicas, or none",
            kind="choice",
            choices=("partition", "replica", "none"),
            default="replica",
        ),
        Option(
            "maxRowBytes",
            "Rows that take more in a request are bad rows; the server's own limits are half of its "
            "commitlog_segment_size, and native_transport_max_frame_size",
            kind="bytes",
            default="15mb",
            minimum=1,
        ),
        Option("maxInFlight", "Most requests of a task that wait for an answer", kind="int", default="16", minimum=1),
        Option("maxRowsPerSecond", "Most rows that a task writes in a second", kind="int", minimum=1),
        Option(
            "deadLetterPath",
            "Folder for rows that can't be written (null key, value that does not fit, too large), as JSON lines with "
            "the reason; without it they fail the query",
        ),
        Option(
            "checkpointKeyspace",
            "write-ahead: where the table penstock_sent_segments is, which notes what was sent; default: keyspace",
        ),
        *STORAGE_OPTIONS,
    )
)
