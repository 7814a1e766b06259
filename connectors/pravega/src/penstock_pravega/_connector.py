"""The plugin that ties the Pravega source and sink to their names and options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from penstock.connector import Capability, Connector
from penstock.options import OptionSet, OptionValues
from penstock_pravega.options import SINK_OPTIONS, SOURCE_OPTIONS, SinkOptions, SourceOptions

if TYPE_CHECKING:
    from penstock.dead_letters import LetterForm, LetterReturn
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

    def check_sink(self, options: OptionValues, schema: pa.Schema | None) -> type[Sink]:
        """Returns the sink of the chosen delivery."""
        from penstock_pravega.sink import check_sink

        return check_sink(SinkOptions.from_values(options), schema)

    def letter_form(self) -> LetterForm:
        """Returns events that are JSON objects: an event has no headers."""
        from penstock.dead_letters import AS_JSON

        return replace(AS_JSON, address=("controller",), place="stream")

    def letter_source(self, options: OptionValues) -> Mapping[str, str] | None:
        """Returns the options that read what the sink has written, from the start."""
        return {"stream": options["stream"], "startingStreamCut": "head"}

    def letter_return(self) -> LetterReturn | None:
        """Returns an event as it was, in the stream that it came from, with any routing key: none is stored with it."""
        from penstock.dead_letters import LetterReturn

        return LetterReturn({"value": "value"}, "stream")

    def describe_guarantee(self) -> str:
        """Says what readers and writers can rely on."""
        return "source: every event once; sink: exactly once on request (transactions), else at least once"
