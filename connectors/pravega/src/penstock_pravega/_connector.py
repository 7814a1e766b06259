"""The plugin that ties the Pravega source and sink to their names and options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from penstock.connector import Capability, Connector
from penstock.options import OptionSet, OptionValues
from penstock_pravega.options import SINK_OPTIONS, SOURCE_OPTIONS, SinkOptions, SourceOptions

if TYPE_CHECKING:
    from penstock.dev import DevServer
    from penstock.sink import Sink
    from penstock.source import Source

__all__ = ["PravegaConnector"]


class PravegaConnector(Connector):
    """Streams of Pravega."""

    summary: ClassVar[str] = "Pravega streams, read exactly and written exactly once, without a jar"
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
            Capability.DISCOVERY,
        }
    )
    target_options: ClassVar[tuple[str, ...]] = ("controller", "scope", "stream")

    def create_source(self, options: OptionValues) -> Source[Any, Any]:
        """Returns a Pravega source."""
        from penstock_pravega.source import PravegaSource

        return PravegaSource(SourceOptions.from_values(options))

    def create_sink(self, options: OptionValues, schema: pa.Schema) -> Sink:
        """Returns a sink of the chosen delivery."""
        from penstock_pravega.sink import create_sink

        return create_sink(SinkOptions.from_values(options), schema)

    def dev_server(self) -> DevServer | None:
        """Returns a server to try it with."""
        from penstock_pravega.dev import PravegaDevServer

        return PravegaDevServer()

    def describe_guarantee(self) -> str:
        """Says what readers and writers can rely on."""
        return "source: every event once; sink: exactly once on request (transactions), else at least once"
