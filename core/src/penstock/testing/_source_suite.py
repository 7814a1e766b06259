"""The cases that a source has to pass. An author subclasses :class:`SourceSuite` and writes one fixture::

    class TestNotes(SourceSuite):
        connector = NotesConnector

        @pytest.fixture
        def origin(self, tmp_path):
            path = tmp_path / "notes.db"
            return SourceOrigin({"path": str(path)}, put=lambda ids: insert_notes(path, ids))

Every case says in its docstring what it is for, what it does, when it passes, and what to look for if it does not. The
cases run on the contracts, driven as Spark drives them (:mod:`penstock.testing._source_engine`).

After the suites of Flink's connector test framework and the tests of its reader base.
"""

from __future__ import annotations

import functools
import itertools
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from penstock.connector import Capability
from penstock.errors import BadConfigurationError, BadDataError, PenstockError, RetriableError
from penstock.testing._capabilities import proves, refuses
from penstock.testing._memory import peak_growth_bytes
from penstock.testing._origin import SourceOrigin
from penstock.testing._rows import SPARK_TYPES
from penstock.testing._source_cases import SourceCases
from penstock.testing._source_engine import SourceQuery
from penstock.testing._source_schedules import SourceSchedule
from penstock.testing._verdict import does_not_apply, not_tried

__all__ = ["SourceSuite"]

#: How long rows may take to be found once they are there (s).
_PATIENCE_S = 30.0
#: How long what has nothing to wait for may take (s).
_GIVE_UP_S = 60.0
#: Between two looks, for a source that finds rows only when it is asked.
_LOOK_AGAIN_S = 0.05


class SourceSuite(SourceCases):
    """See the module and :class:`penstock.testing._source_cases.SourceCases`. What may be overridden as well:
    ``limit``: the option that bounds a micro-batch, with a value, and how many rows that lets through at most;
    ``steps``, how long the random schedule is; ``many``, the rows of the case about memory, and
    ``most_memory_bytes``, by how much a task may grow meanwhile.
    """

    limit: ClassVar[tuple[str, str, int] | None] = None
    steps: ClassVar[int] = 60
    many: ClassVar[int] = 1_000_000
    most_memory_bytes: ClassVar[int] = 128 << 20

    @pytest.fixture
    def query(self, origin: SourceOrigin) -> Iterable[SourceQuery]:
        """Yields a query that reads from ``origin``: a bounded source in steps, if it has a limit."""
        in_steps = {self.limit[0]: self.limit[1]} if self.limit and self._is_bounded else {}
        query = SourceQuery(self._source(origin, **in_steps), self.schema)
        yield query
        query.stop()

    @property
    def _is_bounded(self) -> bool:
        return Capability.BOUNDED in self.connector.capabilities

    def _put(self, origin: SourceOrigin, first: int, count: int, total: int) -> None:
        """``count`` more rows of ``total``; all of them at once where a stream does not see what comes later."""
        if not self._is_bounded:
            origin.put(range(first, first + count))
        elif first == 0:
            origin.put(range(total))

    def _ids(self, rows: Iterable[Mapping[str, Any]] | None) -> Counter[int]:
        return Counter(self.id_of(row) for row in rows or ())

    def _read_until(self, query: SourceQuery, wanted: Counter[int]) -> Counter[int]:
        """Runs batches until as many rows have come as are wanted, then until nothing more comes."""
        seen: Counter[int] = Counter()
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            rows = query.run_batch()
            seen += self._ids(rows)
            if rows is None and seen.total() >= wanted.total():
                break
            if rows is None:
                query.wait(_LOOK_AGAIN_S)
        return seen

    # --- reading ------------------------------------------------------------------------------------------------------

    @proves(Capability.BATCH_READ)
    def test_a_batch_reads_everything_once(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: ``spark.read`` works.

        Steps: rows are put there at three times; a batch is read, twice.
        Pass: each of the two has every row once.
        If it fails: look at list_splits: splits that overlap, or a discovery that returns before it has seen all.
        """
        for first in (0, 10, 20):
            origin.put(range(first, first + 10))
        for _ in range(2):
            assert self._ids(query.read_all_now()) == Counter(range(30))

    @proves(Capability.BATCH_READ)
    def test_an_empty_source_ends(self, query: SourceQuery) -> None:
        """Purpose: nothing to read is not an error, and nothing to wait for.

        Steps: a batch is read before anything was put there.
        Pass: no rows, within a minute.
        If it fails: a reader must finish a split without elements, an enumerator must return None.
        """
        started = time.monotonic()
        assert query.read_all_now() == []
        assert time.monotonic() - started < _GIVE_UP_S

    @proves(Capability.STREAM_READ)
    def test_a_stream_reads_everything_once(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: ``spark.readStream`` works.

        Steps: rows are put there; batches are run until they have come and nothing more does.
        Pass: every row has come once.
        If it fails: the state after a batch must hold everything that was handed out.
        """
        origin.put(range(20))
        assert self._read_until(query, Counter(range(20))) == Counter(range(20))

    @proves(Capability.DISCOVERY)
    def test_rows_that_come_later_are_found(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: a stream grows while the query runs.

        Steps: rows are put there at three times, and read in between.
        Pass: every row has come once.
        If it fails: discover with context.call_async(interval_ms=...), and hand over in its handler.
        """
        for first in (0, 10, 20):
            origin.put(range(first, first + 10))
            wanted = Counter(range(first, first + 10))
            assert self._read_until(query, wanted) == wanted

    @proves(Capability.STREAM_READ)
    def test_an_idle_stream_stands_still(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: offsets converge: without new rows there are no more batches.

        Steps: everything is read; three more batches are asked for; equal offsets are given to partitions().
        Pass: there is no further batch, and between equal offsets there are no tasks.
        If it fails: snapshot_state must not change (times, counters) while nothing is handed out.
        """
        origin.put(range(5))
        self._read_until(query, Counter(range(5)))
        assert [query.run_batch() for _ in range(3)] == [None] * 3
        offset = query.reader.initialOffset()
        assert query.reader.partitions(offset, offset) == []

    @proves(Capability.RESUMABLE)
    def test_a_replayed_batch_has_the_same_rows(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: after a crash the engine runs a planned batch again, with the same offsets.

        Steps: a batch is planned and read; more rows come; the driver is restarted; the batch is read again, twice.
        Pass: the same rows each time; the new ones come in the next batch.
        If it fails: what is read must be decided by the splits alone, with a fixed end for each.
        """
        self._put(origin, 0, 10, 20)
        batch = self._plan(query)
        before = self._ids(query.read(batch))
        self._put(origin, 10, 10, 20)
        for _ in range(2):
            query.restart()
            assert self._ids(query.read(batch)) == before
        query.commit(batch)
        assert before + self._read_until(query, Counter(range(20)) - before) == Counter(range(20))

    def _plan(self, query: SourceQuery) -> int:
        deadline = time.monotonic() + _PATIENCE_S
        while (batch := query.plan()) is None:
            assert time.monotonic() < deadline, f"no batch within {_PATIENCE_S:.0f} s, though there are rows"
            query.wait(_LOOK_AGAIN_S)
        return batch

    @proves(Capability.RESUMABLE)
    @pytest.mark.parametrize("crash", ["after the plan", "after reading", "after the note", "never"])
    def test_a_restart_at_every_step(self, query: SourceQuery, origin: SourceOrigin, crash: str) -> None:
        """Purpose: kill the driver at any point, and no row is lost or read twice by what counts.

        Steps: three times rows come and a batch is planned, read, noted; the driver ends at the named step of each.
        Pass: the rows of the batches that were noted are every row once.
        If it fails: everything that an enumerator knows must be in its state; nothing may be kept elsewhere.
        """
        seen: Counter[int] = Counter()
        for first in (0, 10, 20):
            self._put(origin, first, 10, 30)
            batch = self._plan(query)
            if crash == "after the plan":
                query.restart()
            rows = self._ids(query.read(batch))
            if crash == "after reading":
                query.restart()
                rows = self._ids(query.read(batch))
            query.commit(batch)
            seen += rows
            if crash == "after the note":
                query.restart()
        seen += self._read_until(query, Counter(range(30)) - seen)
        assert seen == Counter(range(30))

    @proves(Capability.RESUMABLE)
    def test_schedules_by_chance(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: what no example shows: drivers that are killed, replaced and informed late, in any order.

        Steps: ``steps`` of them at random: rows come; a batch is planned, read, noted; a plan is lost before it is
        noted; a task or a driver is killed; a driver continues that was thought dead (:mod:`.source_schedules`).
        Pass: a batch that is read again has the same rows, and in the end every row has counted once.
        If it fails: the message tells what happened, in order. A source knows what its state says, and nothing else:
        what was handed out counts only once it comes back in an offset.
        """
        seed = random.randrange(1 << 40)
        if self._is_bounded:
            origin.put(range(30))
        schedule = SourceSchedule(query, None if self._is_bounded else origin.put, self._ids, seed)
        try:
            schedule.run(self.steps)
            query.restart()
            wanted = Counter(range(30 if self._is_bounded else schedule.made))
            found = schedule.counted + self._read_until(query, wanted - schedule.counted)
            assert found == wanted, f"lost {sorted(wanted - found)}, duplicated {sorted(found - wanted)}"
        except AssertionError as error:
            raise AssertionError("\n  ".join([str(error), *schedule.trace])) from None
        finally:
            schedule.close()

    @proves(Capability.RESCALING)
    def test_scale_up_and_down(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: a query continues with more or fewer slots; a planned batch may be read by another number of tasks.

        Steps: batches are planned with 1, 4 and 2 slots, each read after a restart with another number.
        Pass: every row has come once.
        If it fails: a split must say all by itself what to read.
        """
        if Capability.RESUMABLE not in self.connector.capabilities:
            does_not_apply("a query that can't resume continues with no other number of tasks")
        seen: Counter[int] = Counter()
        for first, planned, read in ((0, 1, 4), (10, 4, 1), (20, 2, 3)):
            self._put(origin, first, 10, 30)
            query.restart(parallelism=planned)
            batch = self._plan(query)
            query.restart(parallelism=read)
            seen += self._ids(query.read(batch))
            query.commit(batch)
        assert seen + self._read_until(query, Counter(range(30)) - seen) == Counter(range(30))

    @proves(Capability.RESUMABLE)
    def test_available_now_reads_what_is_there_and_ends(self, origin: SourceOrigin) -> None:
        """Purpose: ``Trigger.AvailableNow``.

        Steps: rows are put there; a run reads until it has nothing more, while others come; a second run.
        Pass: the first run has the first rows and ends, the second has the others, or nothing if the source is bounded.
        If it fails: prepare_for_available_now fixes the end: nothing that is found later may be handed out.
        """
        origin.put(range(10))
        query = SourceQuery(self._source(origin), self.schema, available_now=True)
        try:
            first = self._ids(query.run_batch())
            origin.put(range(10, 20))
            while (rows := query.run_batch()) is not None:
                first += self._ids(rows)
            assert first == Counter(range(10))
            query.restart()
            second: Counter[int] = Counter()
            while (rows := query.run_batch()) is not None:
                second += self._ids(rows)
            assert second == (Counter() if self._is_bounded else Counter(range(10, 20)))
        finally:
            query.stop()

    @proves(Capability.BOUNDED)
    def test_a_bounded_stream_ends(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: a stream of what is there ends by itself, and says so for good.

        Steps: everything is read, with a restart in between; rows are put there; more is asked for.
        Pass: the last offset says that it is the final one, and nothing more comes.
        If it fails: fix the end in the state when the stream begins; see SplitEnumerator.has_ended.
        """
        origin.put(range(20))
        seen = self._ids(query.run_batch())
        query.restart()
        seen += self._read_until(query, Counter(range(20)) - seen)
        assert seen == Counter(range(20))
        assert json.loads(query.offsets[-1]).get("final")
        origin.put(range(20, 30))
        query.restart()
        assert query.run_batch() is None

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
                rows = self._ids(query.read(batch := self._plan(query)))
                query.commit(batch)
                sizes.append(rows.total())
                seen += rows
                if number % 3 == 0:
                    query.restart()
            assert seen == Counter(range(30))
            assert len(sizes) > 1 and max(sizes) <= most
        finally:
            query.stop()

    # --- readers ------------------------------------------------------------------------------------------------------

    @proves(Capability.STREAM_READ)
    def test_a_task_that_is_killed_leaves_nothing_running(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: Spark kills tasks: the reader is woken up and everything is freed.

        Steps: the tasks of a batch are begun and left, after nothing and after the first Arrow batch; then the batch is
        read as a whole.
        Pass: leaving ends, within a minute, and then no fetcher thread is left; the rows are all there afterwards.
        If it fails: SplitReader.wake_up must make fetch() return, from another thread.
        """
        origin.put(range(30))  # enough for several splits in a task, where splits are small
        batch = self._plan(query)
        for taken in (0, 1):
            for splits in query.tasks(batch):
                rows = query.read_task(splits)
                list(itertools.islice(rows, taken))
                left = time.monotonic()
                rows.close()  # type: ignore[attr-defined]
                assert time.monotonic() - left < _GIVE_UP_S
        # The loop inside a task gives a fetcher ten seconds; what does not end by then is still there now.
        assert not [thread for thread in threading.enumerate() if thread.name == "penstock-fetcher"]
        wanted = self._ids(query.read(batch))
        query.commit(batch)
        assert wanted + self._read_until(query, Counter(range(30)) - wanted) == Counter(range(30))

    @proves(Capability.STREAM_READ)
    def test_metrics_count_rows(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: the query's progress shows what was read.

        Steps: everything is read.
        Pass: 'rows_read' is the number of rows.
        If it fails: the loop inside a task counts them; a source must not count them as well.
        """
        origin.put(range(7))
        self._read_until(query, Counter(range(7)))
        assert query.metrics.take()["rows_read"] == 7

    # --- what is stored and sent --------------------------------------------------------------------------------------

    @proves(Capability.STREAM_READ)
    def test_splits_and_state_can_be_stored(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: offsets hold the state and the splits, as versioned bytes.

        Steps: the splits of a batch are packed, unpacked and packed again.
        Pass: they are equal, and so are the bytes; a split has an id, a size and a group, and can be hashed.
        If it fails: make splits frozen dataclasses, and serialize field by field.
        """
        origin.put(range(5))
        splits = [split for task in query.tasks(self._plan(query)) for split in task]
        assert splits
        serializer = query.source.split_serializer
        for split in splits:
            again = serializer.deserialize(serializer.version, serializer.serialize(split))
            assert again == split and hash(again) == hash(split)
            assert serializer.serialize(again) == serializer.serialize(split)
            assert isinstance(split.split_id, str) and split.size_bytes >= 0 and isinstance(split.group, str)
        assert len({split.split_id for split in splits}) == len(splits)

    # --- data ---------------------------------------------------------------------------------------------------------

    @proves(Capability.BATCH_READ)
    @pytest.mark.parametrize("name", SPARK_TYPES)
    def test_every_type_is_read_or_refused(self, origin: SourceOrigin, name: str) -> None:
        """Purpose: a column of any of Spark's types, with its extremes and with nulls.

        Steps: rows with one more column, of that type, are put there and read.
        Pass: the source refuses the schema, with an error that says so; or every value is as it was put there.
        If it fails: refuse types in validate_schema, with BadConfigurationError.
        """
        if self._create(self._parse(origin.options)).fixed_schema() is not None:
            does_not_apply("the schema is the source's own")
        if origin.put_table is None:
            not_tried("values", "SourceOrigin.put_table")
        kind, values = SPARK_TYPES[name]
        column = pa.array([None, *values, None], kind)
        table = pa.table({"id": pa.array(range(len(column)), pa.int64()), "extra": column})
        try:
            origin.put_table(table)
        except NotImplementedError:
            does_not_apply("the system has no such type")
        try:
            source = self._create_for(self._parse(origin.options), table.schema)
            rows = SourceQuery(source, table.schema).read_all_now()
        except (BadConfigurationError, BadDataError):
            return
        read = pa.Table.from_pylist(sorted(rows, key=lambda row: int(row["id"])), table.schema)
        assert repr(read.column("extra").to_pylist()) == repr(column.to_pylist())  # as text: nan equals nothing

    @proves(Capability.STREAM_READ)
    def test_many_rows_in_bounded_memory(self, origin: SourceOrigin) -> None:
        """Purpose: a task may read more rows than fit into memory.

        Steps: ``many`` rows are put there; batches are planned and read until they have come.
        Pass: the process grows by less than ``most_memory_bytes`` while tasks read, and as many rows have come.
        If it fails: bound the elements that a fetch returns to a few MiB.
        """
        origin.put(range(self.many))
        query = SourceQuery(self._source(origin), self.schema)
        read = 0

        def read_batch(batch: int) -> None:
            nonlocal read
            for splits in query.tasks(batch):
                for part in query.read_task(splits):
                    read += part.num_rows

        try:
            while read < self.many:
                batch = self._plan(query)
                grown = peak_growth_bytes(functools.partial(read_batch, batch))
                query.commit(batch)
                assert grown < self.most_memory_bytes, f"the tasks grew by {grown >> 20} MiB"
            assert read == self.many
        finally:
            query.stop()

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
        assert self._read_until(query, Counter([0])) == Counter([0])

    @proves(Capability.RESUMABLE)
    def test_the_system_is_away_for_a_while(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: servers restart, networks break.

        Steps: a batch is planned; the system can't be reached while it is read; it comes back; the query is restarted.
        Pass: RetriableError or OSError meanwhile, and every row has come once in the end.
        If it fails: an error that may pass must not be fatal, nor mistaken for the end; give every call a time limit.
        """
        if origin.unreachable is None:
            not_tried("outages", "SourceOrigin.unreachable")
        self._put(origin, 0, 10, 20)
        batch = self._plan(query)
        with origin.unreachable(), pytest.raises((OSError, RetriableError)):
            query.read(batch)
        query.restart()
        seen = self._ids(query.read(batch))
        query.commit(batch)
        self._put(origin, 10, 10, 20)
        assert seen + self._read_until(query, Counter(range(20)) - seen) == Counter(range(20))

    # --- what is not declared -----------------------------------------------------------------------------------------

    @refuses(Capability.STREAM_READ)
    def test_streams_are_refused(self, given: Mapping[str, str]) -> None:
        """Purpose: a connector that can't read streams says so.

        Steps: Spark asks for a stream reader.
        Pass: BadConfigurationError that says what can't be done.
        If it fails: declare the capability, or leave source_options out.
        """
        with self._refused(Capability.STREAM_READ):
            self._data_source(given).streamReader(self._struct(self.schema))

    @refuses(Capability.BATCH_READ)
    def test_batch_reads_are_refused(self, given: Mapping[str, str]) -> None:
        """Purpose: a connector that can't read a batch says so.

        Steps: Spark asks for a reader.
        Pass: BadConfigurationError that says what can't be done.
        If it fails: declare the capability, or leave source_options out.
        """
        with self._refused(Capability.BATCH_READ):
            self._data_source(given).reader(self._struct(self.schema))

    @refuses(Capability.BOUNDED)
    def test_a_stream_does_not_end(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: a query that is meant to continue is not stopped.

        Steps: everything there is, is read.
        Pass: no offset says that it is the final one.
        If it fails: SplitEnumerator.has_ended is for sources that are declared to be bounded.
        """
        origin.put(range(5))
        self._read_until(query, Counter(range(5)))
        assert not any(json.loads(offset).get("final") for offset in query.offsets)

    @refuses(Capability.RESUMABLE)
    def test_a_restart_fails_or_goes_on(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: a source that can't resume where it was does not hang, nor break in strange ways.

        Steps: a batch is read and noted; the driver is restarted; more rows come.
        Pass: later rows are read, or the restart fails with an error of Penstock's.
        If it fails: tell what a restart can't do, with FatalError or DataLostError.
        """
        origin.put(range(10))
        batch = self._plan(query)
        query.read(batch)
        query.commit(batch)
        try:
            query.restart()
            query.plan()  # connects again
            origin.put(range(10, 20))
            rows = query.read(self._plan(query))
        except PenstockError:
            return
        assert rows

    @refuses(Capability.ADMISSION_CONTROL)
    def test_a_batch_takes_everything(self, query: SourceQuery) -> None:
        """Purpose: what is said of limits holds.

        Steps: the source is asked for its limits.
        Pass: it has none.
        If it fails: declare the capability, so that it is proven.
        """
        limits = query.source.read_limits()
        assert (limits.max_groups, limits.max_bytes, limits.max_records) == (None, None, None)

    @refuses(Capability.DISCOVERY)
    def test_rows_that_come_later_do_no_harm(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: a source that looks only once is not confused by what comes later.

        Steps: rows are put there and read; more are put there.
        Pass: the first rows have come once, and no error.
        If it fails: fix what is there when the stream begins.
        """
        origin.put(range(10))
        seen = self._read_until(query, Counter(range(10)))
        origin.put(range(10, 20))
        seen += self._ids(query.run_batch())
        assert not seen - Counter(range(20)) and not Counter(range(10)) - seen
