"""Sinks for simulations of the other two templates: rows that are sent once they are decided, and upserts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa

from penstock.sink import (
    CheckpointCommitter,
    IdempotentSink,
    Segment,
    Sender,
    SinkContext,
    Upserter,
    WriteAheadSink,
    WriterContext,
    base_of,
)
from penstock.testing.simulation._scheduler import Scheduler
from penstock.testing.simulation._target import SimulatedTarget, Violation, target

__all__ = ["CellTarget", "SendTarget"]

#: How calls end whose caller does not know what they have done, or does not live to know it.
_UNHEARD = (
    *("killed", "times out", "fails", "done, and fails"),
    *("refused", "unanswered", "unanswered, and done", "unanswered, and late"),
)


class SendTarget(SimulatedTarget):
    """A system that takes rows and can't tell a second sending from a first; and what was recorded of it."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self.rows: Counter[int] = Counter()
        self.recorded: set[str] = set()
        self.twice: set[str] = set()
        self.sent: set[str] = set()

    def create_sink(self) -> SendingSink:
        return SendingSink()

    def shown(self) -> list[tuple[str, int]]:
        return [("", row) for row in self.rows]

    def left(self) -> list[str]:
        return sorted(self.recorded)

    def check(self, faults: Counter[str], owners: int) -> None:
        """Checks, for each sender that was killed, displaced or unanswered, the segments that it was sending."""
        ended = sum(faults[how] for how in _UNHEARD)
        if len(self.twice) > 2 * (ended + owners - 1):
            raise Violation(f"{sorted(self.twice)} were sent twice, more than senders were killed or displaced")

    def send(self, segment: str, rows: Sequence[int]) -> None:
        """Takes rows."""
        self.rows.update(rows)
        if segment in self.sent:
            self.twice.add(segment)
        self.sent.add(segment)


class CellTarget(SimulatedTarget):
    """A system with a write timestamp for each key: the greatest stays, and of equal ones the one that came first."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self.cells: dict[int, tuple[int, int]] = {}

    def create_sink(self) -> UpsertingSink:
        return UpsertingSink()

    def shown(self) -> list[tuple[str, int]]:
        return [("", value) for _, value in self.cells.values()]

    def left(self) -> list[str]:
        return []

    def key_of(self, row: int) -> int:
        """Rows of one key in several tasks have no order."""
        return row % 3

    def check(self, faults: Counter[str], owners: int) -> None:
        """Rows may be seen before their batch is decided, and again."""

    def missing(self, rows: range) -> list[int]:
        """A later row of its key stands for a row."""
        return [row for row in rows if self.cells.get(row % 3, (0, -1))[1] < row]

    def check_end(self, rows: range) -> None:
        """The last value of each key stays."""
        wanted = {key: max(row for row in rows if row % 3 == key) for key in {row % 3 for row in rows}}
        found = {key: value for key, (_, value) in self.cells.items()}
        if found != wanted:
            raise Violation(f"keys show {found}, not {wanted}")

    def write(self, rows: Sequence[tuple[int, int]], stamp: int) -> None:
        """Takes keys and values."""
        for key, value in rows:
            if key not in self.cells or stamp > self.cells[key][0]:
                self.cells[key] = (stamp, value)


class SendingSink(WriteAheadSink):
    """Segments of one row each."""

    segment_bytes = 8

    def create_sender(self, context: SinkContext) -> Sender:
        return _Sender()

    def create_checkpoint_committer(self, context: SinkContext) -> CheckpointCommitter:
        return _Recorder()


class _Sender(Sender):
    def send(self, batches: Iterator[pa.RecordBatch], segment: Segment) -> None:
        rows = [row for batch in batches for row in batch.column(0).to_pylist()]
        there = target()
        half = rows[: len(rows) // 2]
        there.scheduler.call(
            f"send {segment.id[-14:]} {rows}",
            lambda: there.send(segment.id, rows),
            torn=lambda: there.send(segment.id, half),
        )


class _Recorder(CheckpointCommitter):
    def is_recorded(self, segment: Segment) -> bool:
        there = target()
        return bool(there.scheduler.call(f"recorded? {segment.id[-14:]}", lambda: segment.id in there.recorded))

    def record(self, segment: Segment) -> None:
        there = target()
        there.scheduler.call(f"record {segment.id[-14:]}", lambda: there.recorded.add(segment.id))

    def forget(self, before_base: int, kept: Collection[str]) -> None:
        there = target()

        def forget() -> None:
            there.recorded = {one for one in there.recorded if base_of(one) >= before_base or one in kept}

        there.scheduler.call(f"forget below {before_base}", forget)


class UpsertingSink(IdempotentSink):
    """Keys are what is left of a row's number divided by three."""

    @property
    def key_columns(self) -> Sequence[str]:
        return ["id"]

    def create_upserter(self, context: WriterContext) -> Upserter:
        return _CellUpserter(context)


class _CellUpserter(Upserter):
    def __init__(self, context: WriterContext) -> None:
        self._who = f"{context.batch_id}.{context.writer_index}"

    def comparable_keys(self, batch: pa.RecordBatch, keys: Sequence[str]) -> Sequence[pa.Array]:
        return [pa.array([target().key_of(row) for row in batch.column(0).to_pylist()], pa.int64())]

    def upsert(self, batch: pa.RecordBatch, timestamp_us: int) -> None:
        there = target()
        rows = [(there.key_of(row), row) for row in batch.column(0).to_pylist()]
        there.scheduler.call(f"upsert {rows} at {timestamp_us}", lambda: there.write(rows, timestamp_us))
