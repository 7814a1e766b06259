"""The plugin that ties the Pravega source and sink to their names and options."""

from __future__ import annotations

from typing import Any, ClassVar

from penstock.dev import DevServer
from penstock.options import OptionSet, OptionValues
from penstock.plugins import (
    ADMISSION_CONTROL,
    BATCH_READ,
    DISCOVERY,
    RESUMABLE,
    STREAM_READ,
    Capability,
    Connector,
)
from penstock.source import Source
from penstock_pravega.options import SOURCE_OPTIONS
from penstock_pravega.source import PravegaSource

__all__ = ["PravegaConnector"]


class PravegaConnector(Connector):
    """Streams of Pravega."""

    summary: ClassVar[str] = "Pravega streams, read exactly and written exactly once, without a jar"
    source_options: ClassVar[OptionSet | None] = SOURCE_OPTIONS
    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {BATCH_READ, STREAM_READ, RESUMABLE, ADMISSION_CONTROL, DISCOVERY}
    )

    def create_source(self, options: OptionValues) -> Source[Any, Any]:
        """A Pravega source."""
        return PravegaSource.from_options(options)

    def dev_server(self) -> DevServer | None:
        """A server to try it with."""
        from penstock_pravega.dev import PravegaDevServer

        return PravegaDevServer()

    def describe_guarantee(self) -> str:
        """See the base class."""
        return "source: every event once"
