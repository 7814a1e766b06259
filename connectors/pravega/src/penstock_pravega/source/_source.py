"""The source: ties options, enumerator, reader, formats and serializers together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa

from penstock.serialization import JsonSerializer
from penstock.serialization.formats import RecordDecoder
from penstock.source import BadRecordPolicy, EnumeratorContext, ReaderContext, ReadLimits, Source, check_columns
from penstock_pravega.client import StreamClient
from penstock_pravega.options import SourceOptions
from penstock_pravega.source._emitter import PravegaRecordEmitter, event_schema
from penstock_pravega.source._enumerator import PravegaSplitEnumerator
from penstock_pravega.source._reader import PravegaSplitReader
from penstock_pravega.source._split import SPLIT_SERIALIZER, STATE_SERIALIZER, PravegaState, SegmentRange
from penstock_pravega.source._watermarks import EventTimer, RecordTimer, StreamWatermarks, WatermarkTimer

__all__ = ["PravegaSource"]


class PravegaSource(Source[SegmentRange, PravegaState]):
    """Reads streams of one Pravega.

    The driver makes the decoder when it knows the schema. The pickled form holds the credentials.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._decoder: RecordDecoder | None = None

    @property
    def split_serializer(self) -> JsonSerializer[SegmentRange]:
        """Stores ranges as JSON arrays."""
        return SPLIT_SERIALIZER

    @property
    def enumerator_serializer(self) -> JsonSerializer[PravegaState]:
        """Stores stream cuts as JSON."""
        return STATE_SERIALIZER

    def read_limits(self) -> ReadLimits:
        """Returns maxBytesPerTrigger and maxRowsPerTrigger."""
        return ReadLimits(max_bytes=self._options.max_bytes, max_records=self._options.max_rows)

    # --- columns ------------------------------------------------------------------------------------------------------

    def fixed_schema(self) -> pa.Schema:
        """Returns the columns, with ``value`` as the format decodes it by default."""
        return self._schema(self._create_decoder(None))

    def validate_schema(self, schema: pa.Schema) -> None:
        """Makes the decoder: events are decoded to the user's type of ``value``."""
        decoder = None
        if "value" in schema.names:
            decoder = self._create_decoder(schema.field("value").type)
        elif self._options.bad_record_column in schema.names:
            decoder = self._create_decoder(None)
        check_columns(schema, self._schema(decoder), {"position": "includePosition"})
        self._decoder = decoder
        if self._options.event_time is not None and not self._options.times_are_noted:
            self._options.event_time.check(self._schema(self._decoder_for_times()))

    def _create_decoder(self, wanted: pa.DataType | None) -> RecordDecoder | None:
        """Returns ``None`` if values stay bytes."""
        return self._options.format.create_decoder(wanted)

    def _decoder_for_times(self) -> RecordDecoder | None:
        """Returns the decoder of the events that the driver reads ahead, whichever columns the user has chosen."""
        return self._decoder or self._create_decoder(None)

    def _schema(self, decoder: RecordDecoder | None) -> pa.Schema:
        value = pa.binary() if decoder is None else decoder.type
        return event_schema(
            value,
            position=self._options.include_position,
            bad_record_column=self._options.bad_record_column,
        )

    # --- reading ------------------------------------------------------------------------------------------------------

    def create_enumerator(self, context: EnumeratorContext, checkpoint: PravegaState | None) -> PravegaSplitEnumerator:
        """Makes an enumerator with connections of its own."""
        client = StreamClient(self._options.connection)
        return PravegaSplitEnumerator(context, client, self._options, checkpoint, make_timer=self._timers(client))

    def _timers(self, client: StreamClient) -> Callable[[], EventTimer] | None:
        settings = self._options.event_time
        if settings is None:
            return None
        if self._options.times_are_noted:
            return partial(WatermarkTimer, StreamWatermarks(client))
        return partial(RecordTimer, settings, self._decoder_for_times())

    def list_splits(self, context: EnumeratorContext) -> Iterator[SegmentRange]:
        """Yields ranges from the head, or the starting cut, to where the tail is now, or the ending cut."""
        client = StreamClient(self._options.connection)
        enumerator = PravegaSplitEnumerator(context, client, self._options, None, bounded=True)
        try:
            enumerator.prepare_for_available_now()
            while splits := enumerator.take_batch(ReadLimits()):
                yield from splits
        finally:
            enumerator.close()

    def create_reader(self, context: ReaderContext) -> PravegaSplitReader:
        """Makes the reader of a task."""
        options = self._options
        return PravegaSplitReader(
            options.connection,
            context.metrics,
            fail_on_data_loss=options.fail_on_data_loss,
            piece_bytes=options.piece_bytes,
        )

    def create_emitter(self, context: ReaderContext) -> PravegaRecordEmitter:
        """Makes the emitter of a task, with the driver's decoder."""
        return PravegaRecordEmitter(
            context,
            self._decoder,
            BadRecordPolicy(self._options.bad_records, ("null", "deadLetter"), context.metrics),
            bad_record_column=self._options.bad_record_column,
        )
