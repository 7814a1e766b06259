"""The sinks on a real server, without Spark: deliveries, leases, scaling, what is lost."""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter, defaultdict

import pyarrow as pa
import pytest

from penstock.errors import BadConfigurationError, BadDataError, FatalError, RetriableError
from penstock.metrics import Metrics
from penstock.sink import CheckpointLocation, CommitOutcome, SinkContext, WriterContext
from penstock.storage import LocalStorage
from penstock_pravega.options import SINK_OPTIONS, SinkOptions
from penstock_pravega.protocol import Controller, PingAnswer, TransactionState
from penstock_pravega.sink import _leases, create_sink
from penstock_pravega.sink._committable import TransactionRef
from penstock_pravega.sink._leases import LeaseKeeper, lease_keeper
from penstock_pravega.sink._notes import TransactionNotes

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

    def __init__(self, pravega, folder, schema=SCHEMA, **options):
        given = {"controller": pravega.address, "scope": pravega.scope, "delivery": "exactly-once"}
        given |= {name.replace("_", "."): str(option) for name, option in options.items()}
        parsed = SinkOptions.from_values(SINK_OPTIONS.parse(given, owner="sink penstock.pravega"))
        self.checkpoint = CheckpointLocation(LocalStorage(), str(folder))
        self.context = SinkContext("query", schema, Metrics(), self.checkpoint)
        sink = create_sink(parsed, schema)
        sink.validate_schema(schema)
        self.sink = sink.start(self.context)

    def writer(self, batch_id=0):
        sink = pickle.loads(pickle.dumps(self.sink))
        context = WriterContext(
            "query", self.context.schema, Metrics(), self.checkpoint, batch_id=batch_id, attempt_id=uuid.uuid4().hex
        )
        return sink.create_writer(context)

    def write(self, *batches):
        writer = self.writer()
        for batch in batches:
            writer.write(batch)
        prepared = writer.prepare_commit()
        writer.close()
        return prepared.committables

    def committer(self):
        return self.sink.create_committer(self.context)


@pytest.fixture
def new_query(pravega, tmp_path):
    return lambda **options: Query(pravega, tmp_path, **options)


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
    committables = query.write(rows(0, 500), rows(500, 500))
    assert pravega.values(stream) == []
    stored = [query.sink.committable_serializer.pack(one) for one in committables]
    again = [query.sink.committable_serializer.unpack(one) for one in stored]
    assert query.committer().commit(again) == [CommitOutcome.COMMITTED]
    assert query.committer().commit(again) == [CommitOutcome.ALREADY_COMMITTED]
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
        assert query.committer().commit([committable]) == [CommitOutcome.COMMITTED]
    assert Counter(pravega.values(stream)) == Counter(values(0, 18_000))


def test_a_transaction_that_holds_less_than_was_counted_is_not_committed(pravega, new_query):
    stream = pravega.create_stream(segments=2)
    query = new_query(stream=stream)
    (committable,) = query.write(rows(0, 100))
    (segment, size), *others = committable.segments
    wrong = type(committable)(**{**vars(committable), "segments": ((segment, size + 17), *others)})
    assert query.committer().commit([wrong]) == [CommitOutcome.LOST]
    assert state(pravega, committable) is TransactionState.ABORTED
    assert pravega.values(stream) == []


def test_one_that_is_lost_takes_the_others_of_its_batch_with_it(pravega, new_query):
    stream = pravega.create_stream(segments=2)
    query = new_query(stream=stream)
    (one,), (other,) = query.write(rows(0, 10)), query.write(rows(10, 10))
    pravega.controller.abort_transaction(*one.ref.scope_and_stream, one.ref.id)
    assert query.committer().commit([one, other]) == [CommitOutcome.LOST] * 2
    assert pravega.values(stream) == []


def test_what_was_committed_stays_committed_if_another_is_lost(pravega, new_query):
    stream = pravega.create_stream(segments=2)
    query = new_query(stream=stream)
    (one,), (other,) = query.write(rows(0, 10)), query.write(rows(10, 10))
    assert query.committer().commit([one]) == [CommitOutcome.COMMITTED]
    pravega.controller.abort_transaction(*other.ref.scope_and_stream, other.ref.id)
    assert query.committer().commit([one, other]) == [CommitOutcome.ALREADY_COMMITTED, CommitOutcome.LOST]


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
    assert query.committer().commit([committable]) == [CommitOutcome.LOST]
    assert query.committer().commit(query.write(rows(0, 10))) == [CommitOutcome.COMMITTED]
    assert Counter(pravega.values(stream)) == Counter(values(0, 10))


def test_what_the_controller_may_have_forgotten_stops_the_query(pravega, new_query):
    stream = pravega.create_stream()
    query = new_query(stream=stream)
    (committable,) = query.write(rows(0, 10))
    ref = type(committable.ref)(committable.ref.stream, committable.ref.id + 1)
    unknown = type(committable)(**{**vars(committable), "ref": ref})
    assert query.committer().commit([unknown]) == [CommitOutcome.LOST]
    old = type(committable)(**{**vars(unknown), "prepared_ms": committable.prepared_ms - 13 * 3_600_000})
    with pytest.raises(FatalError, match="forgotten"):
        query.committer().commit([old])


def test_lingering_transactions_are_aborted_and_nobody_elses(pravega, new_query, tmp_path):
    stream = pravega.create_stream()
    query = new_query(stream=stream)
    other = Query(pravega, tmp_path / "other", stream=stream)
    (mine,), (theirs,) = query.write(rows(0, 10)), other.write(rows(10, 10))
    assert len(TransactionNotes(query.checkpoint).read()) == 1
    assert query.committer().abort_lingering() == 1
    assert state(pravega, mine) is TransactionState.ABORTED
    assert state(pravega, theirs) is TransactionState.OPEN
    assert TransactionNotes(query.checkpoint).read() == []
    assert other.committer().commit([theirs]) == [CommitOutcome.COMMITTED]


def test_a_writer_whose_transaction_was_aborted_fails(pravega, new_query):
    stream = pravega.create_stream()
    query = new_query(stream=stream)
    writer = query.writer()
    writer.write(rows(0, 10))
    query.committer().abort_lingering()
    with pytest.raises(RetriableError, match="is over"):
        write_on(writer)
    writer.abort()
    writer.close()
    assert pravega.values(stream) == []


def write_on(writer):
    for number in range(1, 50):
        writer.write(rows(number * 10, 10))
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
    assert query.committer().commit(committables) == [CommitOutcome.COMMITTED]
    (after,) = query.write(rows(1000, 500))
    assert query.committer().commit([after]) == [CommitOutcome.COMMITTED]
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
    assert not renewing.is_alive() and not keeper._due


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
    assert not keeper._due


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


@pytest.mark.parametrize("delivery", ["at-least-once", "best-effort"])
def test_plain_delivery(pravega, new_query, delivery):
    stream = pravega.create_stream(segments=3)
    query = new_query(stream=stream, delivery=delivery)
    query.write(rows(0, 2000), rows(2000, 2000))
    found = pravega.values(stream)
    assert Counter(found) == Counter(values(0, 4000)) and in_order(found)


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
    writer.prepare_commit()
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
    assert query.committer().commit(query.write(*batches)) == [CommitOutcome.COMMITTED]
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
    assert query.committer().commit(query.write(batch)) == [CommitOutcome.COMMITTED]
    assert pravega.values(stream) == [value]


def test_scope_and_stream_are_made(pravega, new_query):
    name = f"made-{uuid.uuid4().hex[:8]}"
    with pytest.raises(BadConfigurationError, match="create=true"):
        new_query(stream=f"{name}/s")
    new_query(stream=f"{name}/s", create="true", create_segments=3, create_retentionTime="1d")
    assert len(pravega.controller.current_segments(name, "s")) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delivery": "at-least-once", "transactionLease": "1m"}, "exactly-once"),
        ({"create_segments": "2"}, "create=true"),
        ({"create": "true", "create_eventsPerSecond": "1", "create_kbytesPerSecond": "1"}, "exclude"),
    ],
)
def test_options_that_do_not_go_together(new_query, options, message):
    with pytest.raises(BadConfigurationError, match=message):
        new_query(stream="s", **options)
