"""The plugin: options, capabilities, and what it creates."""

from __future__ import annotations

import pyarrow as pa

from penstock.connector import Capability, Connector
from penstock.options import OptionValues
from penstock.sink import Sink
from penstock_postgres._options import SINK_OPTIONS, SOURCE_OPTIONS, SinkOptions, SourceOptions
from penstock_postgres.sink import create_sink
from penstock_postgres.source import PostgresSource

__all__ = ["PostgresConnector"]


class PostgresConnector(Connector):
    """The entry point of the group ``penstock.connectors``: what users may set, and what they get."""

    summary = "PostgreSQL tables: written exactly once by prepared transactions, or by key; read in splits"
    source_options = SOURCE_OPTIONS
    sink_options = SINK_OPTIONS
    capabilities = frozenset(
        {
            Capability.BATCH_READ,
            Capability.STREAM_READ,
            Capability.BOUNDED,
            Capability.RESUMABLE,
            Capability.ADMISSION_CONTROL,
            Capability.STREAM_WRITE,
            Capability.BATCH_WRITE,
            Capability.EXACTLY_ONCE,
            Capability.RESCALING,
        }
    )

    def create_source(self, options: OptionValues) -> PostgresSource:
        return PostgresSource(SourceOptions.from_values(options))

    def create_sink(self, options: OptionValues, schema: pa.Schema) -> Sink:
        return create_sink(SinkOptions.from_values(options), schema)

    def describe_guarantee(self) -> str:
        return "exactly once: each task prepares a transaction, which is committed once its batch is decided"
