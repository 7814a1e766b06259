"""Reads ranges of partitions: batches of records, waiting for brokers, and what is done about records that are gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import DataLostError, RetriableError
from penstock.metrics import Metrics
from penstock.source import RecordsBySplits, SplitReader
from penstock.source.log import LogPartition, LogSplit, LossPolicy
from penstock_kafka.client import (
    ClientConfig,
    ClientKind,
    OffsetOutOfRangeError,
    PartitionRange,
    RangeConsumer,
    TopicReplacedError,
    TransientClientError,
)
from penstock_kafka.client.broker import KafkaAdmin
from penstock_kafka.source._kept_consumers import KEPT_CONSUMERS

__all__ = ["KafkaSplitReader"]

_POLL_MS = 500
#: After this long without a record, the brokers are asked whether what is waited for exists at all.
_LOOK_AFTER_SECONDS = 5.0


@dataclass
class _Reading:
    """A split being read: its next offset."""

    split: LogSplit
    next: int
    end: int

    @property
    def partition(self) -> LogPartition:
        return self.split.log_partition


class KafkaSplitReader(SplitReader[pa.RecordBatch, LogSplit]):
    """Reads the splits of a task. An element is a batch of records as the client returns them.

    A fetch raises a :class:`RetriableError` after every five seconds without a record or the end of a range. The next
    one continues, and the engine fails the task once ``retryTimeout`` is over. Offsets that a partition does not hold
    (any more, or not yet) are lost: :class:`DataLostError`, or with ``fail_on_data_loss`` false they are skipped and
    counted (metric ``records_lost``; gaps of control records and compaction inside the lost range are counted with it).
    Metrics: ``bytes_read`` counts the Arrow buffers of the records, ``held_back_ms`` the time for which a quota of the
    brokers has held reading back: nothing is expected to come then.
    """

    def __init__(
        self,
        config: ClientConfig,
        implementation: str,
        open_admin: Callable[[], KafkaAdmin],
        metrics: Metrics,
        *,
        headers: bool,
        fail_on_data_loss: bool,
    ) -> None:
        self._config = config
        self._implementation = implementation
        self._open_admin = open_admin
        self._metrics = metrics
        self._headers = headers
        self._losses = LossPolicy(fail=fail_on_data_loss, metrics=metrics)
        self._consumer: RangeConsumer | None = None
        self._admin: KafkaAdmin | None = None
        self._reading: dict[str, _Reading] = {}
        #: By topic, the id that the splits were planned for.
        self._ids: dict[str, str] = {}
        #: Splits that were read to their ends by a client that uses names, before the ids are compared once more.
        self._unconfirmed: list[str] = []
        self._assigned: list[str] = []
        self._quiet_since: float | None = None
        self._trouble = ""
        #: Of the consumer's milliseconds, those that are counted: it may have served other tasks before.
        self._held_back_ms = 0

    def handle_splits_changes(self, splits: Sequence[LogSplit]) -> None:
        """Adds splits. All unfinished ones are assigned again with the next fetch."""
        self._reading.update({split.split_id: _Reading(split, split.start, split.end) for split in splits})
        self._ids.update({split.stream: split.incarnation for split in splits if split.incarnation})
        self._assigned = []

    def fetch(self) -> RecordsBySplits[pa.RecordBatch]:
        """Polls the client, and handles what it reports."""
        if self._consumer is None:
            self._consumer = KEPT_CONSUMERS.acquire(ClientKind.of(self._config, self._implementation))
            self._held_back_ms = self._consumer.held_back.ms
        if self._unconfirmed:
            return self._confirm()
        if not self._assigned:
            if replaced := self._replaced():
                return self._skip_replaced(replaced)
            self._assign()
        started = time.monotonic()
        try:
            fetched = self._consumer.poll(_POLL_MS)
        except TransientClientError as error:  # it may pass, and the client continues by itself
            self._trouble = f": {error}"
            return self._nothing_came(started)
        except OffsetOutOfRangeError as error:
            return self._skip_refused(LogPartition(error.topic, error.partition), str(error))
        except TopicReplacedError as error:
            return self._skip_replaced({error.topic: str(error)})
        except DataLostError as error:
            return self._skip_refused(None, str(error))
        self._count_held_back(self._consumer)
        if not fetched:
            return self._nothing_came(started)
        self._quiet_since, self._trouble = None, ""
        result: RecordsBySplits[pa.RecordBatch] = RecordsBySplits()
        for one in fetched:
            split_id = self._assigned[one.range_index]
            if one.records is not None and one.records.num_rows:
                self._metrics.add("bytes_read", one.records.nbytes)
                self._reading[split_id].next = one.records["offset"][-1].as_py() + 1
                result.records.append((split_id, one.records))
            if one.finished:
                del self._reading[split_id]
                result.finished_splits.append(split_id)
        if not self._reading and self._ids and not self._consumer.reads_by_id:
            self._unconfirmed, result.finished_splits = result.finished_splits, []
        return result

    def _assign(self) -> None:
        self._assigned = list(self._reading)
        ranges = [
            PartitionRange(split.stream, split.partition, reading.next, reading.end, split.incarnation)
            for reading in self._reading.values()
            for split in (reading.split,)
        ]
        assert self._consumer is not None
        self._consumer.assign(ranges, headers=self._headers)

    def _count_held_back(self, consumer: RangeConsumer) -> None:
        if more := consumer.held_back.ms - self._held_back_ms:
            self._held_back_ms += more
            self._metrics.add("held_back_ms", more)

    # --- nothing comes ------------------------------------------------------------------------------------------------

    def _nothing_came(self, started: float) -> RecordsBySplits[pa.RecordBatch]:
        """Waits on; looks now and then whether the log still reaches as far as the ranges do."""
        assert self._consumer is not None
        if self._consumer.held_back.is_so:
            self._quiet_since = None
            return RecordsBySplits()
        self._quiet_since = started if self._quiet_since is None else self._quiet_since
        quiet = time.monotonic() - self._quiet_since
        if quiet < _LOOK_AFTER_SECONDS:
            return RecordsBySplits()
        self._quiet_since = None
        held: dict[LogPartition, tuple[int, int]] | None = None
        try:
            held = self._held()
        except RetriableError as error:
            self._trouble = f"; the brokers can't be asked what they hold: {error}"
        lost = self._skip_lost(held) if held is not None else None
        if lost is not None:
            return lost
        raise RetriableError(f"nothing came for {quiet:.0f} s of {self._described(held)}{self._trouble}")

    def _described(self, held: Mapping[LogPartition, tuple[int, int]] | None) -> str:
        first = next(iter(self._reading.values()))
        more = f" and of {len(self._reading) - 1} more ranges" if len(self._reading) > 1 else ""
        there = held.get(first.partition) if held is not None else None
        holding = f" (the brokers hold {there[0]} to {there[1] - 1})" if there else ""
        return f"{first.partition} from offset {first.next} to {first.end - 1}{holding}{more}"

    # --- what is gone -------------------------------------------------------------------------------------------------

    def _skip_refused(self, suspect: LogPartition | None, why: str) -> RecordsBySplits[pa.RecordBatch]:
        """Leaves out what the client could not read for the reason ``why``, if the brokers do not hold it.

        ``suspect`` is the partition that the client complained about.
        """
        skipped = self._skip_lost(self._held())
        if skipped is None:
            self._assigned = []
            where = f"{suspect}: " if suspect is not None else ""
            raise RetriableError(f"{where}{why}, and yet the brokers say that they hold it: try again")
        return skipped

    def _replaced(self) -> dict[str, str]:
        """Returns what to say of topics that were replaced, for a client that does not notice it."""
        assert self._consumer is not None
        if self._consumer.reads_by_id or not self._ids:
            return {}
        now = self._asked().describe(list(self._ids))
        return {
            topic: f"topic '{topic}' was deleted and re-created: id {before} is now {now[topic][0]}"
            for topic, before in self._ids.items()
            if topic in now and now[topic][0] not in ("", before)
        }

    def _skip_replaced(self, replaced: Mapping[str, str]) -> RecordsBySplits[pa.RecordBatch]:
        """Leaves out ranges of topics that are gone. Raises DataLostError."""
        finished = [split_id for split_id, reading in self._reading.items() if reading.partition.stream in replaced]
        for split_id in finished:
            reading = self._reading.pop(split_id)
            what = f"{reading.partition} offsets {reading.next} to {reading.end - 1} are gone"
            self._losses.report(f"{replaced[reading.partition.stream]}; {what}", reading.end - reading.next)
        self._ids = {topic: one for topic, one in self._ids.items() if topic not in replaced}
        self._assigned = []
        return RecordsBySplits(finished_splits=finished)

    def _confirm(self) -> RecordsBySplits[pa.RecordBatch]:
        """Finishes what was read if its topics are still there. A client that uses names may have read another."""
        for topic, why in self._replaced().items():
            self._losses.report(f"{why} while it was read: some of the records may be the new one's")
            del self._ids[topic]
        finished, self._unconfirmed = self._unconfirmed, []
        return RecordsBySplits(finished_splits=finished)

    def _skip_lost(self, held: Mapping[LogPartition, tuple[int, int]]) -> RecordsBySplits[pa.RecordBatch] | None:
        """Compares every range with what the brokers hold, and leaves out what they don't. Raises DataLostError.

        ``None`` if they hold all of it.
        """
        lost = [self._clip(reading, held.get(reading.partition)) for reading in self._reading.values()]
        if not any(lost):
            return None
        finished = [s for s, reading in self._reading.items() if reading.next >= reading.end]
        for split_id in finished:
            del self._reading[split_id]
        self._assigned = []
        return RecordsBySplits(finished_splits=finished)

    def _clip(self, reading: _Reading, held: tuple[int, int] | None) -> bool:
        """Shortens ``reading`` to what is held; whether that was necessary."""
        partition, start, end = reading.partition, reading.next, reading.end
        if held is None:
            self._losses.report(
                f"{partition} does not exist any more: offsets {start} to {end - 1} are gone", end - start
            )
            reading.next = end
            return True
        earliest, latest = held
        if start < earliest:
            gone = min(earliest, end)
            self._losses.report(
                f"{partition}: offsets {start} to {gone - 1} were dropped before they were read", gone - start
            )
            reading.next = gone
        if latest < end and reading.next < end:
            first = max(latest, reading.next)
            self._losses.report(
                f"{partition} ends at {latest}: offsets {first} to {end - 1}, which were there when the batch was "
                "planned, are gone",
                end - first,
            )
            reading.end = first
        return (reading.next, reading.end) != (start, end)

    def _held(self) -> dict[LogPartition, tuple[int, int]]:
        admin = self._asked()
        wanted = list({reading.partition for reading in self._reading.values()})
        earliest, end = admin.earliest(wanted), admin.end(wanted)
        return {p: (earliest[p], end[p]) for p in wanted if p in earliest and p in end}

    def _asked(self) -> KafkaAdmin:
        if self._admin is None:
            self._admin = self._open_admin()
        return self._admin

    # --- life ---------------------------------------------------------------------------------------------------------

    def wake_up(self) -> None:
        """Makes a blocked fetch return. Any thread."""
        consumer = self._consumer
        if consumer is not None:
            consumer.wake_up()

    def close(self) -> None:
        """Keeps a consumer that came to the end of its ranges for the next task; closes any other."""
        if self._admin is not None:
            self._admin.close()
        consumer, self._consumer = self._consumer, None
        if consumer is None:
            return
        if self._reading:
            KEPT_CONSUMERS.discard(consumer)
            consumer.close()
        else:
            consumer.assign([], headers=False)
            KEPT_CONSUMERS.release(consumer)
