"""The plugin: options and factories."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from penstock.connector import Capability, Connector
from penstock.errors import BadConfigurationError
from penstock.options import Option, OptionSet, OptionValues, when
from penstock.sink import Sink
from penstock_sqlite._append import AppendSink
from penstock_sqlite._source import SqliteSource
from penstock_sqlite._upsert import UpsertSink

_PATH, _TABLE = Option("path", "The database, a file", required=True), Option("table", "Its table", required=True)


class SqliteConnector(Connector):
    summary = "SQLite tables: read in splits, written by key or appended"
    source_options = OptionSet(
        [
            _PATH,
            replace(_TABLE, at_restart="refused"),
            Option("rowsPerSplit", "Row ids that one split spans", kind="int", default="100000", minimum=1),
            Option("splitsPerTrigger", "Most splits in a micro-batch", kind="int", minimum=1),
        ]
    )
    sink_options = OptionSet(
        [
            _PATH,
            _TABLE,
            Option("mode", "upsert by key, or append", kind="choice", choices=("upsert", "append"), default="upsert"),
            Option("key", "For upsert: the columns of the key, comma-separated", needs=(when("mode", "upsert"),)),
        ]
    )
    capabilities = frozenset(
        {
            Capability.BATCH_READ,
            Capability.STREAM_READ,
            Capability.BOUNDED,
            Capability.STREAM_WRITE,
            Capability.EXACTLY_ONCE,
            Capability.RESCALING,
            Capability.RESUMABLE,
            Capability.ADMISSION_CONTROL,
        }
    )

    def create_source(self, options: OptionValues) -> SqliteSource:
        return SqliteSource(options["path"], options["table"], options["rowsPerSplit"], options["splitsPerTrigger"])

    def create_sink(self, options: OptionValues, schema: pa.Schema) -> Sink:
        if options["mode"] == "append":
            return AppendSink(options["path"], options["table"])
        key = tuple(name.strip() for name in (options["key"] or "").split(",") if name.strip())
        if not key:
            raise BadConfigurationError("option 'key' is missing: name the columns of the key, or set mode to append")
        return UpsertSink(options["path"], options["table"], key)

    def describe_guarantee(self) -> str:
        return "exactly once: upserts stamped per batch, or rows and note in one transaction"
