"""The write-ahead template: what is sent when, a crash at every step, and exactly the duplicates that are announced."""

from __future__ import annotations

import os
import pickle
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from penstock._commit import Batch, BatchPendingError, Chain, DisplacedError, RunMemory, TwoPhaseCommit, run_task
from penstock.errors import BadConfigurationError, DataLostError, PenstockError, RetriableError
from penstock.sink import (
    CheckpointCommitter,
    CheckpointLocation,
    Segment,
    Sender,
    SinkContext,
    WriteAheadSink,
    WriterContext,
)
from penstock.sink._write_ahead import FileCheckpointCommitter, Staged
from penstock.storage import LocalStorage
from suite.hostile import changed, files_below

SCHEMA = pa.schema([("id", pa.int64())])


class Mailbox:
    """A target that keeps what it gets, in order, and can neither take back nor tell what it has."""

    def __init__(self):
        self.got: list[int] = []
        self.sending = self.most_at_once = 0
        self.lock = threading.Lock()
        self.fuse = None
        self.broken: list[BaseException] = []
        #: Called for the first segment of each sender, in its thread: before it may fail, and while it is sent.
        self.before_first = self.during_first = lambda: None
        self.one_has_closed = threading.Event()

    def step(self, what):
        if self.fuse is not None:
            with self.lock:
                self.fuse.step(what)


MAILBOXES: dict[str, Mailbox] = {}


@dataclass(frozen=True)
class MailSink(WriteAheadSink):
    name: str
    segment_bytes: int = 100
    parallel_senders: int = 1

    def create_sender(self, context):
        return MailSender(MAILBOXES[self.name])

    def create_checkpoint_committer(self, context):
        return FusedRecorder(super().create_checkpoint_committer(context), MAILBOXES[self.name])


class MailSender(Sender):
    def __init__(self, mailbox):
        self.mailbox = mailbox

    def send(self, batches, segment):
        mailbox = self.mailbox
        mailbox.step(f"before send {segment.number}")
        if segment.number == 0:
            mailbox.before_first()
        with mailbox.lock:
            if mailbox.broken:
                raise mailbox.broken.pop(0)
            mailbox.sending += 1
            mailbox.most_at_once = max(mailbox.most_at_once, mailbox.sending)
        if segment.number == 0:
            mailbox.during_first()
        for batch in batches:
            with mailbox.lock:
                mailbox.got += batch.column(0).to_pylist()
        with mailbox.lock:
            mailbox.sending -= 1
        mailbox.step(f"after send {segment.number}")

    def close(self):
        self.mailbox.one_has_closed.set()


class FusedRecorder(CheckpointCommitter):
    def __init__(self, inner, mailbox):
        self.inner, self.mailbox = inner, mailbox

    def is_recorded(self, segment):
        return self.inner.is_recorded(segment)

    def record(self, segment):
        self.inner.record(segment)
        self.mailbox.step(f"after record {segment.number}")

    def forget(self, before_base, kept):
        self.inner.forget(before_base, kept)


class Query:
    """A driver with its tasks; a new one on the same folder is a restart."""

    def __init__(self, folder: Path, storage=None, **sink):
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.mailbox = MAILBOXES.setdefault(str(folder), Mailbox())
        self.sink = MailSink(str(folder), **sink)
        location = CheckpointLocation(storage or LocalStorage(), str(folder / "ck"))
        self.context = SinkContext("q", SCHEMA, checkpoint=location)
        self.number = 0
        chain = Chain(location.storage, f"{location.path}/penstock/decisions")
        self.protocol = TwoPhaseCommit(self.sink, self.context, chain, RunMemory())

    def attempt(self, plan, batch_id, writer, *batches):
        attempt = os.urandom(16).hex()
        context = WriterContext("q", SCHEMA, batch_id=batch_id, writer_index=writer, attempt_id=attempt)
        return run_task(self.sink, plan, context, (pa.record_batch([ids], schema=SCHEMA) for ids in batches))

    def planned(self, expected):
        return Batch(self.number, b"%d" % self.number)

    def find(self, number):
        return Batch(number, b"%d" % number)

    def plan(self, batch_id):
        self.number = batch_id
        return self.protocol.plan(self)

    def tasks(self, batch_id, shares):
        plan = self.plan(batch_id)
        return [self.attempt(plan, batch_id, writer, ids) for writer, ids in enumerate(shares)]

    def run(self, batch_id, shares):
        self.protocol.commit(batch_id, self.tasks(batch_id, shares))

    def staged(self):
        folder = self.folder / "ck" / "penstock" / "staged"
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []

    def sent_notes(self):
        folder = self.folder / "ck" / "penstock" / "sent"
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.fixture(autouse=True)
def mailboxes():
    yield
    MAILBOXES.clear()


def ids(start, count):
    return pa.array(range(start, start + count), pa.int64())


def test_nothing_is_sent_before_the_decision_and_everything_in_order_after_it(tmp_path):
    query = Query(tmp_path)
    results = query.tasks(0, [ids(0, 100), ids(100, 5), ids(200, 0)])
    assert query.mailbox.got == [] and len(query.staged()) == 9 + 1, "12 rows of 8 bytes in 100"
    query.protocol.commit(0, results)
    assert query.mailbox.got == list(range(105))
    query.run(1, [ids(105, 1)])
    assert query.mailbox.got == list(range(106))
    query.protocol.take_over()
    assert query.staged() == [] and query.sent_notes() == []


def test_writers_are_sent_in_parallel_and_each_in_order(tmp_path):
    query = Query(tmp_path, parallel_senders=3)
    together = threading.Barrier(3)
    query.mailbox.during_first = lambda: together.wait(60)
    query.run(0, [ids(writer * 100, 50) for writer in range(6)])
    assert query.mailbox.most_at_once == 3
    assert sorted(query.mailbox.got) == sorted(i for writer in range(6) for i in range(writer * 100, writer * 100 + 50))
    for writer in range(6):
        own = [i for i in query.mailbox.got if i // 100 == writer]
        assert own == sorted(own)


def test_segments_are_bounded_whatever_the_batches_are(tmp_path):
    query = Query(tmp_path, segment_bytes=4000)
    query.sink.start(query.context)
    plan = query.plan(0)
    result = query.attempt(plan, 0, 0, ids(0, 10_000), *[ids(10_000 + i, 1) for i in range(1000)])
    segments = [query.sink.committable_serializer.unpack(c) for output in result.outputs for c in output.committables]
    assert sum(segment.rows for segment in segments) == 11_000
    assert max(segment.size_bytes for segment in segments) <= 4000 and len(segments) == 22
    query.protocol.commit(0, [result])
    assert query.mailbox.got == list(range(11_000))


def test_a_failure_that_may_pass_is_finished_by_a_restart(tmp_path):
    query = Query(tmp_path)
    query.mailbox.broken = [RetriableError("busy")]
    with pytest.raises(RetriableError, match="busy"):
        query.run(0, [ids(0, 30)])
    restarted = Query(tmp_path)
    assert restarted.attempt(restarted.plan(0), 0, 0, ids(0, 30)).planned.is_decided
    assert query.mailbox.got == list(range(30))


def test_the_error_of_one_writer_stops_the_others(tmp_path):
    query = Query(tmp_path, parallel_senders=2)
    query.mailbox.broken = [RetriableError("busy")]
    both_have_begun = threading.Barrier(2)
    query.mailbox.before_first = lambda: both_have_begun.wait(60)
    query.mailbox.during_first = lambda: query.mailbox.one_has_closed.wait(60)  # the other one, which has failed
    with pytest.raises(RetriableError):
        query.run(0, [ids(writer * 100, 100) for writer in range(2)])
    assert len(query.mailbox.got) == 12, "a segment: 12 rows of 8 bytes in 100"
    query.mailbox.before_first = lambda: None
    Query(tmp_path).protocol.take_over()
    assert sorted(query.mailbox.got) == [*range(200)]


def test_attempts_that_do_not_count_leave_nothing(tmp_path):
    query = Query(tmp_path)
    results = query.tasks(0, [ids(0, 40)])
    query.protocol.abort(0, results)
    assert query.staged() == []
    lost_attempt = query.tasks(0, [ids(0, 40)])  # its result never reaches the driver
    assert lost_attempt and query.staged()
    for batch_id in range(11):
        query.run(batch_id, [ids(batch_id, 1)])
    assert query.mailbox.got == list(range(11))
    query.protocol.take_over()
    assert query.staged() == [] and query.sent_notes() == []


@pytest.mark.parametrize("directory", ["staged", "sent"])
def test_a_write_that_was_killed_disturbs_no_later_batch(tmp_path, leave_killed_writes, directory):
    """A task killed while it stages a segment, or a driver killed while it notes that one was sent."""
    query = Query(tmp_path)
    (result,) = query.tasks(0, [ids(0, 1)])
    (segment,) = (query.sink.committable_serializer.unpack(one) for one in result.outputs[0].committables)
    name = f"{segment.id}.arrow" if directory == "staged" else segment.id
    left = leave_killed_writes(tmp_path / "ck" / "penstock" / directory, name)
    for batch_id in range(11):
        query.run(batch_id, [ids(batch_id, 1)])
    assert left.swept and query.mailbox.got == list(range(11))
    query.protocol.take_over()
    assert [*query.staged(), *query.sent_notes()] == [left.new.name]


def test_a_task_that_fails_removes_what_it_staged(tmp_path):
    query = Query(tmp_path)

    def rows():
        yield pa.record_batch([ids(0, 100)], schema=SCHEMA)
        raise ZeroDivisionError

    context = WriterContext("q", SCHEMA, attempt_id="a" * 32)
    with pytest.raises(ZeroDivisionError):
        run_task(query.sink, query.plan(0), context, rows())
    assert query.staged() == []


def test_segments_that_vanish_are_written_again_or_reported(tmp_path):
    query = Query(tmp_path)
    results = query.tasks(0, [ids(0, 30)])
    for name in query.staged():
        (tmp_path / "ck" / "penstock" / "staged" / name).unlink()
    with pytest.raises(RetriableError, match="written again"):
        query.protocol.commit(0, results)
    query.run(0, [ids(0, 30)])
    assert query.mailbox.got == list(range(30))
    results = query.tasks(1, [ids(30, 30), ids(60, 30)])
    name = next(name for name in query.staged() if "-1-1-" in name)
    (tmp_path / "ck" / "penstock" / "staged" / name).unlink()
    with pytest.raises(RetriableError, match="written again"):
        query.protocol.commit(1, results)
    assert query.mailbox.got == list(range(30)), "nothing is sent where a part is lost"


def half_sent(folder):
    """The first writer's rows are sent, and those of the second one are lost."""
    query = Query(folder)
    query.mailbox.broken = []
    results = query.tasks(0, [ids(0, 30), ids(30, 30)])
    real_read = Staged.read
    try:
        Staged.read = lambda self, segment: real_read(self, segment) if segment.writer_index == 0 else fail()
        with pytest.raises(RetriableError, match="away"):
            query.protocol.commit(0, results)
    finally:
        Staged.read = real_read
    assert query.mailbox.got == list(range(30))
    for name in query.staged():
        if "-0-1-" in name:
            (folder / "ck" / "penstock" / "staged" / name).unlink()
    with pytest.raises(DataLostError, match="resolve"):
        Query(folder).plan(0)
    return query


def fail():
    raise RetriableError("away")


def test_what_was_sent_is_not_sent_again_when_the_rest_is_dropped(tmp_path):
    query = half_sent(tmp_path)
    Query(tmp_path).protocol.resolve(write_all_again=False)
    assert query.mailbox.got == list(range(30))
    assert Query(tmp_path).plan(0).planned.is_decided


def test_a_person_who_is_displaced_sends_nothing_more(tmp_path):
    query = Query(tmp_path)
    query.mailbox.broken = [RetriableError("busy")]
    with pytest.raises(RetriableError, match="busy"):
        query.run(0, [ids(0, 30)])
    resolving = Query(tmp_path)
    query.mailbox.during_first = lambda: (setattr(query.mailbox, "during_first", lambda: None), Query(tmp_path).plan(0))
    with pytest.raises(DisplacedError):
        resolving.protocol.resolve(write_all_again=False)
    assert max(Counter(query.mailbox.got).values()) == 2
    assert sum(count > 1 for count in Counter(query.mailbox.got).values()) <= 13, "one segment at most"


@pytest.fixture
def decided(tmp_path, fuse_type, crash_type):
    """Batch 1 of one row is decided, and its driver has ended before it sent anything."""
    query = Query(tmp_path)
    query.run(0, [ids(0, 1)])
    results = query.tasks(1, [ids(1, 1)])
    query.mailbox.fuse = fuse_type(0)
    with pytest.raises(crash_type):
        query.protocol.commit(1, results)
    query.mailbox.fuse = None
    return query


def kinds(query):
    chain = Chain(query.context.checkpoint.storage, f"{query.context.checkpoint.path}/penstock/decisions")
    return [link.kind.value for link in chain.links()]


@pytest.mark.parametrize("moment", ["before the files are listed", "between the files and the records"])
def test_a_run_that_looks_while_another_one_sends_and_forgets_sends_nothing(tmp_path, decided, monkeypatch, moment):
    """Neither is what is gone by then taken for lost, nor what is not recorded any more for open."""
    slow, went_on, real = Query(tmp_path), [], Staged.names

    def names(self):
        before = real(self)
        if not went_on:
            went_on.append(True)
            other = Query(tmp_path)
            other.run(2, [ids(2, 1)])
            other.protocol.take_over()
        return before if moment == "between the files and the records" else real(self)

    monkeypatch.setattr(Staged, "names", names)
    with pytest.raises(DisplacedError):
        slow.plan(2)
    assert went_on and slow.mailbox.got == [0, 1, 2] and "lost" not in kinds(slow)


@pytest.mark.parametrize("finish", [True, False])
def test_a_roll_beside_a_driver_that_sends_leaves_it_alone(tmp_path, finish):
    """The listener, or ``penstock finish``, in another process."""
    query, gave_way = Query(tmp_path), []

    def roll():
        query.mailbox.during_first = lambda: None
        with pytest.raises(BatchPendingError):
            Query(tmp_path).protocol.roll(finish=finish)
        gave_way.append(True)

    query.mailbox.during_first = roll
    query.run(0, [ids(0, 30)])
    assert gave_way and query.mailbox.got == list(range(30))


def test_a_batch_write_is_refused():
    with pytest.raises(BadConfigurationError, match="not for a batch write"):
        MailSink("x").start(SinkContext("", SCHEMA))


def test_the_sink_is_configuration_only():
    assert pickle.loads(pickle.dumps(MailSink("x"))) == MailSink("x")


def test_a_stored_segment_opens():
    segment = Segment(3, 1, "ab" * 16, 7, 100, 4096)
    stored = MailSink("x").committable_serializer.pack(segment)
    assert stored.version == 1 and MailSink("x").committable_serializer.unpack(stored) == segment
    assert segment.id == f"3-1-{'ab' * 16}-7", "as the first edition has named it"
    assert Segment(3, 1, "ab" * 16, 7, 100, 4096, base=5).id == f"5-3-1-{'ab' * 16}-7"


SHARES = [[ids(0, 30), ids(100, 20)], [ids(200, 5)], [ids(300, 30)]]
EVERYTHING = Counter(i for shares in SHARES for share in shares for i in share.to_pylist())


def run_all(query, done):
    for batch_id, shares in enumerate(SHARES):
        if batch_id not in done:
            query.run(batch_id, shares)
            done.add(batch_id)  # the engine's own note


def test_a_crash_at_every_step_loses_nothing_and_doubles_one_segment_at_most(tmp_path, fuse_type, crash_type):
    """The announced window: after a segment was sent, before it was recorded. No other step doubles a row."""
    dry = Query(tmp_path / "dry")
    dry.mailbox.fuse = fuse_type()
    run_all(dry, set())
    steps = dry.mailbox.fuse.steps
    assert len(steps) > 20
    doubled_at = set()
    for at, what in enumerate(steps):
        query, done = Query(tmp_path / f"crash{at}"), set()
        query.mailbox.fuse = fuse_type(at)
        with pytest.raises(crash_type):
            run_all(query, done)
        query.mailbox.fuse = None
        run_all(Query(tmp_path / f"crash{at}"), done)
        got = Counter(query.mailbox.got)
        assert not EVERYTHING - got, f"lost after a crash {what}"
        doubled = got - EVERYTHING
        assert max(doubled.values(), default=0) <= 1 and sum(doubled.values()) <= 12, "more than a segment"
        if doubled:
            doubled_at.add(what.rsplit(" ", 1)[0])
    assert doubled_at == {"after send"}, "the window is where it is said to be, and exists"


@pytest.mark.parametrize("verb", ["look", "publish", "seal", "discard", "record"])
def test_a_changed_segment_reads_writes_and_deletes_nothing_outside(tmp_path, verb):
    """Whichever text of a segment someone changes: also a field that is added later."""
    at = tmp_path / "penstock"
    MAILBOXES["hostile"] = Mailbox()
    context = SinkContext("q", SCHEMA, checkpoint=CheckpointLocation(LocalStorage(), str(tmp_path)))
    sink = MailSink("hostile")
    for name in ("staged", "sent"):
        # Directories that the beginning of a segment's id may name.
        for first in ("5-5-0-x", "5-5-0-a", "5-5-0-.penstock", "5-5-0-.", "5-5-0-", "5-5-0-.."):
            (at / name / first).mkdir(parents=True)
    with pa.OSFile(str(at / "victim-0.arrow"), "wb") as file, pa.ipc.new_stream(file, SCHEMA) as stream:
        stream.write_batch(pa.RecordBatch.from_pylist([{"id": 1}], schema=SCHEMA))
    before = files_below(at)
    for words, stored in changed(sink.committable_serializer.pack(Segment(5, 0, "a", 0, 1, 8, base=5))):
        segment = sink.committable_serializer.unpack(stored)
        committer = sink.create_committer(context)
        try:
            if verb == "record":
                FileCheckpointCommitter(context.checkpoint).record(segment)
            elif verb == "discard":
                committer.discard([segment], [])
            else:
                getattr(committer, verb)([segment])
        except (PenstockError, FileNotFoundError, ValueError):
            pass
        finally:
            committer.close()
        left = files_below(at).items()
        outside = {name: data for name, data in left if not name.startswith(("staged/", "sent/"))}
        assert outside == before and not MAILBOXES["hostile"].got, words
