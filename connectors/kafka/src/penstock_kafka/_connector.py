"""The plugin that ties the Kafka source and the Kafka sinks to their names and options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from penstock.connector import Capability, Connector
from penstock.options import OptionSet, OptionValues
from penstock_kafka.options import SINK_OPTIONS, SOURCE_OPTIONS, SinkOptions, SourceOptions

if TYPE_CHECKING:
    from penstock.dead_letters import LetterForm, LetterReturn
    from penstock.dev import DevServer
    from penstock.sink import Sink
    from penstock.source import Source

__all__ = ["KafkaConnector"]


class KafkaConnector(Connector):
    """Topics of Kafka clusters."""

    summary: ClassVar[str] = "Topics of Kafka clusters, without a jar"
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
    target_options: ClassVar[tuple[str, ...]] = ("kafka.bootstrap.servers", "topic")

    def create_source(self, options: OptionValues) -> Source[Any, Any]:
        """Returns a Kafka source."""
        from penstock_kafka.source import KafkaSource

        return KafkaSource(SourceOptions.from_values(options))

    def create_sink(self, options: OptionValues, schema: pa.Schema) -> Sink:
        """Returns a sink of the chosen delivery."""
        from penstock_kafka.sink import create_sink

        return create_sink(SinkOptions.from_values(options), schema)

    def check_sink(self, options: OptionValues, schema: pa.Schema | None) -> type[Sink]:
        """Returns the sink of the chosen delivery."""
        from penstock_kafka.sink import check_sink

        return check_sink(SinkOptions.from_values(options), schema)

    def letter_form(self) -> LetterForm:
        """Returns records with Kafka Connect's headers."""
        from penstock.dead_letters import AS_RECORDS

        return replace(AS_RECORDS, address=("kafka.bootstrap.servers",), place="topic")

    def dev_server(self) -> DevServer | None:
        """Returns a broker to try it with."""
        from penstock_kafka.dev import KafkaDevServer

        return KafkaDevServer()

    def letter_source(self, options: OptionValues) -> Mapping[str, str] | None:
        """Returns the options that read what the sink has written, from the start."""
        return {
            "subscribe": options["topic"],
            "startingOffsets": "earliest",
            "includeHeaders": "true",
        }

    def letter_return(self) -> LetterReturn | None:
        """Returns a record with the key, the value and the headers that it had, in the topic that it came from."""
        from penstock.dead_letters import LetterReturn

        return LetterReturn({name: name for name in ("key", "value", "headers", "timestamp")}, "topic")

    def describe_guarantee(self) -> str:
        return "source: every record once; sink: exactly once on request (transactions), else at least once"
