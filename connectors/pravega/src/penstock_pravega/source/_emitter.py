"""Blocks of events as batches of the schema that was asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from penstock.dead_letters import LETTER_TYPE, letters
from penstock.serialization.formats import RecordDecoder
from penstock.source import BadRecordPolicy, ConstantColumns, ReaderContext, RecordEmitter
from penstock_pravega.client import segment_name
from penstock_pravega.source._reader import Block
from penstock_pravega.source._split import SegmentRange

__all__ = ["PravegaRecordEmitter", "event_schema"]


class PravegaRecordEmitter(RecordEmitter[Block, SegmentRange]):
    """Decodes the events where a decoder is given, and adds where they are.

    The value of an event that can't be decoded is null, if ``bad_records`` lets it pass, and the event itself is in
    ``bad_record_column`` if the schema names one.
    """

    def __init__(
        self,
        context: ReaderContext,
        decoder: RecordDecoder | None,
        bad_records: BadRecordPolicy,
        *,
        bad_record_column: str | None = None,
    ) -> None:
        self._context = context
        self._decoder = decoder
        self._bad_records = bad_records
        self._bad_record_column = bad_record_column
        self._constants = ConstantColumns()

    def emit_record(self, element: Block, split_state: SegmentRange) -> Iterator[pa.RecordBatch]:
        """Yields one batch for each block, with the columns that were asked for."""
        offsets = pa.array(element.starts)
        rows = len(offsets)
        names = self._context.schema.names
        column, marked = (
            self._decoded(element, split_state, offsets)
            if {"value", self._bad_record_column} & set(names)
            else (None, None)
        )
        makers: dict[str, Callable[[], pa.Array]] = {
            "value": lambda: column,
            "stream": lambda: self._constants.column("stream", split_state.stream, pa.string(), rows),
            "segment": lambda: self._constants.column("segment", split_state.segment, pa.int64(), rows),
            "offset": lambda: offsets,
            "position": lambda: _positions(split_state, offsets),
        }
        if self._bad_record_column is not None:
            makers[self._bad_record_column] = lambda: marked
        yield pa.RecordBatch.from_arrays([makers[name]() for name in names], names=names)

    def _decoded(self, element: Block, split: SegmentRange, offsets: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Returns the values, and a letter for each that can't be decoded."""
        values = element.values()
        errors = None
        column = values
        if self._decoder is not None:
            decoded = self._decoder.decode(values)
            segment = segment_name(split.stream, split.segment)
            self._bad_records.check(decoded.errors, lambda row: f"{segment} offset {offsets[row]}")
            column, errors = decoded.column, decoded.errors
        if errors is None or self._bad_record_column is None:
            return column, pa.nulls(len(offsets), LETTER_TYPE)
        marked = letters(
            errors,
            stage="source",
            connector="pravega",
            source=split.stream,
            partition=split.segment,
            offset=offsets,
            value=values,
        )
        return column, marked


def _positions(split: SegmentRange, offsets: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(segment_name(split.stream, split.segment), offsets.cast(pa.string()), ":")


def event_schema(value: pa.DataType, *, position: bool = False, bad_record_column: str | None = None) -> pa.Schema:
    """``value``: the event, decoded; ``stream`` (``scope/stream``), ``segment`` (its id: epoch × 2³² + number) and
    ``offset`` (of the event's first byte in the segment) name it for good; ``position`` does so in one text. The
    column for bad events comes last, if it has a name.
    """
    fields = [
        pa.field("value", value),
        pa.field("stream", pa.string()),
        pa.field("segment", pa.int64()),
        pa.field("offset", pa.int64()),
    ]
    if position:
        fields.append(pa.field("position", pa.string()))
    if bad_record_column is not None:
        fields.append(pa.field(bad_record_column, LETTER_TYPE))
    return pa.schema(fields)
