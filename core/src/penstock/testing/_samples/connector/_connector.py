"""The plugin: options, capabilities, and what it creates."""

from __future__ import annotations

import pyarrow as pa

from penstock.connector import Capability, Connector
from penstock.options import OptionValues
from penstock.sink import Sink
from penstock.testing._samples.connector._options import SINK_OPTIONS, SOURCE_OPTIONS, SinkOptions, SourceOptions
from penstock.testing._samples.connector.sink import create_sink
from penstock.testing._samples.connector.source import MinimalSource

__all__ = ["MinimalConnector"]


class MinimalConnector(Connector):
    """The entry point of the group ``penstock.connectors``: what users may set, and what they get."""

    summary = "JSON lines in the files of a local directory"
    source_options, sink_options = SOURCE_OPTIONS, SINK_OPTIONS
    capabilities = frozenset(
        {
            Capability.BATCH_READ,
            Capability.STREAM_READ,
            Capability.DISCOVERY,
            Capability.RESUMABLE,
            Capability.RESCALING,
            Capability.STREAM_WRITE,
            Capability.EXACTLY_ONCE,
        }
    )

    def create_source(self, options: OptionValues) -> MinimalSource:
        return MinimalSource(SourceOptions.from_values(options))

    def create_sink(self, options: OptionValues, schema: pa.Schema) -> Sink:
        return create_sink(SinkOptions.from_values(options), schema)

    def describe_guarantee(self) -> str:
        return "exactly once, both ways"
