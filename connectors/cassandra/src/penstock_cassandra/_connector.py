"""The plugin that ties the Cassandra source and sinks to their names and options."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from penstock.connector import Capability, Connector
from penstock.options import OptionSet, OptionValues
from penstock_cassandra.options import SINK_OPTIONS, SOURCE_OPTIONS, SinkOptions, SourceOptions

if TYPE_CHECKING:
    from penstock.dead_letters import LetterForm
    from penstock.dev import DevServer
    from penstock.sink import Sink
    from penstock.source import Source

__all__ = ["CassandraConnector"]


class CassandraConnector(Connector):
    """Tables of Cassandra clusters."""

    summary: ClassVar[str] = "Tables of Cassandra clusters, without a jar"
    source_options: ClassVar[OptionSet | None] = SOURCE_OPTIONS
    sink_options: ClassVar[OptionSet | None] = SINK_OPTIONS
    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {
            Capability.BATCH_READ,
            Capability.STREAM_READ,
            Capability.BATCH_WRITE,
            Capability.STREAM_WRITE,
            Capability.EXACTLY_ONCE,
            Capability.RESCALING,
            Capability.RESUMABLE,
            Capability.ADMISSION_CONTROL,
            Capability.BOUNDED,
        }
    )
    target_options: ClassVar[tuple[str, ...]] = ("host", "port", "keyspace", "table")

    def create_source(self, options: OptionValues) -> Source[Any, Any]:
        """Returns a table or a query."""
        from penstock_cassandra.source import CassandraSource

        return CassandraSource(SourceOptions.from_values(options))

    def create_sink(self, options: OptionValues, schema: pa.Schema) -> Sink:
        """Returns a sink of the chosen delivery."""
        from penstock_cassandra.sink import create_sink

        return create_sink(SinkOptions.from_values(options), schema)

    def check_sink(self, options: OptionValues, schema: pa.Schema | None) -> type[Sink]:
        """Returns the sink of the chosen delivery."""
        from penstock_cassandra.sink import kind_of

        return kind_of(SinkOptions.from_values(options))

    def letter_form(self) -> LetterForm:
        """Returns rows with a column for each field of a letter."""
        from penstock.dead_letters import AS_COLUMNS

        return replace(AS_COLUMNS, address=("host", "bundle"), place="table")

    def dev_server(self) -> DevServer | None:
        """Returns a server to try it with."""
        from penstock_cassandra.dev import CassandraDevServer

        return CassandraDevServer()

    def describe_guarantee(self) -> str:
        return (
            "source: each split is read whole; sink: effectively exactly once (rows under their key, stamped for each "
            "batch), or write-ahead, or at least once"
        )
