"""Blocks of events as batches of the schema that was asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from penstock.serialization.formats import RecordDecoder
from penstock.source import BadRecordPolicy, ConstantColumns, ReaderContext, RecordEmitter
from penstock_pravega.client import segment_name
from penstock_pravega.source._reader import Block
from penstock_pravega.source._split import SegmentRange

__all__ = ["PravegaRecordEmitter", "event_schema"]


class PravegaRecordEmitter(RecordEmitter[Block, SegmentRange]):
    """Decodes the events where a decoder is given, and adds where they are.

    The value of an event that can't be decoded is null, if ``bad_records`` lets it pass.
    """

    def __init__(self, context: ReaderContext, decoder: RecordDecoder | None, bad_records: BadRecordPolicy) -> None:
        self._context = context
        self._decoder = decoder
        self._bad_records = bad_records
        self._constants = ConstantColumns()

    def emit_record(self, element: Block, split_state: SegmentRange) -> Iterator[pa.RecordBatch]:
        """Yields one batch for each block, with the columns that were asked for."""
        offsets = pa.array(element.starts)
        rows = len(offsets)
        makers: dict[str, Callable[[], pa.Array]] = {
            "value": lambda: self._value(element, split_state, offsets),
            "stream": lambda: self._constants.column("stream", split_state.stream, pa.string(), rows),
            "segment": lambda: self._constants.column("segment", split_state.segment, pa.int64(), rows),
            "offset": lambda: offsets,
            "position": lambda: _positions(split_state, offsets),
        }
        names = self._context.schema.names
        yield pa.RecordBatch.from_arrays([makers[name]() for name in names], names=names)

    def _value(self, element: Block, split: SegmentRange, offsets: pa.Array) -> pa.Array:
        values = element.values()
        if self._decoder is None:
            return values
        decoded = self._decoder.decode(values)
        segment = segment_name(split.stream, split.segment)
        self._bad_records.check(decoded.errors, lambda row: f"{segment} offset {offsets[row]}")
        return decoded.column


def _positions(split: SegmentRange, offsets: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(segment_name(split.stream, split.segment), offsets.cast(pa.string()), ":")


def event_schema(value: pa.DataType, *, position: bool = False) -> pa.Schema:
    """``value``: the event, decoded; ``stream`` (``scope/stream``), ``segment`` (its id: epoch × 2³² + number) and
    ``offset`` (of the event's first byte in the segment) name it for good; ``position`` does so in one text.
    """
    fields = [
        pa.field("value", value),
        pa.field("stream", pa.string()),
        pa.field("segment", pa.int64()),
        pa.field("offset", pa.int64()),
    ]
    return pa.schema([*fields, pa.field("position", pa.string())] if position else fields)
