"""The plugin: options, capabilities, and what it creates."""

from __future__ import annotations

import pyarrow as pa

from penstock.connector import Capability, Connector
from penstock.options import OptionValues
from penstock.sink import Sink
from penstock.testing._samples.database._options import SINK_OPTIONS, SinkOptions
from penstock.testing._samples.database.sink import create_sink

__all__ = ["BankConnector"]


class BankConnector(Connector):
    """The entry point of the group ``penstock.connectors``: what users may set, and what they get."""

    summary = "A table, one prepared transaction for each task of a batch"
    sink_options = SINK_OPTIONS
    capabilities = frozenset({Capability.STREAM_WRITE, Capability.EXACTLY_ONCE, Capability.RESCALING})

    def create_sink(self, options: OptionValues, schema: pa.Schema) -> Sink:
        return create_sink(SinkOptions.from_values(options), schema)

    def describe_guarantee(self) -> str:
        return "exactly once: each task prepares a transaction, which is committed once its batch is decided"
