"""The cases of a source about restarts: what is in an offset is all that a driver knows."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import ClassVar

import pytest

from penstock.connector import Capability
from penstock.errors import RetriableError
from penstock.retry import RetryPolicy
from penstock.testing._away import for_a_moment, only_if_it_may_pass
from penstock.testing._calls import patiently
from penstock.testing._capabilities import proves
from penstock.testing._origin import SourceOrigin
from penstock.testing._processes import processes
from penstock.testing._source_base import LOOKS, SourceBase
from penstock.testing._source_engine import SourceQuery
from penstock.testing._source_processes import SourceJob, plan_batch, read_batch
from penstock.testing._source_schedules import SourceSchedule
from penstock.testing._verdict import does_not_apply, not_tried

__all__ = ["SourceRestartCases"]


class SourceRestartCases(SourceBase):
    """A query continues. ``steps``: how long the random schedule is."""

    steps: ClassVar[int] = 60

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
            self._check(self._ids(query.read(batch)), before, "when the batch is read again")
        query.commit(batch)
        self._read_rest(query, Counter(range(20)), before)

    @proves(Capability.RESUMABLE)
    @pytest.mark.parametrize("crash", ["after the plan", "after reading", "after the note", "never"])
    def test_a_restart_at_every_step(self, query: SourceQuery, origin: SourceOrigin, crash: str) -> None:
        """Purpose: the driver is killed at any point, and rows are lost or read twice.

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
        self._read_rest(query, Counter(range(30)), seen)

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
            self._check(schedule.counted | wanted, wanted)
            self._read_rest(query, wanted, schedule.counted)
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
        self._read_rest(query, Counter(range(30)), seen)

    @proves(Capability.RESUMABLE)
    def test_available_now_reads_what_is_there_and_ends(self, origin: SourceOrigin) -> None:
        """Purpose: a nightly run never ends, or ends before it has read what was there.

        Steps: rows are put there; a run reads until it has nothing more, while others come; a second run.
        Pass: the first run has the first rows and ends, the second has the others, or nothing if the source is bounded.
        If it fails: prepare_for_available_now fixes the end: nothing that is found later may be handed out.
        """
        origin.put(range(10))
        query = SourceQuery(self._source(origin), self.schema, available_now=True)
        try:
            first = self._ids(query.run_batch())
            origin.put(range(10, 20))
            self._check(first + self._run_to_end(query, 10), Counter(range(10)), "in the first run")
            query.restart()
            second = Counter[int]() if self._is_bounded else Counter(range(10, 20))
            self._check(self._run_to_end(query, 20), second, "in the second run")
        finally:
            query.stop()

    @proves(Capability.RESUMABLE)
    def test_the_last_batch_of_a_run_says_so(self, origin: SourceOrigin) -> None:
        """Purpose: a sink publishes what it carries from batch to batch when a run of ``Trigger.AvailableNow`` ends.

        Steps: rows are put there; a run reads them, in steps of ``limit``.
        Pass: the offset of the last batch, and of no other, says that it is the last one.
        If it fails: see SplitEnumerator.is_exhausted.
        """
        origin.put(range(100))
        in_steps = {self.limit[0]: self.limit[1]} if self.limit else {}
        query = SourceQuery(self._source(origin, **in_steps), self.schema, available_now=True)
        try:
            self._check(self._run_to_end(query, 100), Counter(range(100)))
            said = [bool(json.loads(offset).get("end")) for offset in query.offsets]
            assert said[-1], "the last offset of the run does not say that it is"
            assert not any(said[:-1]), f"batch {said.index(True)} of {len(said)} says that it is the run's last one"
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
        self._read_rest(query, Counter(range(20)), seen)
        said = [bool(json.loads(offset).get("final")) for offset in query.offsets]
        assert said[-1], "the last offset does not say that the stream has ended"
        assert not any(said[:-1]), f"batch {said.index(True)} of {len(said)} says that the stream has ended"
        origin.put(range(20, 30))
        query.restart()
        assert query.run_batch() is None

    @proves(Capability.RESUMABLE)
    def test_the_system_is_away_for_a_while(self, origin: SourceOrigin) -> None:
        """Purpose: servers restart, networks break.

        Steps: a batch is planned; the system can't be reached while it is read; it comes back; the query is restarted.
        Pass: RetriableError or OSError meanwhile, and every row has come once in the end.
        If it fails: an error that may pass must not be fatal, nor mistaken for the end; give every call a time limit.
        """
        if origin.unreachable is None:
            not_tried("outages", "SourceOrigin.unreachable")
        query = self._new_query(origin, **origin.impatient)
        try:
            self._put(origin, 0, 10, 20)
            batch = self._plan(query)
            with origin.unreachable(), patiently(), pytest.raises((OSError, RetriableError)):
                query.read(batch)
            query.restart()
            seen = self._ids(query.read(batch))
            query.commit(batch)
            self._put(origin, 10, 10, 20)
            self._read_rest(query, Counter(range(20)), seen)
        finally:
            query.stop()

    @proves(Capability.RESUMABLE)
    def test_a_short_outage_is_waited_for(self, origin: SourceOrigin) -> None:
        """Purpose: a server that restarts ends no query.

        Steps: a batch is planned; the system can't be reached for a moment while it is read and noted as done, and once
        more while the next one is planned. What fails is called again, as with ``retryTimeout``.
        Pass: every row has come once, and no error.
        If it fails: raise RetriableError, and leave reader and enumerator as they were: they are called again.
        """
        if origin.unreachable is None:
            not_tried("outages", "SourceOrigin.unreachable")
        query = self._new_query(origin, **origin.impatient)
        query.retry = RetryPolicy(60)
        query.restart()
        try:
            with only_if_it_may_pass():
                self._put(origin, 0, 10, 20)
                batch = self._plan(query)
                with for_a_moment(origin.unreachable()):
                    seen = self._ids(query.read(batch))
                with for_a_moment(origin.unreachable()):
                    query.commit(batch)
                self._put(origin, 10, 10, 20)
                with for_a_moment(origin.unreachable()):
                    planned = query.plan()
                if planned is not None:
                    seen += self._ids(query.read(planned))
                    query.commit(planned)
                self._read_rest(query, Counter(range(20)), seen)
        finally:
            query.stop()

    @proves(Capability.RESUMABLE)
    def test_every_step_in_a_process_of_its_own(self, origin: SourceOrigin) -> None:
        """Purpose: what a driver knows in addition to the offsets is gone with it, globals and caches of modules too.

        Steps: three times rows come; a new process plans a batch, and another one reads it and notes that it is done.
        Pass: every row has come once.
        If it fails: everything that an enumerator knows must be in its state.
        """
        job = SourceJob(self._source(origin), self.schema)
        seen: Counter[int] = Counter()
        for first in (0, 10, 20):
            self._put(origin, first, 10, 30)
            while seen.total() < (30 if self._is_bounded else first + 10):
                planned = processes().run(plan_batch, job, LOOKS)
                assert planned is not None, "lost: there are rows, and a new process plans no batch"
                job, rows = processes().run(read_batch, planned)
                seen += self._ids(rows)
                self._check(seen | Counter(range(30)), Counter(range(30)))
        self._check(seen, Counter(range(30)))

    @proves(Capability.RESUMABLE)
    def test_a_plan_that_is_lost_is_made_again(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: splits that were handed out come back: the engine asks again from an offset that it has noted.

        Steps: rows come at three times, in parts; the engine asks for the latest offset, twice from the same one; the
        batch is read; then the same by the driver that made both plans, and by a new one.
        Pass: every row has come once.
        If it fails: SplitEnumerator.add_splits_back gets several splits, in the order in which they were handed out;
        all of them are handed out again.
        """
        seen: Counter[int] = Counter()
        for first, restarts in ((0, False), (80, False), (160, True)):
            for part in range(first, first + 80, 20):
                self._put(origin, part, 20, 240)
            self._plan(query)
            query.offsets.pop()
            if restarts:
                query.restart()
            batch = self._plan(query)
            seen += self._ids(query.read(batch))
            query.commit(batch)
        self._read_rest(query, Counter(range(240)), seen)
