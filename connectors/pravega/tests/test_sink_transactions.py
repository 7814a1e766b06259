"""The sinks on a real server, without Spark: deliveries, leases, scaling, what is lost."""

from __future__ import annotations

import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import BadConfigurationError, BadDataError, FatalError, RetriableError
from penstock.metrics import Metrics
from penstock.sink import (
    CheckpointLocation,
    CommittingSinkWriter,
    Found,
    Kept,
    PreparedCommit,
    SinkContext,
    WriterContext,
)
from penstock.storage import LocalStorage
from penstock_pravega.client import Controller, PingAnswer, SegmentStores, TransactionState
from penstock_pravega.options import SINK_OPTIONS, SinkOptions
from penstock_pravega.sink import _leases, create_sink
from penstock_pravega.sink._committable import TransactionRef
from penstock_pravega.sink._event_appender import EventAppender
from penstock_pravega.sink._leases import LeaseKeeper, lease_keeper
from penstock_pravega.sink._transaction_log import OpenTransaction, TransactionLog

SCHEMA = pa.schema([("routing_key", pa.string()), ("value", pa.binary())])


def rows(first: int, count: int, keys: int = 7) -> pa.RecordBatch:
    numbers = range(first, first + count)
    return pa.record_batch(
        [[f"k{n % keys}" for n in numbers], [b"k%d:%06d" % (n % keys, n) for n in numbers]], schema=SCHEMA
    )


def values(first: int, count: int, keys: int = 7) -> list[bytes]:
    return rows(first, count, keys)["value"].to_pylist()


class Query:
    """A sink, with its checkpoint, its writers and its committer."""

    def __init__(self, pravega, folder, schema=SCHEMA, query_id="query", **options):
        given = {"controller": pravega.address, "scope": pravega.scope, "delivery": "exactly-once"}
        given |= {name.replace("_", "."): str(option) for name, option in options.items()}
        parsed = SinkOptions.from_values(SINK_OPTIONS.parse(given, owner="sink penstock.pravega"))
        self.checkpoint = CheckpointLocation(LocalStorage(), str(folder))
        self.context = SinkContext(query_id, schema, Metrics(), self.checkpoint)
        sink = create_sink(parsed, schema)
        sink.validate_schema(schema)
        self.sink = sink.start(self.context)

    def writer(self, base=0):
        sink = pickle.loads(pickle.dumps(self.sink))
        context = self.context
        of_task = WriterContext(
            context.query_id, context.schema, Metrics(), self.checkpoint, attempt_id=uuid.uuid4().hex, base=base
        )
        return sink.create_writer(of_task)

    def write(self, *batches, base=0):
        writer = self.writer(base)
        for batch in batches:
            writer.write(batch)
        writer.flush()
        prepared = writer.prepare_commit() if isinstance(writer, CommittingSinkWriter) else PreparedCommit()
        writer.close()
        return prepared.committables

    def committer(self):
        """Of another process."""
        return self.sink.create_committer(self.context)

    def look(self, *committables):
        return self.committer().look(committables)

    def commit(self, committables):
        """As the protocol does: look, then publish."""
        committer = self.committer()
        assert committer.look(committables) == [Found.OPEN] * len(committables)
        return committer.publish(committables)

    def notes(self):
        return TransactionLog(self.checkpoint, self.context.query_id)


@pytest.fixture
def new_query(pravega, tmp_path):
    return lambda **options: Query(pravega, tmp_path, **options)


OVER = (TransactionState.ABORTING, TransactionState.ABORTED)


def with_another_id(committable):
    return replace(committable, ref=TransactionRef(committable.ref.stream, committable.ref.id + 1))


def note_as_first_edition(query, committable):
    ref = committable.ref
    fields = {"v": 1, "stream": ref.stream, "transaction": f"{ref.id:032x}", "lease_ms": committable.lease_ms}
    folder = f"{query.checkpoint.path}/penstock/pravega-transactions"
    query.checkpoint.storage.put(f"{folder}/{ref.id:032x}.json", json.dumps(fields).encode())


def state(pravega, transaction):
    ref = getattr(transaction, "ref", transaction)
    return pravega.controller.transaction_state(*ref.scope_and_stream, ref.id)


def await_state(pravega, transaction, wanted):
    deadline = time.monotonic() + 60
    while state(pravega, transaction) is not wanted:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def in_order(found):
    by_key = defaultdict(list)
    for value in found:
        by_key[value.split(b":")[0]].append(value)
    return all(one == sorted(one) for one in by_key.values())


# --- exactly once -----------------------------------------------------------------------------------------------------


def test_committed_by_another_process_and_twice(pravega, new_query):
    stream = pravega.create_stream(segments=3)
    query = new_query(stream=stream)
    assert query.sink.target == f"{pravega.scope}/{stream}"
    committables = query.write(rows(0, 500), rows(500, 500))
    assert pravega.values(stream) == []
    stored = [query.sink.committable_serializer.pack(one) for one in committables]
    again = [query.sink.committable_serializer.unpack(one) for one in stored]
    assert query.commit(again) == [Found.COMMITTED]
    assert query.look(*again) == [Found.COMMITTED]
    assert query.committer().publish(again) == [Found.COMMITTED]
    assert query.notes().read() == []
    found = pravega.values(stream)
    assert Counter(found) == Counter(values(0, 1000)) and in_order(found)


TASK = """
import os, pickle, signal, sys, uuid
from penstock.metrics import Metrics
from penstock.sink import WriterContext
sink, checkpoint, batches = pickle.load(sys.stdin.buffer)
context = WriterContext("query", batches[0].schema, Metrics(), checkpoint, attempt_id=uuid.uuid4().hex)
writer = sink.create_writer(context)
for batch in batches:
    writer.write(batch)
(committable,) = writer.prepare_commit().committables
os.write(1, sink.committable_serializer.serialize(committable))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_everything_is_durable_when_a_task_has_prepared(pravega, new_query):
    """The task is killed as soon as its result is on its way; the driver commits what it left."""
    stream = pravega.create_stream(segments=2)
    query = new_query(stream=stream)
    for number in range(3):
        batches = [rows(number * 6000, 3000), rows(number * 6000 + 3000, 3000)]
        task = pickle.dumps((query.sink, query.checkpoint, batches))
        done = subprocess.run([sys.executable, "-c", TASK], input=task, stdout=subprocess.PIPE, timeout=60, check=False)
        assert done.returncode == -signal.SIGKILL
        committable = query.sink.committable_serializer.deserialize(1, done.stdout)
        assert query.commit([committable]) == [Found.COMMITTED]
    assert Counter(pravega.values(stream)) == Counter(values(0, 18_000))


def test_a_transaction_that_holds_less_than_was_counted_is_lost(pravega, new_query):
    stream = pravega.create_stream(segments=2)
    query = new_query(stream=stream)
    (committable,), (other,) = query.write(rows(0, 100)), query.write(rows(100, 10))
    (segment, size), *others = committable.segments
    wrong = replace(committable, segments=((segment, size + 17), *others))
    assert query.look(wrong, other) == [Found.LOST, Found.OPEN]
    assert query.commit([other]) == [Found.COMMITTED]
    assert query.look(wrong, other) == [Found.LOST, Found.COMMITTED]


def test_what_killed_writes_left_of_notes_is_removed_with_the_garbage(pravega, new_query, leave_killed_writes):
    query = new_query(stream=pravega.create_stream(segments=1))
    left = leave_killed_writes(Path(query.checkpoint.path) / "penstock" / "pravega-transactions", f"{1:032x}.json")
    assert query.notes().read() == []
    query.committer().clear(Kept(base=0, generation=0))
    assert left.swept


def test_looking_ends_nothing(pravega, new_query, monkeypatch):
    stream = pravega.create_stream(segments=2)
    query = new_query(stream=stream)
    (opened,), (aborted,), (committed,) = (query.write(rows(n, 10)) for n in (0, 10, 20))
    assert query.commit([committed]) == [Found.COMMITTED]
    query.committer().seal([aborted])
    query.notes().write(OpenTransaction(aborted.ref, 600_000, 0))
    noted = query.notes().read()
    with monkeypatch.context() as looking:
        for method in ("commit_transaction", "abort_transaction", "begin_transaction", "note_time"):
            looking.setattr(Controller, method, None)
        for _ in range(2):
            assert query.look(opened, aborted, committed) == [Found.OPEN, Found.LOST, Found.COMMITTED]
    assert query.notes().read() == noted and {note.ref for note in noted} == {opened.ref, aborted.ref}
    assert query.commit([opened]) == [Found.COMMITTED]
    assert Counter(pravega.values(stream)) == Counter(values(0, 10) + values(20, 10))


def test_one_that_is_committed_while_it_is_looked_at(pravega, new_query, monkeypatch):
    """By a run that was displaced. Its part of the segments is gone, and it is not lost."""
    query = new_query(stream=pravega.create_stream())
    (committable,) = query.write(rows(0, 10))
    info, late = SegmentStores.info, query.committer()

    def ask(self, stream, segment, name=None):
        assert late.publish([committable]) == [Found.COMMITTED]
        return info(self, stream, segment, name)

    monkeypatch.setattr(SegmentStores, "info", ask)
    assert query.look(committable) == [Found.COMMITTED]


# --- late calls -------------------------------------------------------------------------------------------------------


def test_what_is_sealed_cannot_be_published(pravega, new_query):
    """Not by a committer that has found it open before, either."""
    stream = pravega.create_stream(segments=2)
    query = new_query(stream=stream)
    (one,), (other,) = query.write(rows(0, 10)), query.write(rows(10, 10))
    late = query.committer()
    assert late.look([one, other]) == [Found.OPEN] * 2
    query.committer().seal([one])
    assert late.publish([one, other]) == [Found.LOST, Found.COMMITTED]
    assert query.look(one, other) == [Found.LOST, Found.COMMITTED]
    query.committer().seal([one])
    assert late.publish([one]) == [Found.LOST]
    await_state(pravega, one, TransactionState.ABORTED)
    assert Counter(pravega.values(stream)) == Counter(values(10, 10))


@pytest.mark.parametrize("late", ["seal", "discard", "clear", "publish"])
def test_what_is_published_stays_so(pravega, new_query, late):
    stream = pravega.create_stream()
    query = new_query(stream=stream)
    committables = query.write(rows(0, 10))
    assert query.commit(committables) == [Found.COMMITTED]
    query.notes().write(OpenTransaction(committables[0].ref, 600_000, 0))
    arguments = {"discard": (committables, []), "clear": (Kept(1, 1),)}.get(late, (committables,))
    for _ in range(2):
        getattr(query.committer(), late)(*arguments)
    assert query.notes().read() == []
    assert query.look(*committables) == [Found.COMMITTED]
    assert Counter(pravega.values(stream)) == Counter(values(0, 10))


def test_what_is_discarded_is_over(pravega, new_query):
    query = new_query(stream=pravega.create_stream())
    (committable,) = query.write(rows(0, 10))
    unknown = with_another_id(committable)
    for _ in range(2):
        query.committer().discard([committable, unknown], [])
    assert query.committer().publish([committable, unknown]) == [Found.LOST] * 2
    assert query.look(committable, unknown) == [Found.LOST] * 2
    assert query.notes().read() == []


def test_a_deleted_stream_has_no_garbage(pravega, new_query):
    stream = pravega.create_stream()
    query = new_query(stream=stream)
    (committable,) = query.write(rows(0, 10))
    pravega.controller.abort_transaction(*committable.ref.scope_and_stream, committable.ref.id)
    await_state(pravega, committable, TransactionState.ABORTED)
    pravega.controller.seal_stream(pravega.scope, stream)
    pravega.controller.delete_stream(pravega.scope, stream)
    query.committer().discard([committable], [])
    query.notes().write(OpenTransaction(committable.ref, 600_000, 0))
    assert query.committer().clear(Kept(1, 1)) == 1


# --- what does not live long enough -----------------------------------------------------------------------------------


def let_live_for(monkeypatch, left_ms):
    """The server lets transactions live so long, and answers as it does once a thousand leases are over."""
    asked, ping = [], Controller.ping_transaction

    def pinged(self, scope, name, number, lease_ms):
        if threading.current_thread() is threading.main_thread():  # and not by the lease keeper
            asked.append(lease_ms)
        if lease_ms > left_ms:
            return PingAnswer.MAX_EXECUTION_TIME_EXCEEDED
        return ping(self, scope, name, number, lease_ms)

    monkeypatch.setattr(Controller, "ping_transaction", pinged)
    return asked


@pytest.mark.parametrize(("left_ms", "found"), [(30_000, Found.OPEN), (10_000, Found.OPEN), (9_999, Found.LOST)])
def test_a_third_of_the_lease_is_left(pravega, new_query, monkeypatch, left_ms, found):
    query = new_query(stream=pravega.create_stream(), transactionLease="30s")
    (committable,) = query.write(rows(0, 10))
    with monkeypatch.context() as short:
        asked = let_live_for(short, left_ms)
        assert query.look(committable) == [found]
        assert asked == ([30_000] if left_ms == 30_000 else [30_000, 10_000])
    assert state(pravega, committable) is TransactionState.OPEN
    # Who has found it open before could still publish it. Once it is sealed, nobody can.
    query.committer().seal([committable])
    assert query.committer().publish([committable]) == [Found.LOST]


def test_half_of_a_batch_is_published_in_spite_of_it(pravega, new_query, monkeypatch):
    stream = pravega.create_stream(segments=2)
    query = new_query(stream=stream, transactionLease="30s")
    (one,), (other,) = query.write(rows(0, 10)), query.write(rows(10, 10))
    with monkeypatch.context() as short:
        let_live_for(short, 5_000)
        assert query.look(one, other) == [Found.LOST, Found.LOST]
        assert query.committer().publish([one]) == [Found.COMMITTED]
        committer = query.committer()
        assert committer.look([one, other]) == [Found.COMMITTED, Found.OPEN]
        assert committer.publish([other]) == [Found.COMMITTED]
    assert Counter(pravega.values(stream)) == Counter(values(0, 20))


def test_a_controller_that_cannot_renew_now_gives_nothing_up(pravega, new_query, monkeypatch):
    query = new_query(stream=pravega.create_stream())
    committables = query.write(rows(0, 10))
    with monkeypatch.context() as away:
        away.setattr(Controller, "ping_transaction", lambda *arguments: PingAnswer.DISCONNECTED)
        with pytest.raises(RetriableError, match="can't renew leases now"):
            query.look(*committables)
    assert query.commit(committables) == [Found.COMMITTED]


def test_a_lease_that_ran_out_between_decision_and_commit(pravega, new_query):
    """Nobody keeps it: the processes of task and driver are gone. It is lost, and says so, and can be written again."""
    stream = pravega.create_stream(segments=2)
    query = new_query(stream=stream, transactionLease="20s")
    (committable,) = query.write(rows(0, 10))
    assert committable.lease_ms == 20_000
    lease_keeper().forget(committable.ref)
    lease_keeper()._watched.clear()
    # As if most of it were over: the last renewal says for how long.
    renewed = pravega.controller.ping_transaction(*committable.ref.scope_and_stream, committable.ref.id, 100)
    assert renewed is PingAnswer.OK
    await_state(pravega, committable, TransactionState.ABORTED)
    assert query.look(committable) == [Found.LOST]
    assert query.commit(query.write(rows(0, 10))) == [Found.COMMITTED]
    assert Counter(pravega.values(stream)) == Counter(values(0, 10))


def test_what_the_controller_may_have_forgotten_stops_the_query(pravega, new_query):
    stream = pravega.create_stream()
    query = new_query(stream=stream)
    (committable,) = query.write(rows(0, 10))
    unknown = with_another_id(committable)
    assert query.look(unknown) == [Found.LOST]
    old = replace(unknown, prepared_ms=committable.prepared_ms - 13 * 3_600_000)
    with pytest.raises(FatalError, match="forgotten"):
        query.look(old)
    query.committer().seal([old])  # so that a person can have it written again


# --- garbage ----------------------------------------------------------------------------------------------------------


def test_garbage_of_the_query_and_of_earlier_bases_is_removed(pravega, new_query, tmp_path):
    stream = pravega.create_stream()
    query = new_query(stream=stream)
    elsewhere = Query(pravega, tmp_path / "other", stream=stream)
    copied_from = Query(pravega, tmp_path, query_id="original", stream=stream)
    (named,), (garbage,) = query.write(rows(0, 10), base=4), query.write(rows(10, 10), base=4)
    (planned,) = query.write(rows(20, 10), base=5)
    (theirs,), (originals,) = elsewhere.write(rows(30, 10), base=4), copied_from.write(rows(40, 10), base=4)
    writer = query.writer(base=3)  # a zombie's, which never reports
    writer.write(rows(50, 10))
    zombies = writer._ref
    assert query.committer().clear(Kept(5, 5, [named])) == 2
    assert state(pravega, garbage) in OVER and state(pravega, zombies) in OVER
    assert {state(pravega, one) for one in (named, planned, theirs, originals)} == {TransactionState.OPEN}
    assert {note.ref for note in query.notes().read()} == {named.ref, planned.ref}
    assert query.committer().clear(Kept(5, 5, [named])) == 0
    writer.abort()
    writer.close()
    assert query.commit([named]) == [Found.COMMITTED]
    assert query.committer().clear(Kept(6, 5)) == 1
    assert state(pravega, planned) in OVER
    assert [note.ref for note in copied_from.notes().read()] == [originals.ref]


def test_what_the_first_edition_noted_is_garbage_of_any_base(pravega, new_query, tmp_path):
    query = new_query(stream=pravega.create_stream())
    (named,), (garbage,) = query.write(rows(0, 10)), query.write(rows(10, 10))
    for committable in (named, garbage):
        note_as_first_edition(query, committable)
    assert [note.base for note in query.notes().read()] == [-1, -1]
    assert query.committer().clear(Kept(0, 0, [named])) == 1
    assert state(pravega, garbage) in OVER
    assert query.commit([named]) == [Found.COMMITTED]
    assert query.notes().read() == []


def test_what_is_no_note_is_left_alone(pravega, new_query, tmp_path):
    query = new_query(stream=pravega.create_stream())
    (committable,) = query.write(rows(0, 10))
    folder = tmp_path / "penstock" / "pravega-transactions"
    (note,) = folder.iterdir()
    fields = json.loads(note.read_text())
    strange = {
        "readme.txt": "hello",
        "half.json": note.read_text()[:20],
        "list.json": "[]",
        "other.json": "{}",
        "another-name.json": note.read_text(),
        note.name: json.dumps({**fields, "v": 3}),
    }
    for name, text in strange.items():
        (folder / name).write_text(text)
    assert query.committer().clear(Kept(9, 9)) == 0
    assert state(pravega, committable) is TransactionState.OPEN
    assert {path.name for path in folder.iterdir()} == set(strange)


def test_a_note_that_cannot_be_cleared_stays(pravega, new_query, monkeypatch):
    query = new_query(stream=pravega.create_stream())
    query.write(rows(0, 10))
    with monkeypatch.context() as away:
        away.setattr(Controller, "abort_transaction", lambda *arguments: False)
        with pytest.raises(RetriableError, match="still open"):
            query.committer().clear(Kept(1, 1))
    assert len(query.notes().read()) == 1
    assert query.committer().clear(Kept(1, 1)) == 1


def test_a_batch_write_has_no_notes(pravega, new_query):
    query = new_query(stream=pravega.create_stream())
    query.checkpoint = None
    query.context = replace(query.context, checkpoint=None)
    (committable,), (garbage,) = query.write(rows(0, 10)), query.write(rows(10, 10))
    assert query.committer().clear(Kept(9, 9)) == 0
    query.committer().discard([garbage], [])
    assert query.commit([committable]) == [Found.COMMITTED]
    assert state(pravega, garbage) in OVER


def test_a_writer_whose_transaction_was_aborted_fails(pravega, new_query):
    stream = pravega.create_stream()
    query = new_query(stream=stream)
    writer = query.writer()
    writer.write(rows(0, 10))
    assert query.committer().clear(Kept(1, 1)) == 1
    with pytest.raises(RetriableError, match="is over"):
        write_on(writer)
    writer.abort()
    writer.close()
    assert pravega.values(stream) == []


def write_on(writer):
    for number in range(1, 50):
        writer.write(rows(number * 10, 10))
    writer.flush()
    if isinstance(writer, CommittingSinkWriter):
        writer.prepare_commit()


def test_a_scaling_while_a_transaction_is_open(pravega, new_query):
    stream = pravega.create_stream(segments=2)
    query = new_query(stream=stream)
    writer = query.writer()
    writer.write(rows(0, 500))
    pravega.split_all(stream)
    writer.write(rows(500, 500))
    committables = writer.prepare_commit().committables
    writer.close()
    assert query.commit(committables) == [Found.COMMITTED]
    (after,) = query.write(rows(1000, 500))
    assert query.commit([after]) == [Found.COMMITTED]
    found = pravega.values(stream)
    assert Counter(found) == Counter(values(0, 1500)) and in_order(found)


# --- leases -----------------------------------------------------------------------------------------------------------


def test_a_lease_is_renewed_until_the_transaction_is_over(pravega, monkeypatch):
    """Much more often than needed, so that none ends here, however slow the machine is."""
    assert _leases._interval(10_000) == 2.5
    monkeypatch.setattr(_leases, "_interval", lambda lease_ms: 0.02)
    stream, keeper, answers, ping = (
        pravega.create_stream(),
        LeaseKeeper(),
        queue.SimpleQueue(),
        Controller.ping_transaction,
    )

    def pinged(self, scope, name, *rest):
        answer = ping(self, scope, name, *rest)
        if name == stream:
            answers.put(answer)
        return answer

    monkeypatch.setattr(Controller, "ping_transaction", pinged)
    number, _ = pravega.controller.begin_transaction(pravega.scope, stream, 20_000)
    keeper.keep(pravega.settings, TransactionRef(f"{pravega.scope}/{stream}", number), 20_000)
    renewing = keeper._thread
    assert [answers.get(timeout=60) for _ in range(3)] == [PingAnswer.OK] * 3
    pravega.controller.abort_transaction(pravega.scope, stream, number)
    renewing.join(60)
    assert not renewing.is_alive() and not keeper._kept


@pytest.mark.exhaustive("a lease's end is waited for; that leases are renewed is shown by the test above")
def test_a_lease_that_is_renewed_does_not_end(pravega):
    stream, keeper = pravega.create_stream(), LeaseKeeper()
    kept, left = [
        TransactionRef(
            f"{pravega.scope}/{stream}", pravega.controller.begin_transaction(pravega.scope, stream, 10_000)[0]
        )
        for _ in range(2)
    ]
    keeper.keep(pravega.settings, kept, 10_000)
    await_state(pravega, left, TransactionState.ABORTED)
    assert state(pravega, kept) is TransactionState.OPEN
    pravega.controller.abort_transaction(pravega.scope, stream, kept.id)
    keeper._thread.join(60)
    assert not keeper._kept


def test_a_lease_that_the_server_refuses(pravega, new_query):
    stream = pravega.create_stream()
    with pytest.raises(BadConfigurationError, match="transactionLease"):
        new_query(stream=stream, transactionLease="2h")
    assert new_query(stream=stream).sink.lease_ms == 600_000
    number, _ = pravega.controller.begin_transaction(pravega.scope, stream, 10_000)
    assert pravega.controller.ping_transaction(pravega.scope, stream, number, 10_000) is PingAnswer.OK
    pravega.controller.abort_transaction(pravega.scope, stream, number)
    assert pravega.controller.commit_transaction(pravega.scope, stream, number) is False


# --- at least once ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delivery", ["at-least-once", "none"])
def test_plain_delivery(pravega, new_query, delivery):
    stream = pravega.create_stream(segments=3)
    query = new_query(stream=stream, delivery=delivery)
    query.write(rows(0, 2000), rows(2000, 2000))
    found = pravega.values(stream)
    assert Counter(found) == Counter(values(0, 4000)) and in_order(found)


def test_what_best_effort_drops_is_counted_and_logged_once(pravega, new_query, monkeypatch, caplog):
    stream = pravega.create_stream(segments=3)
    writer = new_query(stream=stream, delivery="none").writer()
    writer.write(rows(0, 1000))
    writer._appender.flush()

    def away(*_):
        raise RetriableError("the segment store is away")

    monkeypatch.setattr(EventAppender, "append", away)
    monkeypatch.setattr(EventAppender, "flush", away)
    writer.write(rows(1000, 7))
    writer.write(rows(1007, 5))
    writer.flush()
    counts = writer._context.metrics.snapshot()
    assert (counts["rows_written"], counts["failed_rows"]) == (1000, 12)
    assert [text for text in caplog.messages if "dropped" in text] == [
        f"writing to {pravega.scope}/{stream}: the segment store is away; what was not acknowledged is dropped "
        "(delivery=none)"
    ]
    writer.close()


@pytest.mark.parametrize("connections", ["hold", "break"])
def test_plain_delivery_over_scalings(pravega, new_query, no_pauses, connections):
    stream = pravega.create_stream(segments=2)
    query = new_query(stream=stream, delivery="at-least-once")
    writer = query.writer()
    for number in range(6):
        writer.write(rows(number * 1000, 1000))
        (pravega.split_all if number % 2 == 0 else pravega.merge_all)(stream)
        if connections == "break":  # a writer that connects again may learn in the midst of a batch
            for appender in writer._appender._appenders.values():
                appender._connection.close()
        writer.write(rows(number * 1000 + 500_000, 500))
    writer.flush()
    writer.close()
    found = pravega.values(stream)
    wanted = [value for n in range(6) for value in values(n * 1000, 1000) + values(n * 1000 + 500_000, 500)]
    assert Counter(found) == Counter(wanted)
    by_key = defaultdict(list)
    for value in wanted:
        by_key[value.split(b":")[0]].append(value)
    # In the order of writing, which is not that of the numbers here.
    for key, expected in by_key.items():
        assert [value for value in found if value.split(b":")[0] == key] == expected


def test_a_sealed_stream_is_told(pravega, new_query):
    stream = pravega.create_stream()
    query = new_query(stream=stream, delivery="at-least-once")
    writer = query.writer()
    writer.write(rows(0, 10))
    pravega.controller.seal_stream(pravega.scope, stream)
    with pytest.raises(BadConfigurationError, match="sealed"):
        write_on(writer)
    writer.close()


# --- rows and options -------------------------------------------------------------------------------------------------


BY_LENGTH = """
import pyarrow.compute as pc

def by_length(batch):
    return pc.binary_length(batch["value"]).cast("string")
"""


def test_keys_by_a_function_and_by_a_column(pravega, new_query, tmp_path, monkeypatch):
    (tmp_path / "users_routing.py").write_text(BY_LENGTH)
    monkeypatch.syspath_prepend(str(tmp_path))
    stream = pravega.create_stream(segments=4)
    schema = pa.schema([("value", pa.binary()), ("device", pa.string())])
    batch = pa.record_batch([[b"x" * (n % 9 + 1) for n in range(90)], ["d"] * 90], schema=schema)
    new_query(schema=schema, stream=stream, delivery="at-least-once", routingKey="users_routing:by_length").write(batch)
    segments = defaultdict(set)
    for event in pravega.read(stream):
        segments[len(event.value)].add(event.segment)
    assert len(segments) == 9 and all(len(one) == 1 for one in segments.values())
    assert len(set.union(*segments.values())) > 1
    other = pravega.create_stream(segments=4)
    new_query(schema=schema, stream=other, delivery="at-least-once", routingKey="device").write(batch)
    assert len({event.segment for event in pravega.read(other)}) == 1
    with pytest.raises(BadConfigurationError, match="no column 'nowhere'"):
        new_query(stream=stream, routingKey="nowhere")


def test_events_without_keys(pravega, new_query):
    stream = pravega.create_stream(segments=2)
    schema = pa.schema([("value", pa.string())])
    query = new_query(schema=schema, stream=stream)
    batches = [pa.record_batch([[f"{n}-{m}" for m in range(10)]], schema=schema) for n in range(4)]
    assert query.commit(query.write(*batches)) == [Found.COMMITTED]
    assert len(pravega.values(stream)) == 40
    assert len({event.segment for event in pravega.read(stream)}) == 2


@pytest.mark.parametrize(("value", "message"), [(None, "null"), (b"x" * ((8 << 20) + 1), "at most 8388608")])
def test_values_that_are_no_events(pravega, new_query, value, message):
    query = new_query(stream=pravega.create_stream())
    writer = query.writer()
    with pytest.raises(BadDataError, match=message):
        writer.write(pa.record_batch([["k", "k"], [b"a", value]], schema=SCHEMA))
    writer.abort()
    writer.close()


def test_the_largest_event(pravega, new_query):
    stream = pravega.create_stream()
    query = new_query(stream=stream)
    value = os.urandom(8 << 20)
    batch = pa.record_batch([["k"], [value]], schema=SCHEMA)
    assert query.commit(query.write(batch)) == [Found.COMMITTED]
    assert pravega.values(stream) == [value]


def test_scope_and_stream_are_made(pravega, new_query):
    name = f"made-{uuid.uuid4().hex[:8]}"
    with pytest.raises(BadConfigurationError, match="create=true"):
        new_query(stream=f"{name}/s")
    new_query(stream=f"{name}/s", create="true", create_segments=3, create_retentionTime="1d")
    assert len(pravega.controller.current_segments(name, "s")) == 3


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_a_stream_that_is_deleted_between_two_batches_is_made_again(pravega, new_query, delivery):
    """Or refused, if it is not to be made: in the process that has seen it before."""
    stream = pravega.create_stream()
    name = stream.rpartition("/")[2]
    query = new_query(stream=stream, create="true", create_segments=2, delivery=delivery)
    pravega.controller.seal_stream(pravega.scope, name)
    pravega.controller.delete_stream(pravega.scope, name)
    with pytest.raises(BadConfigurationError, match="create=true"):
        new_query(stream=stream, delivery=delivery)
    query.sink.start(query.context)
    assert len(pravega.controller.current_segments(pravega.scope, name)) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delivery": "at-least-once", "transactionLease": "1m"}, "exactly-once"),
        ({"create_segments": "2"}, "create=true"),
        ({"create": "true", "create_eventsPerSecond": "1", "create_kbytesPerSecond": "1"}, "can't be used with"),
    ],
)
def test_options_that_do_not_go_together(new_query, options, message):
    with pytest.raises(BadConfigurationError, match=message):
        new_query(stream="s", **options)
