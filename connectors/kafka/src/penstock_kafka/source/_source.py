"""The source: ties the log template, the client, the formats and the options together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import pyarrow as pa

from penstock.serialization.formats import RecordDecoder
from penstock.source import BadRecordPolicy, EnumeratorContext, ReaderContext, check_columns
from penstock.source.log import LogOptions, LogSource, LogSplit
from penstock_kafka.client.broker import PATIENCE_SECONDS, KafkaAdmin
from penstock_kafka.options import SourceOptions
from penstock_kafka.source._emitter import KafkaRecordEmitter
from penstock_kafka.source._enumerator import KafkaLogClient
from penstock_kafka.source._reader import KafkaSplitReader
from penstock_kafka.source._schema import record_schema

__all__ = ["KafkaSource"]

_PARTS = ("key", "value")

#: A reader that waits for its brokers must notice soon that its task was killed.
_READER_PATIENCE_SECONDS = 2.0


class KafkaSource(LogSource):
    """Topics of one cluster. See the option declarations for what can be set.

    Decoders are made on the driver, when the schema is known, and go to the tasks with the source. The pickled form
    holds the client's secrets.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._decoders: dict[str, RecordDecoder] = {}

    @property
    def log_options(self) -> LogOptions:
        """Returns where reading starts and stops, and the limits of a micro-batch."""
        return self._options.log

    def create_client(self) -> KafkaLogClient:
        """Connects to the brokers to ask for partitions and offsets."""
        return KafkaLogClient(self._open_admin(), self._options.subscription)

    def _open_admin(self, patience_s: float = PATIENCE_SECONDS) -> KafkaAdmin:
        config = self._options.admin.librdkafka()
        return KafkaAdmin(config, read_committed=self._options.reads_committed_only, patience_s=patience_s)

    # --- columns ------------------------------------------------------------------------------------------------------

    def fixed_schema(self) -> pa.Schema:
        """Returns Spark's columns, with the formats' types for keys and values."""
        return self._schema({part: self._decoder(part, None) for part in _PARTS})

    def validate_schema(self, schema: pa.Schema) -> None:
        """Checks the user's columns. Their types of ``key`` and ``value`` say what these are decoded to."""
        decoders = {part: self._decoder(part, schema.field(part).type) for part in _PARTS if part in schema.names}
        if self._bad_record_column in schema.names:  # what is bad is marked, whichever columns are wanted
            decoders |= {part: self._decoder(part, None) for part in _PARTS if part not in decoders}
        check_columns(schema, self._schema(decoders), {"headers": "includeHeaders"})
        self._decoders = {part: decoder for part, decoder in decoders.items() if decoder is not None}
        if self._options.log.event_time is not None:
            self._options.log.event_time.check(self.for_sampling()[1])

    def for_sampling(self) -> tuple[KafkaSource, pa.Schema]:
        """Returns the source with every column, whichever the user has chosen."""
        source = KafkaSource(self._options.for_sampling())
        missing = {part: self._decoder(part, None) for part in _PARTS if part not in self._decoders}
        source._decoders = {**{part: made for part, made in missing.items() if made is not None}, **self._decoders}
        return source, source._schema(dict(source._decoders))

    def _decoder(self, part: str, wanted: pa.DataType | None) -> RecordDecoder | None:
        """Returns the decoder of the key or of the value; ``None`` for bytes as they are. ``wanted``: the user's type
        of it.
        """
        settings = self._options.key_format if part == "key" else self._options.value_format
        topics = self._options.subscription.topics
        return settings.create_decoder(wanted, topic=topics[0] if len(topics) == 1 else None)

    def _schema(self, decoders: Mapping[str, RecordDecoder | None]) -> pa.Schema:
        types = {part: decoder.type for part, decoder in decoders.items() if decoder is not None}
        return record_schema(
            types.get("key", pa.binary()),
            types.get("value", pa.binary()),
            headers=self._options.include_headers,
            bad_record_column=self._bad_record_column,
        )

    @property
    def _bad_record_column(self) -> str | None:
        return self._options.bad_record_column if self._options.bad_records == "deadLetter" else None

    # --- reading ------------------------------------------------------------------------------------------------------

    def list_splits(self, context: EnumeratorContext) -> Iterator[LogSplit]:
        """Yields the ranges of a batch. Raises BadConfigurationError for a start that makes no sense in one."""
        self._options.check_batch()
        yield from super().list_splits(context)

    def create_reader(self, context: ReaderContext) -> KafkaSplitReader:
        """Makes the reader of a task."""
        options = self._options
        config = options.consumer.librdkafka()
        # Shown to the brokers, where rules for groups may ask for it; nothing joins the group.
        config.setdefault("group.id", f"{options.group_id_prefix}-penstock")
        return KafkaSplitReader(
            config,
            options.client,
            partial(self._open_admin, _READER_PATIENCE_SECONDS),
            context.metrics,
            headers=bool({"headers", self._bad_record_column} & set(context.schema.names)),
            fail_on_data_loss=options.log.fail_on_data_loss,
        )

    def create_emitter(self, context: ReaderContext) -> KafkaRecordEmitter:
        """Makes what decodes the records of a task."""
        return KafkaRecordEmitter(
            context,
            self._decoders,
            BadRecordPolicy(self._options.bad_records, ("null", "deadLetter"), context.metrics),
            bad_record_column=self._bad_record_column,
        )
