"""Batches of records as batches of the schema that was asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from penstock.dead_letters import LETTER_TYPE, letters
from penstock.errors import BadDataError
from penstock.serialization.formats import Decoded, RecordDecoder
from penstock.source import BadRecordPolicy, ConstantColumns, ReaderContext, RecordEmitter
from penstock.source.log import LogSplit

__all__ = ["KafkaRecordEmitter"]


class KafkaRecordEmitter(RecordEmitter[pa.RecordBatch, LogSplit]):
    """Decodes ``key`` and ``value`` where a decoder is given for them, and adds columns that are constant in a split.

    The column of a record that can't be decoded is null, if ``bad_records`` lets it pass, and the record itself is in
    ``bad_record_column`` if the schema names one.
    """

    def __init__(
        self,
        context: ReaderContext,
        decoders: Mapping[str, RecordDecoder],
        bad_records: BadRecordPolicy,
        *,
        bad_record_column: str | None = None,
    ) -> None:
        self._context = context
        self._decoders = decoders
        self._bad_records = bad_records
        self._bad_record_column = bad_record_column
        self._constants = ConstantColumns()

    def emit_record(self, element: pa.RecordBatch, split_state: LogSplit) -> Iterator[pa.RecordBatch]:
        """Decodes a batch of records, and chooses the columns that were asked for."""
        decoded = {name: decoder.decode(element[name]) for name, decoder in self._decoders.items()}
        reasons = _reasons(decoded)
        self._bad_records.check(reasons, lambda row: _place(split_state, element, row))
        rows = element.num_rows
        makers: dict[str, Callable[[], pa.Array]] = {
            "topic": lambda: self._constants.column("topic", split_state.stream, pa.string(), rows),
            "partition": lambda: self._constants.column("partition", split_state.partition, pa.int32(), rows),
            "timestamp": lambda: _microseconds(element, split_state),
        }
        if self._bad_record_column is not None:
            makers[self._bad_record_column] = lambda: _dead_letters(element, reasons, split_state)
        names = self._context.schema.names
        columns = [
            decoded[name].column if name in decoded else makers[name]() if name in makers else element[name]
            for name in names
        ]
        yield pa.RecordBatch.from_arrays(columns, names=names)


def _place(split: LogSplit, element: pa.RecordBatch, row: int) -> str:
    return f"topic '{split.stream}' partition {split.partition} offset {element['offset'][row]}"


def _reasons(decoded: Mapping[str, Decoded]) -> pa.Array | None:
    """Returns why records could not be decoded, row for row; ``None`` if all could."""
    reasons = [
        pc.binary_join_element_wise(f"{name}", one.errors, ": ")
        for name, one in decoded.items()
        if one.errors is not None
    ]
    if len(reasons) < 2:
        return reasons[0] if reasons else None
    return pc.coalesce(pc.binary_join_element_wise(*reasons, "; "), *reasons)


def _dead_letters(element: pa.RecordBatch, reasons: pa.Array | None, split: LogSplit) -> pa.Array:
    if reasons is None:
        return pa.nulls(element.num_rows, LETTER_TYPE)
    return letters(
        reasons,
        stage="source",
        connector="kafka",
        source=split.stream,
        partition=split.partition,
        offset=element["offset"],
        timestamp=_microseconds(element, split),
        key=element["key"],
        value=element["value"],
        headers=element["headers"],
    )


def _microseconds(element: pa.RecordBatch, split: LogSplit) -> pa.Array:
    try:
        return element["timestamp"].cast(pa.timestamp("us", tz="UTC"))
    except pa.ArrowInvalid:
        times = element["timestamp"].cast(pa.int64())
        row = pc.index(pc.greater(pc.abs(times), (1 << 63) // 1000 - 1), True).as_py()
        raise BadDataError(
            f"{_place(split, element, row)}: the timestamp {times[row]} (ms since 1970) is beyond what a timestamp "
            "column holds"
        ) from None
