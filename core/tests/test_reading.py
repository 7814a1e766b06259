"""The loop inside a task, the coordinator and the stream reader, on a source that counts."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from penstock.errors import FatalError, RetriableError, RetriesExhaustedError
from penstock.metrics import Metrics
from penstock.retry import NO_RETRIES, RetryPolicy
from penstock.serialization import JsonSerializer
from penstock.source import (
    ReaderContext,
    ReadLimits,
    RecordEmitter,
    RecordsBySplits,
    SimpleSource,
    SimpleSplit,
    Source,
    SourceReader,
    SplitEnumerator,
    SplitReader,
)
from penstock.spark import BatchReader, StreamReader
from penstock.spark._coordinator import Coordinator
from penstock.spark._partitions import SplitPartition, pack, read_partition

SCHEMA = pa.schema([("n", pa.int64())])


@dataclass(frozen=True)
class Range:
    first: int
    last: int

    @property
    def split_id(self):
        return f"{self.first}-{self.last}"

    @property
    def size_bytes(self):
        return (self.last - self.first) * 8

    @property
    def group(self):
        return self.split_id


class CountingEnumerator(SplitEnumerator):
    def __init__(self, context, position, available):
        self.context, self.position, self.available, self.back, self.frozen = context, position, available, [], None
        self.completed = []

    def start(self):
        pass

    def handle_split_request(self):
        if self.back:
            return self.back.pop(0)
        end = self.frozen if self.frozen is not None else self.available()
        if self.position >= end:
            return None
        split = Range(self.position, min(self.position + 10, end))
        self.position = split.last
        return split

    def add_splits_back(self, splits):
        self.back = [*splits, *self.back]

    def snapshot_state(self):
        return min([self.position, *(split.first for split in self.back)])

    def prepare_for_available_now(self):
        self.frozen = self.available()

    def is_exhausted(self):
        return self.frozen is not None and self.position >= self.frozen and not self.back

    def notify_checkpoint_complete(self, splits):
        self.completed += splits


class CountingReader(SplitReader):
    def __init__(self, source):
        self.source, self.splits, self.woken = source, [], threading.Event()

    def handle_splits_changes(self, splits):
        self.splits += splits

    def fetch(self):
        if self.source.blocks:
            self.source.waits.set()
            assert self.woken.wait(60)
            return RecordsBySplits()
        split = self.splits.pop(0)
        if self.source.fails_at is not None and split.first >= self.source.fails_at:
            raise OSError("broken line")
        return RecordsBySplits([(split.split_id, split)], [split.split_id])

    def wake_up(self):
        self.woken.set()

    def close(self):
        self.source.closed.append(threading.current_thread().name)


class CountingEmitter(RecordEmitter):
    def emit_record(self, element, split_state):
        yield pa.record_batch([pa.array(range(element.first, element.last), pa.int32())], names=["n"])


class CountingSource(Source):
    def __init__(self, available=100, limits=None, blocks=False, fails_at=None):
        self.available, self.limits, self.blocks, self.fails_at = available, limits or ReadLimits(), blocks, fails_at
        self.closed = []
        self.waits = threading.Event()

    split_serializer = JsonSerializer(1, lambda s: [s.first, s.last], lambda _, v: Range(*v))
    enumerator_serializer = JsonSerializer(1, lambda s: s, lambda _, v: v)

    def read_limits(self):
        return self.limits

    def create_enumerator(self, context, checkpoint):
        return CountingEnumerator(context, checkpoint or 0, lambda: self.available)

    def create_reader(self, context):
        return CountingReader(self)

    def create_emitter(self, context):
        return CountingEmitter()


def read(source, splits):
    metrics = Metrics()
    batches = list(SourceReader(source, ReaderContext(SCHEMA, metrics)).read(splits))
    assert all(batch.schema == SCHEMA for batch in batches)
    return [n for batch in batches for n in batch.column(0).to_pylist()], metrics


def test_reads_every_split_in_order_and_casts():
    source = CountingSource()
    rows, metrics = read(source, [Range(0, 3), Range(3, 3), Range(7, 9)])
    assert rows == [0, 1, 2, 7, 8] and metrics.snapshot() == {"rows_read": 5}
    assert source.closed == ["penstock-fetcher"]


def test_failure_of_the_fetcher_reaches_the_task():
    source = CountingSource(fails_at=5)
    with pytest.raises(OSError, match="broken line"):
        read(source, [Range(0, 5), Range(5, 9)])
    assert len(source.closed) == 1


class FlakyReader(CountingReader):
    """Fails before every fetch as often as the source says, and loses nothing by it."""

    def fetch(self):
        self.failures = getattr(self, "failures", 0) + 1
        if self.failures <= self.source.failures:
            raise RetriableError("node 10.0.0.1 is down")
        self.failures = 0
        return super().fetch()


class FlakySource(CountingSource):
    def __init__(self, failures):
        super().__init__()
        self.failures, self.starts, self.asked = failures, 0, 0

    def create_reader(self, context):
        return FlakyReader(self)

    def create_enumerator(self, context, checkpoint):
        return FlakyEnumerator(self, context, checkpoint or 0)


class FlakyEnumerator(CountingEnumerator):
    def __init__(self, source, context, checkpoint):
        super().__init__(context, checkpoint, lambda: source.available)
        self.source = source

    def start(self):
        self.source.starts += 1
        if self.source.starts <= self.source.failures:
            raise RetriableError("the cluster is away")

    def handle_split_request(self):
        self.source.asked += 1
        if self.source.asked <= self.source.failures:
            raise RetriableError("the cluster is away")
        return super().handle_split_request()


def test_a_fetch_that_fails_is_made_again_and_no_row_comes_twice():
    metrics = Metrics()
    reader = SourceReader(FlakySource(2), ReaderContext(SCHEMA, metrics, RetryPolicy(60)))
    batches = list(reader.read([Range(0, 3), Range(3, 9)]))
    assert [n for batch in batches for n in batch.column(0).to_pylist()] == [*range(9)]
    assert metrics.snapshot()["retries"] == 4 and metrics.snapshot()["retry_ms"] > 0


class NeedyEmitter(CountingEmitter):
    """Needs a service, which is away twice for each element, and once more after the first batch if it ``breaks``."""

    def __init__(self, *, breaks):
        self.breaks, self.failures = breaks, 0

    def emit_record(self, element, split_state):
        self.failures += 1
        if self.failures % 3:
            raise RetriableError("the registry is away")
        yield from super().emit_record(element, split_state)
        if self.breaks:
            raise RetriableError("the registry is away")


def test_decoding_that_fails_is_done_again():
    source, metrics = CountingSource(), Metrics()
    source.create_emitter = lambda context: NeedyEmitter(breaks=False)
    reader = SourceReader(source, ReaderContext(SCHEMA, metrics, RetryPolicy(60)))
    rows = [n for batch in reader.read([Range(0, 9)]) for n in batch.column(0).to_pylist()]
    assert rows == [*range(9)] and metrics.snapshot()["retries"] >= 2


@pytest.mark.parametrize(("breaks", "policy"), [(False, NO_RETRIES), (True, RetryPolicy(60))], ids=["no time", "rows"])
def test_decoding_is_not_done_again_without_time_or_once_rows_were_given(breaks, policy):
    source, metrics = CountingSource(), Metrics()
    emitter = NeedyEmitter(breaks=breaks)
    source.create_emitter = lambda context: emitter
    reader = SourceReader(source, ReaderContext(SCHEMA, metrics, policy))
    with pytest.raises(RetriableError, match="the registry is away"):
        list(reader.read([Range(0, 3)]))
    assert emitter.failures == (3 if breaks else 1)


def test_a_fetch_that_keeps_failing_fails_the_task_with_what_was_tried():
    reader = SourceReader(FlakySource(1000), ReaderContext(SCHEMA, Metrics(), RetryPolicy(0.2)))
    with pytest.raises(RetriesExhaustedError, match=r"reading: node 10.0.0.1 is down; tried \d+ times in \d+ms"):
        list(reader.read([Range(0, 3)]))


def test_a_task_that_is_killed_while_it_waits_ends_at_once():
    reader = SourceReader(FlakySource(1000), ReaderContext(SCHEMA, Metrics(), RetryPolicy(600)))
    iterator = reader.read([Range(0, 3)])
    threading.Timer(0.3, reader._hand_over, [KeyboardInterrupt()]).start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    assert time.monotonic() - started < 300  # not the 600 s for which it would try again


@pytest.mark.parametrize("available_now", [False, True])
def test_planning_that_fails_is_done_again(available_now):
    reader = StreamReader(FlakySource(2), SCHEMA, 2, None, retry=RetryPolicy(60))
    if available_now:
        reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    splits = [split for part in reader.partitions(reader.initialOffset(), end) for split in part.splits]
    assert [(split.first, split.last) for split in splits] == [(n, n + 10) for n in range(0, 100, 10)]
    assert reader.reportLatestOffset()["metrics"]["retries"] >= 4
    reader.stop()


def test_a_batch_read_that_can_not_be_planned_at_first_is_planned_again():
    parts = BatchReader(FlakySource(2), SCHEMA, 2, None, RetryPolicy(60)).partitions()
    assert sum(split.last - split.first for part in parts for split in part.splits) == 100


class Looks(SimpleSource):
    """A look fails as long as ``away`` says why, and notes itself in ``looks``."""

    discovery_interval_ms = 10

    def __init__(self):
        self.away, self.looks = None, threading.Semaphore(0)

    def find_splits(self):
        try:
            if self.away is not None:
                raise self.away
            return [SimpleSplit("page"), *([SimpleSplit("more")] if self.finds_more else [])]
        finally:
            self.looks.release()

    finds_more = False

    def read_split(self, split, context):
        yield pa.record_batch([pa.array([1])], schema=context.schema)

    def looked(self):
        for _ in range(2):  # the second one has begun after this call
            assert self.looks.acquire(timeout=60)


def test_a_look_that_fails_while_a_batch_runs_ends_no_query():
    """Spark asks for the progress then, and an error would end the query; the next plan waits."""
    source = Looks()
    reader = StreamReader(source, SCHEMA, 2, None, retry=RetryPolicy(60))
    first = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    source.away = RetriableError("10.0.0.1 is away")
    while source.looks.acquire(blocking=False):
        pass
    source.looked()
    assert reader.reportLatestOffset() is not None
    threading.Timer(0.2, lambda: setattr(source, "finds_more", True) or setattr(source, "away", None)).start()
    second = reader.latestOffset(first, reader.getDefaultReadLimit())
    assert [split.split_id for part in reader.partitions(first, second) for split in part.splits] == ["more"]
    assert 0 < reader.reportLatestOffset()["metrics"]["retries"] < 20
    reader.stop()


def test_looks_that_keep_failing_are_one_outage():
    source = Looks()
    reader = StreamReader(source, SCHEMA, 2, None, retry=RetryPolicy(0.3))
    first = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    source.away = ValueError("a bug")
    while source.looks.acquire(blocking=False):
        pass
    source.looked()
    with pytest.raises(RetriesExhaustedError, match=r"planning: ValueError\('a bug'\); tried"):
        reader.latestOffset(first, reader.getDefaultReadLimit())
    reader.stop()


def test_a_failure_of_a_handler_waits_for_the_next_plan():
    class Enumerator(CountingEnumerator):
        def start(self):
            self.context.call_async(lambda: 1, self.fail)

        def fail(self, _, error):
            raise RetriableError("10.0.0.1 is away")

    source = CountingSource()
    source.create_enumerator = lambda context, checkpoint: Enumerator(context, checkpoint or 0, lambda: 100)
    reader = StreamReader(source, SCHEMA, 2, None, retry=NO_RETRIES)
    first = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    while not reader._coordinator._handlers.qsize():
        time.sleep(0.001)
    for _ in range(2):
        assert reader.reportLatestOffset() is not None
    with pytest.raises(RetriableError, match="is away"):
        reader.latestOffset(first, reader.getDefaultReadLimit())
    reader.stop()


def test_a_backlog_that_can_not_be_told_ends_no_query(caplog):
    class Enumerator(CountingEnumerator):
        def describe_backlog(self):
            raise RuntimeError("no answer")

    source = CountingSource()
    source.create_enumerator = lambda context, checkpoint: Enumerator(context, checkpoint or 0, lambda: 100)
    reader = StreamReader(source, SCHEMA, 2, None, name="penstock.counting")
    reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert reader.reportLatestOffset() is None
    assert "what waits at source penstock.counting can't be shown: RuntimeError('no answer')" in caplog.text


def test_offsets_of_another_connector_are_refused_by_its_name():
    """Their forms may be alike: the two read each other's states without an error."""

    def reader(name):
        return StreamReader(CountingSource(), SCHEMA, 2, None, name=name)

    first = reader("penstock.one")
    stored = first.latestOffset(first.initialOffset(), first.getDefaultReadLimit())
    assert stored["source"] == "penstock.one"
    for name in ("penstock.one", ""):
        assert reader(name).partitions(first.initialOffset(), stored)
    refused = "source penstock.two: the checkpoint holds offsets of penstock.one: use the checkpoint of this query"
    for ask in ("partitions", "latestOffset"):
        other = reader("penstock.two")
        with pytest.raises(FatalError, match=refused):
            other.partitions(stored, stored) if ask == "partitions" else other.latestOffset(stored, None)
    del stored["source"]  # as the first versions wrote it
    assert reader("penstock.two").partitions(first.initialOffset(), stored)


def test_a_source_hears_of_a_batch_although_it_can_not_be_told_at_once():
    class Enumerator(CountingEnumerator):
        failures = 2

        def notify_checkpoint_complete(self, splits):
            if self.failures:
                self.failures -= 1
                raise RetriableError("10.0.0.1 is away")
            super().notify_checkpoint_complete(splits)

    source = CountingSource()
    source.create_enumerator = lambda context, checkpoint: Enumerator(context, checkpoint or 0, lambda: 20)
    reader = StreamReader(source, SCHEMA, 2, None, retry=RetryPolicy(60))
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    reader.commit(end)
    assert [split.split_id for split in reader._enumerator.completed] == ["0-10", "10-20"]
    reader.stop()


def test_planning_that_keeps_failing_says_what_was_tried():
    reader = StreamReader(FlakySource(1000), SCHEMA, 2, None, retry=RetryPolicy(0.2))
    with pytest.raises(RetriesExhaustedError, match=r"planning: the cluster is away; tried \d+ times"):
        reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())


class Pages(SimpleSource):
    """One piece in batches of two; the connection breaks after each of ``breaks`` batches, once."""

    def __init__(self, breaks):
        self.breaks = breaks

    def find_splits(self):
        return [SimpleSplit("page")]

    def read_split(self, split, context):
        for number, first in enumerate(range(0, 10, 2)):
            if number in self.breaks:
                self.breaks.remove(number)
                raise RetriableError("the connection broke")
            yield pa.record_batch([pa.array([first, first + 1], pa.int64())], names=["n"])


@pytest.mark.parametrize("breaks", [[0], [3], [0, 1, 2, 3, 4]])
def test_a_piece_is_read_again_without_what_was_delivered(breaks):
    reader = SourceReader(Pages(breaks), ReaderContext(SCHEMA, Metrics(), RetryPolicy(60)))
    batches = list(reader.read([SimpleSplit("page")]))
    assert [n for batch in batches for n in batch.column(0).to_pylist()] == [*range(10)] and not breaks


def test_killed_task_wakes_the_reader_up():
    source = CountingSource(blocks=True)
    reader = SourceReader(source, ReaderContext(SCHEMA, Metrics()))
    iterator = reader.read([Range(0, 3)])

    def kill():
        assert source.waits.wait(60)
        reader._fetched.put(KeyboardInterrupt())

    threading.Thread(target=kill).start()
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    assert len(source.closed) == 1


def test_leaving_early_closes():
    source = CountingSource()
    iterator = SourceReader(source, ReaderContext(SCHEMA, Metrics())).read([Range(i, i + 1) for i in range(50)])
    next(iterator)
    iterator.close()
    assert len(source.closed) == 1


def test_a_reader_reads_once():
    reader = SourceReader(CountingSource(), ReaderContext(SCHEMA, Metrics()))
    assert list(reader.read([Range(0, 3)]))
    with pytest.raises(FatalError, match="was used already"):
        list(reader.read([Range(3, 4)]))


def test_same_split_twice_is_refused():
    with pytest.raises(FatalError, match="share a split id"):
        read(CountingSource(), [Range(0, 3), Range(0, 3)])


def _text(n):
    return f"{n:07}" * 100_000


class WideEmitter(CountingEmitter):
    def emit_record(self, element, split_state):
        (batch,) = super().emit_record(element, split_state)
        yield batch.append_column("text", pa.array([_text(n) for n in batch["n"].to_pylist()]))


def test_spark_gets_large_batches_in_pieces():
    source = CountingSource()
    source.create_emitter = lambda context: WideEmitter()
    schema = SCHEMA.append(pa.field("text", pa.string()))
    splits = [Range(0, 10), Range(10, 11), Range(11, 11)]
    batches = list(read_partition(source, schema, SplitPartition(splits), None, NO_RETRIES))
    assert [batch.num_rows for batch in batches] == [4, 4, 2, 1]
    rows = pa.Table.from_batches(batches).to_pydict()
    assert rows == {"n": list(range(11)), "text": [_text(n) for n in range(11)]}


def test_a_task_that_leaves_early_closes_its_reader():
    source = CountingSource()
    batches = read_partition(source, SCHEMA, SplitPartition([Range(0, 10), Range(10, 20)]), None, NO_RETRIES)
    next(batches)
    batches.close()
    assert source.closed == ["penstock-fetcher"]


def stream(source):
    return StreamReader(source, SCHEMA, 2, None)


def rows_between(reader, start, end):
    return [n for p in reader.partitions(start, end) for b in reader.read(p) for n in b.column(0).to_pylist()]


def drain(reader, offset):
    """Batches from ``offset`` until nothing is left, as Spark asks for them."""
    rows, limit = [], reader.getDefaultReadLimit()
    while (end := reader.latestOffset(offset, limit)) != offset:
        rows.append(rows_between(reader, offset, end))
        offset = end
    return rows, offset


def test_limits_and_offsets_converge():
    reader = stream(CountingSource(available=35, limits=ReadLimits(max_groups=2)))
    rows, end = drain(reader, reader.initialOffset())
    assert [len(batch) for batch in rows] == [20, 15]
    assert list(chain(*rows)) == list(range(35)) and reader.partitions(end, end) == []


def test_a_minimum_alone_is_a_limit_too():
    """Else Spark asks for everything that is there, without the minimum."""
    source = CountingSource(available=10, limits=ReadLimits(min_records=1000))
    limit = stream(source).getDefaultReadLimit()
    assert not isinstance(limit, ReadAllAvailable)


def test_byte_limit_takes_at_least_one_split():
    reader = stream(CountingSource(available=30, limits=ReadLimits(max_bytes=1)))
    assert [len(batch) for batch in drain(reader, reader.initialOffset())[0]] == [10, 10, 10]


def test_restart_from_any_offset_goes_on_exactly_there():
    source = CountingSource(available=35, limits=ReadLimits(max_groups=1))
    reader = stream(source)
    first = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    restarted = stream(source)
    assert rows_between(restarted, restarted.initialOffset(), first) == list(range(10))  # the replay
    rows, _ = drain(restarted, first)
    assert list(chain(*rows)) == list(range(10, 35))


def test_offset_that_spark_did_not_use_is_handed_out_again():
    reader = stream(CountingSource(available=20, limits=ReadLimits(max_groups=1)))
    start = reader.initialOffset()
    unused = reader.latestOffset(start, reader.getDefaultReadLimit())
    again = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert rows_between(reader, start, unused) == rows_between(reader, start, again) == list(range(10))


def test_available_now_ends_where_it_began():
    source = CountingSource(available=20, limits=ReadLimits(max_groups=1))
    reader = stream(source)
    reader.prepareForTriggerAvailableNow()
    first = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    source.available = 500
    second = reader.latestOffset(first, reader.getDefaultReadLimit())
    assert "end" not in first and second["end"]
    assert reader.latestOffset(second, reader.getDefaultReadLimit()) == second


@pytest.mark.parametrize("limits", [ReadLimits(), ReadLimits(max_groups=1), ReadLimits(max_records=1)])
def test_the_trigger_once_takes_what_is_there_now_in_one_batch(limits):
    """Spark asks without a limit then, and at no other time: the source does not begin with an empty batch."""
    reader = stream(CountingSource(available=20, limits=limits))
    assert not isinstance(reader.getDefaultReadLimit(), ReadAllAvailable)
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert end["end"] and reader._enumerator.frozen == 20
    assert rows_between(reader, reader.initialOffset(), end) == list(range(20))


def test_offsets_that_do_not_follow_are_refused():
    reader = stream(CountingSource(available=40, limits=ReadLimits(max_groups=1)))
    start = reader.initialOffset()
    one = reader.latestOffset(start, reader.getDefaultReadLimit())
    two = reader.latestOffset(one, reader.getDefaultReadLimit())
    with pytest.raises(FatalError, match="do not follow"):
        reader.partitions(start, two)


def test_commit_reaches_the_enumerator():
    reader = stream(CountingSource(available=10))
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    reader.commit(end)
    assert reader._enumerator.completed == [Range(0, 10)]


def test_batch_counts_as_finished_once_spark_goes_on_from_it():
    reader = stream(CountingSource(available=10))
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert reader._enumerator.completed == []
    assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end
    assert reader._enumerator.completed == [Range(0, 10)]
    reader.commit(end)
    assert reader._enumerator.completed == [Range(0, 10)]


def test_last_batch_before_a_restart_counts_as_finished():
    source = CountingSource(available=10)
    reader = stream(source)
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    restarted = stream(source)
    restarted.latestOffset(end, restarted.getDefaultReadLimit())
    assert restarted._enumerator.completed == [Range(0, 10)]


@pytest.mark.parametrize("offset", [{"logOffset": 3}, 7])
def test_offset_of_another_source_is_refused(offset):
    with pytest.raises(FatalError, match="another source"):
        stream(CountingSource()).latestOffset(offset, None)


def test_small_splits_share_a_task_and_order_is_kept():
    splits = [Range(i, i + 1) for i in range(1000)]
    partitions = pack(splits, CountingSource(), parallelism=2)
    assert 2 <= len(partitions) < 100
    assert [split for partition in partitions for split in partition.splits] == splits


def test_coordinator_runs_handlers_in_the_callers_thread():
    coordinator, seen = Coordinator(), []
    coordinator.call_async(lambda: 1 / 0, lambda value, error: seen.append(type(error)))
    coordinator.call_async(lambda: 42, lambda value, error: seen.append((value, threading.current_thread().name)))
    assert coordinator.await_handlers(lambda: len(seen) == 2, 60_000)
    assert ZeroDivisionError in seen and (42, threading.current_thread().name) in seen
    assert not coordinator.await_handlers(lambda: False, 10)
    coordinator.close()


def test_coordinator_repeats_until_closed():
    coordinator, threads = Coordinator(), []
    coordinator.call_async(threading.current_thread, lambda thread, error: threads.append(thread), interval_ms=1)
    assert coordinator.await_handlers(lambda: len(threads) >= 3, 60_000)
    assert threads[0].is_alive()
    coordinator.close()
    threads[0].join(60)
    assert not threads[0].is_alive() and set(threads) == {threads[0]}


def test_coordinator_waits_for_the_next_result():
    coordinator, seen, go = Coordinator(), [], threading.Event()
    coordinator.await_result(0)
    coordinator.call_async(go.wait, lambda value, error: seen.append(value))
    go.set()
    coordinator.await_result(60)
    assert seen == [True]
    coordinator.close()
