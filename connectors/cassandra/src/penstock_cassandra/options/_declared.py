"""The options of source and sink, as data."""

from __future__ import annotations

from dataclasses import replace

from penstock.options import Option, OptionSet, common_option, connecting, unless, when
from penstock_cassandra.options._instead import NOT_READ, NOT_WRITTEN

__all__ = ["LOOKUP_OPTIONS", "SINK_OPTIONS", "SOURCE_OPTIONS"]

#: Numbers of rows are signed integers of 32 bits in the protocol.
_MOST_IN_A_REQUEST = (1 << 31) - 1
#: Cassandra's own: 20 years of 365 days.
_LONGEST_TTL = 630_720_000

_TLS = (when("tls"),)
_NO_BUNDLE = (when("bundle"),)

_CONNECTION = connecting(
    (
        Option("host", "Nodes to ask first, with commas between", default="127.0.0.1", excludes=_NO_BUNDLE),
        Option(
            "port",
            "Where nodes listen for clients",
            kind="int",
            default="9042",
            minimum=1,
            maximum=65_535,
            excludes=_NO_BUNDLE,
        ),
        Option("localDatacenter", "Name of the data centre whose nodes are asked; default: any node"),
        common_option("user", required_with=(when("password"),)),
        common_option("password"),
        Option(
            "authProvider",
            "A login of your own in place of user and password: module:Class of a cassandra.auth.AuthProvider. Must be "
            "importable on every executor",
            excludes=(when("user"),),
        ),
        Option(
            "authProvider.config",
            "What it is constructed with, as name=value,name=value",
            secret=True,
            needs=(when("authProvider"),),
        ),
        Option(
            "bundle",
            "Path of a cloud's secure connect bundle; in place of host and tls. Must be on every executor",
            kind="file",
        ),
        Option("tls", "Connect with TLS", kind="bool", default="false", excludes=_NO_BUNDLE),
        common_option("tls.caFile", "; default: those of the system", needs=_TLS),
        Option("tls.certFile", "Own certificate (PEM), if the server wants one", kind="file", needs=_TLS),
        Option("tls.keyFile", "Its key (PEM); default: in tls.certFile", kind="file", needs=(when("tls.certFile"),)),
        Option("tls.keyPassword", "Password of the key", secret=True, needs=(when("tls.certFile"),)),
        common_option("tls.checkHostname", needs=_TLS),
        Option("connectTimeout", "How long connecting may take", kind="duration", default="10s", minimum=1),
        common_option("requestTimeout"),
        common_option("retryTimeout", former=("retryFor",)),
    )
)

_LEVELS = ("ANY", "ONE", "TWO", "THREE", "QUORUM", "ALL", "LOCAL_QUORUM", "EACH_QUORUM", "LOCAL_ONE", "SERIAL")

_KEYSPACE = Option("keyspace", "Keyspace of the table", required_with=(when("table"),), connects=True)
_READ_CONSISTENCY = Option(
    "consistency", "Consistency level of reads", kind="choice", choices=_LEVELS[1:], default="LOCAL_ONE"
)
_INTO_THE_QUERY = "write it into the query"
_INTO_THE_STATEMENT = "write it into the statement"
_REFUSED_BY_THE_SERVER = "the server refuses it"
_STATEMENT = when("statement")
_IF_NOT_EXISTS = when("ifNotExists")

#: What a lookup takes.
LOOKUP_OPTIONS = OptionSet(
    (*_CONNECTION, _KEYSPACE, Option("table", "Table to look into", required=True), _READ_CONSISTENCY)
)

#: What the source takes, for `penstock describe` and the page.
SOURCE_OPTIONS = OptionSet(
    (
        *_CONNECTION,
        replace(_KEYSPACE, at_restart="refused"),
        Option(
            "table",
            "Table to read",
            required_with=(unless("query"),),
            excludes=(when("query"),),
            at_restart="refused",
        ),
        Option(
            "query",
            "CQL query to read: SELECT of one table, that can be split by token (no aggregates, DISTINCT, GROUP BY, "
            "ORDER BY, LIMIT, IN on the partition key)",
            at_restart="refused",
        ),
        Option(
            "where",
            "CQL condition, such as: day = '2026-01-01' AND hour > 3",
            excludes=(when("query"),),
            advice=_INTO_THE_QUERY,
            at_restart="refused",
        ),
        Option(
            "ttlColumns",
            "Columns whose remaining time to live is added (seconds), as <column>_ttl; with commas",
            kind="columns",
            excludes=(when("query"),),
            advice=_INTO_THE_QUERY,
        ),
        Option(
            "writetimeColumns",
            "Columns whose write time is added (µs since 1970), as <column>_writetime; with commas",
            kind="columns",
            excludes=(when("query"),),
            advice=_INTO_THE_QUERY,
        ),
        _READ_CONSISTENCY,
        Option(
            "maxSplitSize",
            "Most bytes in memory of a split, about, by the server's estimates; larger ones are paged all the same",
            kind="bytes",
            default="64mb",
            minimum=1 << 20,
            excludes=(when("splits"),),
            at_restart="kept",
        ),
        Option(
            "splits",
            "Number of splits, in place of maxSplitSize; default where the server has no estimates: twice the slots",
            kind="int",
            minimum=1,
            at_restart="kept",
        ),
        Option(
            "maxSplitsPerTrigger",
            "Most splits in a micro-batch",
            kind="int",
            default="100",
            minimum=1,
            only_in="stream",
            tolerated=True,
        ),
        Option(
            "pageBytes",
            "Bytes of a page, about: bounds a task's memory",
            kind="bytes",
            default="4mb",
            minimum=1024,
            excludes=(when("pageRows"),),
        ),
        Option("pageRows", "Rows of a page, in place of pageBytes", kind="int", minimum=1, maximum=_MOST_IN_A_REQUEST),
        Option(
            "maxInFlight",
            "Most pages that a task has requested or waits to process: each of another range of its split",
            kind="int",
            default="2",
            minimum=1,
        ),
        Option("maxRowsPerSecond", "Most rows that a task reads in a second", kind="int", minimum=1),
    ),
    instead=NOT_READ,
)

#: What the sink takes, for `penstock describe` and the page.
SINK_OPTIONS = OptionSet(
    (
        *_CONNECTION,
        _KEYSPACE,
        Option(
            "table",
            "Table to write to, columns by name",
            required_with=(unless("statement"),),
            excludes=(_STATEMENT,),
        ),
        Option("statement", "CQL statement with a ? for each column of the rows, by position"),
        Option(
            "columns",
            "Where names differ, or nulls of some columns are treated in another way: JSON such as "
            '{"sensor": "id", "celsius": {"name": "temperature", "nulls": "unset"}}, or package.module:Class of a '
            "dataclass. Other columns are matched by name",
            excludes=(_STATEMENT,),
            advice=_INTO_THE_STATEMENT,
        ),
        common_option(
            "delivery",
            ": exactly-once (rows are written under their key, with a timestamp for each batch), write-ahead (rows are "
            "kept in the checkpoint until their batch is decided, for statements that can't be repeated), or "
            "at-least-once",
            choices=("exactly-once", "write-ahead", "at-least-once"),
            default="exactly-once",
        ),
        Option(
            "consistency", "Consistency level of writes", kind="choice", choices=_LEVELS[:-1], default="LOCAL_QUORUM"
        ),
        Option(
            "ttl",
            "Time to live of every row, in whole seconds, up to 20 years; 0 is forever",
            kind="int",
            minimum=0,
            maximum=_LONGEST_TTL,
            excludes=(_STATEMENT,),
            advice=_INTO_THE_STATEMENT,
        ),
        Option(
            "ttlColumn",
            "Column with each row's time to live (seconds); not written itself",
            kind="column",
            excludes=(_STATEMENT, when("ttl")),
        ),
        Option(
            "timestamp",
            "Write timestamp of every row (µs since 1970), in place of the batch's",
            kind="int",
            excludes=(_IF_NOT_EXISTS,),
            advice=_REFUSED_BY_THE_SERVER,
        ),
        Option(
            "timestampColumn",
            "Column with each row's write timestamp (µs, or a timestamp); not written itself",
            kind="column",
            excludes=(_STATEMENT, _IF_NOT_EXISTS, when("timestamp")),
        ),
        Option(
            "nulls",
            "A null: delete (the column's old value is deleted) or unset (it stays as it is)",
            kind="choice",
            choices=("delete", "unset"),
            default="delete",
        ),
        Option(
            "deleteColumn",
            "Boolean column: where it is true, the row with that key is deleted; not written itself",
            kind="column",
            excludes=(_STATEMENT, _IF_NOT_EXISTS),
        ),
        common_option(
            "operationColumn",
            ": the row with that key is written or deleted. Not written itself",
            excludes=(_STATEMENT, _IF_NOT_EXISTS, when("deleteColumn")),
        ),
        common_option(
            "orderColumn",
            ", whatever order rows come in: it is their write timestamp (a whole number, or a timestamp). Not written "
            "itself. Into a table that has rows with other write timestamps, set timestampColumn instead",
            excludes=(_STATEMENT, _IF_NOT_EXISTS, when("timestamp"), when("timestampColumn")),
            at_restart="refused",
        ),
        common_option(
            "unavailableColumn",
            ": they keep the value that the table has. Not written itself",
            needs=((when("orderColumn"), when("timestampColumn")),),
        ),
        Option(
            "ifNotExists",
            "Write only rows whose key is not there, by a light-weight transaction for each: slow, first one wins",
            kind="bool",
            default="false",
            excludes=(_STATEMENT,),
            advice=_INTO_THE_STATEMENT,
        ),
        Option(
            "batchBytes",
            "Most bytes of a request's batch; the server refuses batches above its batch_size_fail_threshold (50 KiB)",
            kind="bytes",
            default="16kb",
            minimum=1,
            excludes=(_IF_NOT_EXISTS, when("batchGrouping", "none")),
        ),
        Option(
            "batchGrouping",
            "Which rows share a batch: those of one partition, of the same replicas, or none",
            kind="choice",
            choices=("partition", "replica", "none"),
            default="replica",
            excludes=(_IF_NOT_EXISTS,),
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
            "checkpointKeyspace",
            "Where the table penstock_sent_segments is, which notes what was sent; default: keyspace",
            needs=(when("delivery", "write-ahead"),),
            default_from="keyspace",
            at_restart="refused",
        ),
    ),
    instead=NOT_WRITTEN,
)
