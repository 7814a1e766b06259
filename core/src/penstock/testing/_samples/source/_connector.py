"""The plugin: options, capabilities, and what it creates."""

from __future__ import annotations

from penstock.connector import Capability, Connector
from penstock.options import OptionValues
from penstock.testing._samples.source._options import SOURCE_OPTIONS, SourceOptions
from penstock.testing._samples.source.source import LinesSource

__all__ = ["LinesConnector"]


class LinesConnector(Connector):
    """The entry point of the group ``penstock.connectors``: what users may set, and what they get."""

    summary = "numbers in a file that grows"
    source_options = SOURCE_OPTIONS
    capabilities = frozenset(
        {
            Capability.BATCH_READ,
            Capability.STREAM_READ,
            Capability.DISCOVERY,
            Capability.RESCALING,
            Capability.RESUMABLE,
            Capability.ADMISSION_CONTROL,
        }
    )

    def create_source(self, options: OptionValues) -> LinesSource:
        return LinesSource(SourceOptions.from_values(options))

    def describe_guarantee(self) -> str:
        return "exactly once: a split is a fixed range of bytes"
