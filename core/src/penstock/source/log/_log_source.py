"""The source template for logs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.errors import BadConfigurationError, FatalError
from penstock.serialization import SimpleVersionedSerializer
from penstock.source._contracts import EnumeratorContext, ReadLimits, Source, SplitEnumerator, SupportsOffsetAdoption
from penstock.source.log._alignment import Alignment
from penstock.source.log._contracts import LogClient, LogOptions, LogSplit, LogState
from penstock.source.log._enumerator import LogEnumerator
from penstock.source.log._limits import cut
from penstock.source.log._positions import LogPartition
from penstock.source.log._sampling import RecordSampler
from penstock.source.log._serializers import SPLIT_SERIALIZER, STATE_SERIALIZER

__all__ = ["LogSource"]

#: Ranges of fewer records than this share a task when there are more of them than tasks at a time.
SMALL_RANGE_RECORDS = 10_000


class LogSource(Source[LogSplit, LogState], SupportsOffsetAdoption[LogSplit, LogState]):
    """A connector adds its options, its client, its split reader and its emitter."""

    @property
    @abstractmethod
    def log_options(self) -> LogOptions:
        """What the template needs to know."""

    @abstractmethod
    def create_client(self) -> LogClient:
        """Returns a connection to the system. Driver; several threads use it."""

    @property
    def split_serializer(self) -> SimpleVersionedSerializer[LogSplit]:
        return SPLIT_SERIALIZER

    @property
    def enumerator_serializer(self) -> SimpleVersionedSerializer[LogState]:
        return STATE_SERIALIZER

    def read_limits(self) -> ReadLimits:
        options = self.log_options
        return ReadLimits(
            max_records=options.max_records,
            min_records=options.min_records,
            max_trigger_delay_ms=options.max_trigger_delay_ms,
        )

    def create_enumerator(
        self, context: EnumeratorContext, checkpoint: LogState | None
    ) -> SplitEnumerator[LogSplit, LogState]:
        return LogEnumerator(context, self.create_client(), self.log_options, checkpoint, alignment=self._alignment())

    def _alignment(self) -> Alignment | None:
        settings = self.log_options.event_time
        if settings is None:
            return None
        return Alignment(
            RecordSampler(*self.for_sampling(), settings),
            drift_ms=settings.max_drift_ms,
            out_of_orderness_ms=settings.strategy.out_of_orderness_ms,
            idle_timeout_ms=settings.idle_timeout_ms,
        )

    def for_sampling(self) -> tuple[LogSource, pa.Schema]:
        """Returns what the driver looks at a few records with, to know their event times: a source and the columns to
        read.

        Its readers should fetch little at a time, and leave what can't be read or decoded for the tasks to tell. By
        default this source and its fixed schema. Raises BadConfigurationError if there is none.
        """
        schema = self.fixed_schema()
        if schema is None:
            raise BadConfigurationError("this source has no columns of its own to take event times from")
        return self, schema

    def list_splits(self, context: EnumeratorContext) -> Iterator[LogSplit]:
        """Yields splits from ``batch_start`` to ``stop``, or to the latest position now."""
        enumerator = LogEnumerator(context, self.create_client(), self.log_options, None, bounded=True)
        try:
            enumerator.prepare_for_available_now()
            yield from enumerator.take_batch(ReadLimits())
        finally:
            enumerator.close()

    def assign_splits(self, splits: Sequence[LogSplit], parallelism: int) -> list[list[LogSplit]]:
        """Returns one task for each range; small neighbours share one, as long as there are as many tasks as slots or
        asked.
        """
        tasks = max(parallelism, self.log_options.min_partitions or 0)
        may_join = len(splits) - tasks
        largest = min(SMALL_RANGE_RECORDS, self.log_options.max_records_per_partition or SMALL_RANGE_RECORDS)
        if may_join <= 0:
            return [[split] for split in splits]
        total = max(1, sum(split.records for split in splits))
        assigned: list[list[LogSplit]] = []
        filled = before = 0
        last_share = -1
        for split in splits:
            # Which of the tasks its middle falls to, if they share the records out evenly.
            share = (2 * before + split.records) * tasks // (2 * total)
            before += split.records
            if may_join and share == last_share and filled + split.records <= largest:
                assigned[-1].append(split)
                filled += split.records
                may_join -= 1
            else:
                assigned.append([split])
                filled = split.records
            last_share = share
        return assigned

    def adopt_offset(self, value: Mapping[str, Any]) -> LogState | None:
        """Takes ``{stream: {partition: offset}}``, as Spark's own Kafka source stores it."""
        positions: dict[LogPartition, int] = {}
        for stream, numbers in value.items():
            if not isinstance(numbers, Mapping):
                return None
            for number, offset in numbers.items():
                if not (number.isdigit() and isinstance(offset, int)):
                    return None
                positions[LogPartition(stream, int(number))] = offset
        return LogState(positions)

    def splits_between(self, start: LogState | None, end: LogState) -> list[LogSplit]:
        """Returns the ranges between two offsets. A partition that ``start`` does not have is new: it begins at 0.

        Raises :class:`FatalError` if nothing tells where the very first batch began.
        """
        if start is None:
            raise FatalError(
                "the checkpoint holds only a first batch that another connector planned and did not finish: finish it "
                "with that connector, or start with a new checkpoint location"
            )
        before = start.positions
        ranges = [
            LogSplit(p.stream, p.partition, before.get(p, 0), position, end.incarnations.get(p.stream, ""))
            for p, position in sorted(end.positions.items())
            if position > before.get(p, 0)
        ]
        return cut(ranges, self.log_options.min_partitions, self.log_options.max_records_per_partition)
