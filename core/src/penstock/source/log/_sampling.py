"""Looks at a few records on the driver: what times they have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.metrics import Metrics
from penstock.source._contracts import ReaderContext, Source
from penstock.source.event_time import EventTimeSettings
from penstock.source.log._contracts import LogSplit
from penstock.source.log._positions import LogPartition

__all__ = ["RecordSampler", "Sample"]


@dataclass(frozen=True)
class Sample:
    """Of some records: their latest time and the watermark they bring, in ms; ``None`` where they don't tell."""

    time: int | None
    watermark: int | None


class RecordSampler:
    """Reads ranges of records with the source's own reader and emitter. Driver, coordinator thread.

    Memory is one range of each partition, decoded.
    """

    def __init__(self, source: Source[LogSplit, Any], schema: pa.Schema, settings: EventTimeSettings) -> None:
        settings.check(schema)
        self._source, self._schema = source, schema
        self._settings = settings

    def sample(self, ranges: Mapping[LogPartition, tuple[int, int]]) -> dict[LogPartition, Sample]:
        """Reads, of each partition, the records from the first position (inclusive) to the second (exclusive)."""
        found = (LogSplit(p.stream, p.partition, start, end) for p, (start, end) in ranges.items())
        splits = {split.split_id: split for split in found}
        rows = self._read(splits)
        return {split.log_partition: self._sample_of(rows[split_id]) for split_id, split in splits.items()}

    def _read(self, splits: Mapping[str, LogSplit]) -> dict[str, list[pa.RecordBatch]]:
        context = ReaderContext(self._schema, Metrics())
        reader, emitter = self._source.create_reader(context), self._source.create_emitter(context)
        rows: dict[str, list[pa.RecordBatch]] = {split_id: [] for split_id in splits}
        states = {split_id: emitter.split_state(split) for split_id, split in splits.items()}
        try:
            reader.handle_splits_changes(list(splits.values()))
            while states:
                fetched = reader.fetch()
                for split_id, element in fetched.records:
                    rows[split_id].extend(emitter.emit_record(element, states[split_id]))
                for split_id in fetched.finished_splits:
                    rows[split_id].extend(emitter.finish_split(states.pop(split_id)))
        finally:
            reader.close()
        return rows

    def _sample_of(self, batches: list[pa.RecordBatch]) -> Sample:
        if not any(batch.num_rows for batch in batches):
            return Sample(None, None)
        records = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
        timestamps = self._settings.assigner.timestamps(records)
        return Sample(pc.max(timestamps).as_py(), self._settings.strategy.watermark(records, timestamps))
