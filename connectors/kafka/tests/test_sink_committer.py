"""The driver's side of the exactly-once sink on a real broker: every way in which a transaction can have ended."""

from __future__ import annotations

import json
import socket
import struct
import time
import uuid
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from kafka.protocol.metadata import CoordinatorType
from kafka.protocol.producer import InitProducerIdRequest

from penstock.errors import FatalError
from penstock.metrics import Metrics
from penstock.serialization import Versioned
from penstock.sink import Found, Kept
from penstock_kafka.client import TransactionRef, open_producer
from penstock_kafka.client.broker import Coordinators, find_coordinators
from penstock_kafka.dev import KafkaToolbox
from penstock_kafka.sink._committable import COMMITTABLE_SERIALIZER, KafkaCommittable
from penstock_kafka.sink._committer import KafkaCommitter
from penstock_kafka.sink._states import ProvenStates
from penstock_kafka.transactions import QueryPrefix

OPEN, COMMITTED, LOST = Found.OPEN, Found.COMMITTED, Found.LOST
GENERATION = 5


class Query:
    """A query's transactions, written as its tasks would."""

    def __init__(self, kafka, *, lists=True):
        self.kafka, self.lists = kafka, lists
        self.prefix = QueryPrefix("test", uuid.uuid4().hex)
        self.topic = kafka.create_topic(partitions=2)
        self.coordinators = Coordinators({"bootstrap.servers": kafka.address})
        self.committer = KafkaCommitter(self.coordinators, self.prefix, Metrics(), None if lists else self.proven)
        self.producers = []

    def prepare(self, slot, *, batch_id=3, values=(b"a", b"b"), timeout_ms=60_000):
        transactional_id, attempt = self.prefix.transactional_id(GENERATION, "0123abcd", slot), uuid.uuid4().hex
        settings = {"transactional.id": transactional_id, "transaction.timeout.ms": str(timeout_ms)}
        producer = open_producer({"bootstrap.servers": self.kafka.address, **settings})
        self.producers.append(producer)
        identity = producer.init_transactions(30_000)
        producer.begin_transaction()
        topics = pa.array([self.topic] * len(values), pa.string())
        producer.produce(pa.record_batch({"value": pa.array(values, pa.binary()), "topic": topics}))
        producer.send_offset(transactional_id, self.topic, 0, batch_id, attempt, 30_000)
        producer.flush()
        ref, now_ms = (
            TransactionRef(transactional_id, identity.producer_id, identity.epoch),
            time.time_ns() // 1_000_000,
        )
        return KafkaCommittable(ref, batch_id, attempt, len(values), now_ms, (self.topic,), now_ms)

    def end(self, prepared, *, commit):
        """Ends a transaction. Where brokers describe none, one that is ending looks open: waits until it has ended."""
        self.coordinators.end([prepared.ref], commit=commit)
        deadline = time.monotonic() + 60
        while not self.lists and self.committer.look([prepared]) == [OPEN]:
            assert time.monotonic() < deadline, "it is still open after a minute"
            time.sleep(0.01)

    def proven(self):
        return ProvenStates(self.coordinators, 600_000, [self.topic], {})

    def clear(self, generation=GENERATION + 1, named=()):
        return self.committer.clear(Kept(base=0, generation=generation, committables=named))

    def values(self, isolation="read_committed"):
        return sorted(record.value for record in self.kafka.read(self.topic, isolation))

    def close(self):
        self.coordinators.close()
        for producer in self.producers:
            producer.close()


OTHER_CLIENT = pytest.mark.exhaustive("transactions of the other client, which the committer does not tell apart")


OLD_BROKER = pytest.mark.exhaustive("a broker that lacks the requests; a new one that is not asked them is the witness")


@pytest.fixture(
    params=[
        "protocol",
        pytest.param("librdkafka", marks=OTHER_CLIENT),
        "protocol unlisted",
        pytest.param("protocol 2.8.2", marks=OLD_BROKER),
    ]
)
def query(request, monkeypatch):
    """``unlisted``: brokers are not asked to list or describe transactions; those of Kafka 2.8 could not."""
    client, _, broker = request.param.partition(" ")
    monkeypatch.setenv("PENSTOCK_KAFKA_CLIENT", client)
    made = Query(request.getfixturevalue("old_kafka" if broker == "2.8.2" else "kafka"), lists=not broker)
    yield made
    made.close()


def test_a_batch_appears_as_a_whole_and_a_second_time_changes_nothing(query):
    batch = [query.prepare(slot) for slot in range(3)]
    assert query.committer.look(batch) == [OPEN] * 3
    assert query.values() == []
    for _ in range(2):
        assert query.committer.publish(batch) == [COMMITTED] * 3
        assert query.committer.look(batch) == [COMMITTED] * 3
        assert query.values() == [b"a"] * 3 + [b"b"] * 3


@pytest.mark.parametrize("end", ["seal", "discard"])
def test_what_is_published_stays_so_and_what_is_not_never_will_be(query, end):
    published, other = query.prepare(0), query.prepare(1)
    query.committer.publish([published])
    for _ in range(2):
        query.committer.seal([published, other]) if end == "seal" else query.committer.discard([published, other], [])
        assert query.committer.look([published, other]) == [COMMITTED, LOST]
    assert query.committer.publish([published, other]) == [COMMITTED, LOST], "a call that was on its way"
    assert query.values() == [b"a", b"b"]


def test_a_batch_of_more_transactions_than_travel_at_once(query, monkeypatch):
    monkeypatch.setattr("penstock_kafka.client.broker._coordinators._TOGETHER", 4)
    batch = [query.prepare(slot, values=[b"x"]) for slot in range(11)]
    assert query.committer.publish(batch) == [COMMITTED] * 11
    assert query.values() == [b"x"] * 11


def test_every_state_that_a_driver_that_died_may_have_left(query):
    batch = [query.prepare(slot) for slot in range(3)]
    query.end(batch[0], commit=True)
    query.end(batch[1], commit=False)
    assert query.committer.look(batch) == [COMMITTED, LOST, OPEN]
    assert query.committer.publish(batch) == [COMMITTED, LOST, COMMITTED]
    assert len(query.values()) == 4


def test_the_task_s_clock_tells_which_is_near_its_end_where_brokers_do_not(kafka, monkeypatch):
    made = Query(kafka, lists=False)
    young, old = made.prepare(0), made.prepare(1)
    now = time.time_ns() // 1000
    monkeypatch.setattr("penstock.system.System.now_us", lambda _: now + 300_000_000)
    young, old = (replace(one, opened_ms=now // 1000 - age_ms) for one, age_ms in ((young, 0), (old, 100_001)))
    assert made.committer.look([young, old]) == [OPEN, LOST]
    made.committer.publish([young])
    assert made.committer.look([young, old]) == [COMMITTED, OPEN]
    made.committer.seal([old])
    assert made.committer.look([young, old]) == [COMMITTED, LOST]
    made.close()


@pytest.mark.parametrize("query", ["protocol", pytest.param("librdkafka", marks=OTHER_CLIENT)], indirect=True)
def test_one_that_is_near_its_end_is_lost_unless_another_is_committed(query, monkeypatch):
    young, old = query.prepare(0), query.prepare(1, timeout_ms=3_000)
    later = time.time_ns() // 1000 + 2_100_000
    monkeypatch.setattr("penstock.system.System.now_us", lambda _: later)
    assert query.committer.look([young, old]) == [OPEN, LOST]
    assert query.committer.look([young, replace(old, opened_ms=later // 1000)]) == [OPEN, OPEN], (
        "a broker's clock is wrong"
    )
    query.committer.publish([young])
    assert query.committer.look([young, old]) == [COMMITTED, OPEN], "to give up is not possible any more"
    assert query.committer.publish([old]) == [COMMITTED]


@pytest.mark.parametrize("ended", ["committed", "aborted"])
def test_the_proof_outlives_the_transactional_id(query, ended):
    """The slot has been used again, or taken by hand: its coordinator remembers nothing of the transaction."""
    prepared, is_committed = query.prepare(0), ended == "committed"
    query.end(prepared, commit=is_committed)
    for _ in range(2):
        query.coordinators.fence(prepared.ref.transactional_id)
    assert query.committer.look([prepared]) == [COMMITTED if is_committed else LOST]
    later = query.prepare(0, batch_id=4)
    assert query.committer.publish([prepared]) == [COMMITTED if is_committed else LOST]
    assert query.committer.publish([later]) == [COMMITTED]


def test_a_committed_batch_is_not_lost_while_its_markers_are_being_written(query):
    """Asked at once after the commit, over and over: never LOST.

    It is OPEN at most where brokers do not tell it from one that is ending; to commit it then waits for the end.
    """
    for batch_id in range(10):
        prepared = query.prepare(0, batch_id=batch_id)
        query.coordinators.end([prepared.ref], commit=True)
        found = query.committer.look([prepared])
        assert found == [COMMITTED] or (found == [OPEN] and not query.lists)
        query.committer.seal([prepared])
        assert query.committer.look([prepared]) == [COMMITTED]


def test_open_transactions_of_this_query_and_earlier_generations_only_are_garbage(kafka, query):
    other = Query(kafka)
    try:
        own, foreign = [query.prepare(slot) for slot in range(3)], other.prepare(0)
        assert query.clear(generation=GENERATION) == 0, "another run's, which may have begun meanwhile"
        assert query.clear(named=own[:1]) == 2
        assert query.clear(named=own[:1]) == 0
        assert other.committer.publish([foreign]) == [COMMITTED]
        assert query.committer.look(own) == [OPEN, LOST, LOST]
    finally:
        other.close()


def test_what_the_first_edition_left_open_is_garbage(query, monkeypatch):
    monkeypatch.setattr(QueryPrefix, "transactional_id", lambda self, _, host, slot: f"{self.text}{host}.{slot}")
    old = query.prepare(0)
    assert query.clear(generation=0) == 1
    assert query.committer.look([old]) == [LOST]


def test_a_proof_that_may_have_been_forgotten_is_not_taken_for_a_loss(query):
    prepared = query.prepare(0)
    query.end(prepared, commit=False)
    with pytest.raises(FatalError, match="Look into the topic"):
        query.committer.look([replace(prepared, prepared_ms=prepared.prepared_ms - 7 * 86_400_000)])


@pytest.fixture
def breaking(breakable):
    """A query on a broker that may be killed."""
    made = Query(KafkaToolbox(breakable.address))
    yield made
    made.close()


def test_transactions_that_time_out_between_decision_and_commit_are_lost_and_said_so(breaking):
    batch = [breaking.prepare(slot, timeout_ms=500) for slot in range(2)]
    deadline = time.monotonic() + 60
    while breaking.coordinators.open_ids(breaking.prefix.owns) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert breaking.committer.look(batch) == breaking.committer.publish(batch) == [LOST, LOST]
    assert breaking.values() == []


OTHER_KILLS = pytest.mark.exhaustive(
    "before the first and after the last of a batch's commits, with a driver that lives; after one, and dying with it, "
    "is the witness"
)


@pytest.mark.parametrize("first", [pytest.param(0, marks=OTHER_KILLS), 1, pytest.param(3, marks=OTHER_KILLS)])
@pytest.mark.parametrize("driver", [pytest.param("lives", marks=OTHER_KILLS), "dies"])
@pytest.mark.budget(10)
def test_a_broker_that_is_killed_in_the_middle_of_a_commit(breakable, breaking, monkeypatch, first, driver):
    """Killed when it has taken down ``first`` of three commits, and perhaps not marked them in the topic.

    It often never does so: most runs see the committer write the marks itself.
    """
    batch = [breaking.prepare(slot) for slot in range(3)]
    end, answered = breaking.coordinators._end_all, []

    async def killed_on_the_way(brokers, refs, commit):
        if not answered:
            await end(brokers, refs[:first], commit)
            answered.append(True)
            breakable.kill()
            if driver == "dies":
                raise SystemExit
            breakable.start()
        return await end(brokers, refs, commit)

    monkeypatch.setattr(breaking.coordinators, "_end_all", killed_on_the_way)
    if driver == "lives":
        assert breaking.committer.publish(batch) == [COMMITTED] * 3
    else:
        with pytest.raises(SystemExit):
            breaking.committer.publish(batch)
        breakable.start()
        breaking.coordinators.close()
        assert breaking.committer.look(batch) == [COMMITTED] * first + [OPEN] * (3 - first)
        assert breaking.committer.publish(batch[first:]) == [COMMITTED] * (3 - first)
    assert len(breaking.values()) == 6


ONE_BATCH = pytest.mark.exhaustive("the sealing of one batch; the clearing of all that is left open is the witness")


@pytest.mark.parametrize("by", [pytest.param("seal", marks=ONE_BATCH), "clear"])
@pytest.mark.budget(10)
def test_a_broker_that_is_killed_in_the_middle_of_an_abort_hides_nothing_behind_it(
    breakable, breaking, monkeypatch, by
):
    batch = [breaking.prepare(slot) for slot in range(3)]
    ends = {"seal": "_end_all", "clear": "_init_producer_ids"}[by]
    end, answered = getattr(breaking.coordinators, ends), []

    async def killed_on_the_way(*arguments):
        if not answered:
            answered.append(await end(*arguments))
            breakable.kill()
            breakable.start()
        return await end(*arguments)

    monkeypatch.setattr(breaking.coordinators, ends, killed_on_the_way)
    breaking.committer.seal(batch) if by == "seal" else breaking.clear()
    later = breaking.prepare(3, batch_id=4)
    assert breaking.committer.publish([later]) == [COMMITTED]
    assert breaking.values() == [b"a", b"b"]


@pytest.mark.exhaustive("some 32,700 registrations of one id; the broker takes seconds of both cores for them")
@pytest.mark.parametrize("query", ["protocol"], indirect=True)
def test_epochs_run_out_and_the_producer_id_rolls_over(query):
    """An id's epoch is a 16-bit number: near its end the coordinator hands out another producer id."""
    transactional_id = query.prefix.transactional_id(GENERATION, "0123abcd", 0)
    first = query.prepare(0, batch_id=0)
    assert query.committer.publish([first]) == [COMMITTED]
    use_up_epochs(query.coordinators, transactional_id, first.ref.epoch, until=32_760)
    batches = [first]
    for batch_id in range(1, 8):
        batches.append(query.prepare(0, batch_id=batch_id))
        assert query.committer.publish(batches[-1:]) == query.committer.look(batches[-1:]) == [COMMITTED]
    assert len({prepared.ref.producer_id for prepared in batches}) > 1, "the epochs never ran out"
    assert len(query.values()) == 16


def use_up_epochs(coordinators, transactional_id, epoch, until):
    """Registers the id again and again, over a plain socket: what a client does for each request costs too much."""

    async def leader(brokers):
        found = await find_coordinators(brokers.client, CoordinatorType.TRANSACTION, [transactional_id])
        return brokers.client.broker(found[transactional_id])

    broker = coordinators._brokers.ask(leader, "find the coordinator")
    fields = {"transactional_id": transactional_id, "transaction_timeout_ms": 10_000}
    request = InitProducerIdRequest(**fields, version=2)
    request.with_header(correlation_id=1, client_id="epochs")
    frame = request.encode(framed=True, header=True)
    with socket.create_connection((broker.host, broker.port), timeout=60) as connection:
        answers = connection.makefile("rb")
        while epoch < until:
            times = min(500, until - epoch)
            connection.sendall(frame * times)
            for _ in range(times):
                (size,) = struct.unpack(">i", answers.read(4))
                answer = answers.read(size)
            # Flexible version 2: correlation id, tags, throttle time, error, producer id, epoch, tags.
            _, _, _, error, _, epoch = struct.unpack_from(">ibihqh", answer)
            assert error == 0


def test_committables_are_stored_field_by_field():
    ref = TransactionRef("t.q.0123abcd.0", 7, 3)
    prepared = KafkaCommittable(ref, 12, "ab" * 16, 1000, 1_700_000_000_000, ("out",), 1_699_999_999_000)
    stored = COMMITTABLE_SERIALIZER.pack(prepared)
    assert COMMITTABLE_SERIALIZER.unpack(stored) == prepared and stored.version == 3
    second = replace(prepared, opened_ms=0)
    for version, expected in {1: replace(second, topics=()), 2: second, 3: prepared}.items():
        golden = json.loads((Path(__file__).parent / "golden" / f"committable-v{version}.json").read_text())
        assert COMMITTABLE_SERIALIZER.unpack(Versioned.from_json(golden)) == expected
