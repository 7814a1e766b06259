"""The cases of a source about reading: every row once, and nothing left running."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from typing import ClassVar

from penstock.connector import Capability
from penstock.testing._capabilities import proves
from penstock.testing._origin import SourceOrigin
from penstock.testing._source_base import SourceBase
from penstock.testing._source_engine import SourceQuery
from penstock.testing._verdict import does_not_apply

__all__ = ["SourceReadingCases"]

#: How long it may take to leave a task (s).
_LEAVING_S = 5.0


class SourceReadingCases(SourceBase):
    """Rows arrive. ``ordered``: whether the rows of a split have an order, that in which they were put there."""

    ordered: ClassVar[bool] = True

    @proves(Capability.BATCH_READ)
    def test_a_batch_reads_everything_once(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: a batch job misses rows, or reads some twice.

        Steps: rows are put there at three times; a batch is read, twice.
        Pass: each of the two has every row once.
        If it fails: look at list_splits: splits that overlap, or a discovery that returns before it has seen all.
        """
        for first in (0, 10, 20):
            origin.put(range(first, first + 10))
        for _ in range(2):
            self._check(self._ids(query.read_all_now()), Counter(range(30)))

    @proves(Capability.BATCH_READ)
    def test_an_empty_source_ends(self, query: SourceQuery) -> None:
        """Purpose: nothing to read is not an error, and nothing to wait for.

        Steps: a batch is read before anything was put there.
        Pass: no rows.
        If it fails: a reader must finish a split without elements, an enumerator must return None.
        """
        assert query.read_all_now() == []

    @proves(Capability.STREAM_READ)
    def test_a_stream_reads_everything_once(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: a stream misses rows, or reads some twice.

        Steps: rows are put there; batches are run until they have come and nothing more does.
        Pass: every row has come once.
        If it fails: the state after a batch must hold everything that was handed out.
        """
        origin.put(range(20))
        self._read_rest(query, Counter(range(20)))

    @proves(Capability.DISCOVERY)
    def test_rows_that_come_later_are_found(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: a stream grows while the query runs.

        Steps: rows are put there at three times, and read in between.
        Pass: every row has come once.
        If it fails: discover with context.call_async(interval_ms=...), and hand over in its handler.
        """
        for first in (0, 10, 20):
            origin.put(range(first, first + 10))
            self._read_rest(query, Counter(range(first, first + 10)))

    @proves(Capability.STREAM_READ)
    def test_an_idle_stream_stands_still(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: offsets converge: without new rows there are no more batches.

        Steps: everything is read; three more batches are asked for; equal offsets are given to partitions().
        Pass: there is no further batch, and between equal offsets there are no tasks.
        If it fails: snapshot_state must not change (times, counters) while nothing is handed out.
        """
        origin.put(range(5))
        self._read_rest(query, Counter(range(5)))
        assert [query.run_batch() for _ in range(3)] == [None] * 3
        offset = query.reader.initialOffset()
        assert query.reader.partitions(offset, offset) == []

    @proves(Capability.ADMISSION_CONTROL)
    def test_the_read_limit_bounds_every_batch(self, origin: SourceOrigin) -> None:
        """Purpose: a backlog is read in pieces.

        Steps: the option of ``limit`` is set; rows are put there in 30 calls; the driver is restarted now and then.
        Pass: there are several batches, none larger than said, and every row has come once.
        If it fails: see Source.read_limits and SplitEnumerator.take_batch.
        """
        assert self.limit is not None, "say which option limits a batch: limit = (name, value, rows it lets through)"
        name, value, most = self.limit
        for number in range(30):
            origin.put([number])
        query = SourceQuery(self._source(origin, **{name: value}), self.schema)
        try:
            sizes, seen = [], Counter[int]()
            for number in itertools.count():
                if seen.total() >= 30:
                    break
                assert number < 60, f"{seen.total()} of 30 rows have come in {number} batches"
                rows = self._ids(query.read(batch := self._plan(query)))
                query.commit(batch)
                sizes.append(rows.total())
                seen += rows
                if number % 3 == 0:
                    query.restart()
            self._check(seen, Counter(range(30)))
            assert max(sizes) <= most, f"a batch had {max(sizes)} rows: '{name}' = {value} lets {most} through"
            assert len(sizes) > 1, f"all rows came in one batch: '{name}' = {value} bounds nothing"
        finally:
            query.stop()

    @proves(Capability.STREAM_READ)
    def test_a_task_that_is_killed_leaves_nothing_running(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: Spark kills tasks: the reader is woken up and everything is freed.

        Steps: the tasks of a batch are begun and left, after nothing and after the first Arrow batch; then the batch is
        read as a whole.
        Pass: leaving ends, within five seconds, and then no fetcher thread is left; the rows are all there afterwards.
        If it fails: SplitReader.wake_up must make fetch() return, from another thread.
        """
        origin.put(range(300))  # enough for many splits in a task, where splits are small
        batch = self._plan(query)
        for taken in (0, 1):
            for splits in query.tasks(batch):
                rows = query.read_task(splits)
                list(itertools.islice(rows, taken))
                left = time.monotonic()
                rows.close()  # type: ignore[attr-defined]
                took = time.monotonic() - left
                assert took < _LEAVING_S, f"leaving the task took {took:.0f} s"
        # The loop inside a task gives a fetcher ten seconds; what does not end by then is still there now.
        left_over = [thread for thread in threading.enumerate() if thread.name == "penstock-fetcher"]
        assert not left_over, "a fetch does not return, although its task has ended: see SplitReader.wake_up"
        seen = self._ids(query.read(batch))
        query.commit(batch)
        self._read_rest(query, Counter(range(300)), seen)

    @proves(Capability.STREAM_READ)
    def test_rows_of_a_split_keep_their_order(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: what happened first is read first: a later row of a key is the one that counts.

        Steps: rows are put there in the order of their numbers, which have gaps; batches are planned, and each split is
        read alone.
        Pass: the rows of each split are in that order.
        If it fails: hand on what was fetched in the order of the fetches, and rows in the order of the system. If that
        has none, set ``ordered = False``.
        """
        if not self.ordered:
            does_not_apply("the rows of a split have no order (ordered = False)")
        numbers = [(1 if self.numbers_are_positions else 97) * number * number for number in range(30)]
        origin.put(numbers)
        seen = 0
        while seen < len(numbers):
            batch = self._plan(query)
            for split in itertools.chain.from_iterable(query.tasks(batch)):
                rows = [self.id_of(row) for part in query.read_task([split]) for row in part.to_pylist()]
                assert rows == sorted(rows), f"split {split.split_id} gives its rows in this order: {rows}"
                seen += len(rows)
            query.commit(batch)

    @proves(Capability.STREAM_READ)
    def test_metrics_count_rows(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: a dashboard shows rows that do not add up.

        Steps: everything is read.
        Pass: 'rows_read' is the number of rows.
        If it fails: the loop inside a task counts them; a source must not count them as well.
        """
        origin.put(range(7))
        self._read_rest(query, Counter(range(7)))
        assert query.metrics.take()["rows_read"] == 7

    @proves(Capability.STREAM_READ)
    def test_more_slots_than_splits(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: readers without a split are idle, and nothing waits for them.

        Steps: one row, and 16 slots.
        Pass: the row is read once, and no task is without a split.
        If it fails: assign_splits must not make tasks without splits.
        """
        origin.put([0])
        query.restart(parallelism=16)
        batch = self._plan(query)
        assert all(query.tasks(batch))
        self._read_rest(query, Counter([0]))
