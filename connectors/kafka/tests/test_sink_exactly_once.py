"""The whole protocol on a real broker without Spark: a crash before and after every step, zombies, refused records."""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest

import penstock_kafka.transactions._producers as producers
from penstock._commit import Batch, Chain, TwoPhaseCommit, run_task
from penstock.errors import BadConfigurationError, DataLostError, PenstockError, RetriableError
from penstock.sink import Kept, SinkContext, WriterContext
from penstock.storage import LocalStorage
from penstock_kafka import KafkaConnector
from penstock_kafka.client import DeliveryError
from penstock_kafka.client.broker import Coordinators
from penstock_kafka.dev import KafkaToolbox
from penstock_kafka.sink._committable import COMMITTABLE_SERIALIZER
from penstock_kafka.sink._committer import KafkaCommitter
from penstock_kafka.sink._sink import _asked_brokers
from penstock_kafka.sink._states import DescribedStates, ProvenStates
from penstock_kafka.sink._writer import KafkaTransactionalWriter

SCHEMA = pa.schema([("key", pa.string()), ("value", pa.string())])


class Crash(BaseException):
    """Stands for a driver that ends on the spot: nothing below catches it."""


class Fuse:
    """Blows at the ``at``-th step, or the first of that name; counts the steps otherwise."""

    def __init__(self, monkeypatch):
        self.at, self.steps = None, []
        for owner, name in (
            (Chain, "create"),
            (Chain, "mark_done"),
            (Coordinators, "end"),
            (DescribedStates, "end_leftovers"),
            (ProvenStates, "end_leftovers"),
            (KafkaCommitter, "look"),
            (DescribedStates, "await_ends"),
            (ProvenStates, "await_ends"),
            (KafkaCommitter, "publish"),
            (KafkaTransactionalWriter, "prepare_commit"),
        ):
            monkeypatch.setattr(owner, name, self._fused(getattr(owner, name), name))

    def _fused(self, call, name):
        def fused(*args, **kwargs):
            self._step(f"before {name}")
            result = call(*args, **kwargs)
            self._step(f"after {name}")
            return result

        return fused

    def _step(self, what):
        self.steps.append(what)
        if self.at in (what, len(self.steps) - 1):
            self.at = None
            raise Crash(what)


class SparkLog:
    """A log of batches, as Spark's: every batch is planned once and then run until it is noted."""

    def __init__(self):
        self.number = 0

    def planned(self, expected):
        return self.find(self.number)

    def find(self, number):
        return Batch(number, b"offsets of %d" % number)


class Query:
    """A driver with its tasks, as Spark would run them; a new one on the same folder is a restart."""

    def __init__(self, kafka, folder, topic, query_id, **options):
        connector = KafkaConnector()
        texts = {"kafka.bootstrap.servers": kafka.address, "topic": topic, "delivery": "exactly-once", **options}
        parsed = connector.sink_options.parse(texts, owner="sink penstock.kafka")
        self.context = SinkContext(query_id, SCHEMA)
        self.sink = connector.create_sink(parsed, SCHEMA).start(self.context)
        self.protocol = TwoPhaseCommit(self.sink, self.context, Chain(LocalStorage(), str(folder / "ck")))
        self.log = SparkLog()

    def plan(self, batch_id=0):
        self.log.number = batch_id
        return self.protocol.plan(self.log)

    def clear_now(self):
        """How much is found open."""
        return self.sink.create_committer(self.context).clear(Kept(base=1 << 30, generation=1 << 30))

    def attempt(self, plan, batch_id, writer, values):
        context = WriterContext(self.context.query_id, SCHEMA, batch_id=batch_id, writer_index=writer)
        context = replace(context, attempt_id=uuid.uuid4().hex)
        keys = [value.split(":")[0] for value in values]
        return run_task(self.sink, plan, context, iter([pa.record_batch([keys, values], schema=SCHEMA)]))

    def run(self, batch_id, shares):
        plan = self.plan(batch_id)
        results = [self.attempt(plan, batch_id, writer, values) for writer, values in enumerate(shares)]
        self.protocol.commit(batch_id, results)


BATCHES = [[[f"k{w}:{b}-{i}" for i in range(3)] for w in range(2)] for b in range(3)]
EVERYTHING = Counter(value for shares in BATCHES for values in shares for value in values)


@pytest.fixture(autouse=True)
def pools():
    yield
    producers._pools.clear()


UNLISTED = pytest.mark.exhaustive("brokers that list no transactions; test_a_crash_loses_and_doubles_nothing is there")
BROKERS = ["listed", pytest.param("unlisted", marks=UNLISTED), pytest.param("2.8.2", marks=UNLISTED)]


@pytest.fixture(params=BROKERS)
def kafka(kafka, request, monkeypatch):
    """``unlisted``: brokers are not asked to list or describe transactions; those of Kafka 2.8 could not."""
    if request.param == "2.8.2":
        yield request.getfixturevalue("old_kafka")
        return
    if request.param == "unlisted":
        monkeypatch.setattr(Coordinators, "can_list", lambda _: False)
        for name in ("describe", "open_ids"):
            monkeypatch.delattr(Coordinators, name)
    _asked_brokers.clear()
    yield kafka
    _asked_brokers.clear()


@pytest.fixture
def fuse(monkeypatch):
    return Fuse(monkeypatch)


def run_all(query, done=()):
    for batch_id, shares in enumerate(BATCHES):
        if batch_id not in done:
            query.run(batch_id, shares)
            done.append(batch_id)


def committed(kafka, topic):
    return Counter(record.value.decode() for record in kafka.read(topic))


def crash_and_go_on(kafka, folder, fuse, at):
    """Spark runs the batch again that it has not noted as done; all others are not run again."""
    topic, query_id, done = kafka.create_topic(partitions=2), uuid.uuid4().hex, []
    fuse.at, fuse.steps = at, []
    with pytest.raises(Crash) as crash:
        run_all(Query(kafka, folder, topic, query_id), done)
    query = Query(kafka, folder, topic, query_id)
    run_all(query, done)
    assert committed(kafka, topic) == EVERYTHING, f"after a crash {crash.value} ({at})"
    assert not query.clear_now()


@pytest.mark.parametrize("kafka", ["listed", "unlisted", pytest.param("2.8.2", marks=UNLISTED)], indirect=True)
@pytest.mark.parametrize("step", ["after prepare_commit", "after create", "after end", "before mark_done"])
def test_a_crash_loses_and_doubles_nothing(kafka, tmp_path, fuse, step):
    """Written and not decided; decided and not ended; ended and perhaps not marked; everything done and not noted."""
    crash_and_go_on(kafka, tmp_path, fuse, step)


@pytest.mark.exhaustive("every step; test_a_crash_loses_and_doubles_nothing has one for each state that is left behind")
def test_a_crash_at_every_step_loses_and_doubles_nothing(kafka, tmp_path, fuse):
    run_all(Query(kafka, tmp_path / "whole", kafka.create_topic(), uuid.uuid4().hex), [])
    steps = len(fuse.steps)
    assert steps > 40
    for at in range(steps):
        crash_and_go_on(kafka, tmp_path / f"{at}", fuse, at)


OTHER_CLIENT = pytest.mark.exhaustive("a new broker for the other client, whose library waits for coordinators")


@pytest.mark.parametrize("client", ["protocol", pytest.param("librdkafka", marks=OTHER_CLIENT)])
def test_the_first_query_on_a_new_broker(new_broker, tmp_path, monkeypatch, client):
    monkeypatch.setenv("PENSTOCK_KAFKA_CLIENT", client)
    with new_broker() as server:
        kafka = KafkaToolbox(server.address)
        topic = kafka.create_topic(partitions=2)
        run_all(Query(kafka, tmp_path, topic, uuid.uuid4().hex), [])
        assert committed(kafka, topic) == EVERYTHING


def test_brokers_that_can_have_no_coordinators_of_groups_are_said_so(groupless, tmp_path, monkeypatch):
    monkeypatch.setattr("penstock_kafka.client.broker._retrying._TRIES_FOR_S", 0.5)
    topic = groupless.create_topic()
    with pytest.raises(RetriableError, match=r"offsets\.topic\.replication"):
        Query(groupless, tmp_path, topic, uuid.uuid4().hex)


def test_a_zombie_is_fenced_and_never_seen(kafka, tmp_path):
    """Two attempts of a task; the one that lost goes on writing after the batch was committed."""
    topic, query_id = kafka.create_topic(), uuid.uuid4().hex
    query = Query(kafka, tmp_path, topic, query_id)
    plan = query.plan()
    context = plan.complete(WriterContext(query_id, SCHEMA, attempt_id=uuid.uuid4().hex))
    zombie = query.sink.create_writer(context)
    zombie.write(pa.record_batch([["k"], ["zombie:1"]], schema=SCHEMA))
    query.protocol.commit(0, [query.attempt(plan, 0, 0, ["k0:1", "k0:2"])])
    assert committed(kafka, topic) == Counter(["k0:1", "k0:2"]), "readers wait for nobody"
    with pytest.raises(PenstockError):
        write_on(zombie)
    zombie.abort()
    zombie.close()
    assert committed(kafka, topic) == Counter(["k0:1", "k0:2"])


def write_on(writer):
    writer.write(pa.record_batch([["k"], ["zombie:2"]], schema=SCHEMA))
    writer.prepare_commit()


def test_transactions_lost_before_the_commit_are_written_again(kafka, tmp_path):
    topic, query_id = kafka.create_topic(), uuid.uuid4().hex
    query = Query(kafka, tmp_path, topic, query_id)
    plan = query.plan()
    results = [query.attempt(plan, 0, writer, values) for writer, values in enumerate(BATCHES[0])]
    query.clear_now()  # as a broker does that times them out
    with pytest.raises(RetriableError, match="is written again"):
        query.protocol.commit(0, results)
    assert committed(kafka, topic) == Counter()
    Query(kafka, tmp_path, topic, query_id).run(0, BATCHES[0])
    assert committed(kafka, topic) == Counter(value for values in BATCHES[0] for value in values)


@pytest.mark.parametrize("write_all_again", [False, True])
def test_a_part_committed_and_the_rest_lost_is_for_a_person(kafka, tmp_path, write_all_again):
    topic, query_id = kafka.create_topic(), uuid.uuid4().hex
    query = Query(kafka, tmp_path, topic, query_id)
    plan = query.plan()
    results = [query.attempt(plan, 0, writer, values) for writer, values in enumerate(BATCHES[0])]
    refs = [COMMITTABLE_SERIALIZER.unpack(one.outputs[0].committables[0]).ref for one in results]
    asked = Coordinators({"bootstrap.servers": kafka.address})
    asked.end(refs[:1], commit=True)  # as if the driver had been killed between two requests,
    asked.fence(refs[1].transactional_id)  # and stayed away until the other had timed out
    asked.close()
    with pytest.raises(DataLostError, match="penstock resolve"):
        query.protocol.commit(0, results)
    with pytest.raises(DataLostError, match="penstock resolve"):
        Query(kafka, tmp_path, topic, query_id).plan()
    Query(kafka, tmp_path, topic, query_id).protocol.resolve(write_all_again=write_all_again)
    Query(kafka, tmp_path, topic, query_id).run(0, BATCHES[0])
    first, second = (Counter(values) for values in BATCHES[0])
    assert committed(kafka, topic) == (first + first + second if write_all_again else first)


def test_a_record_that_is_refused_leaves_nothing_of_its_batch(kafka, tmp_path, monkeypatch):
    monkeypatch.setattr("penstock._commit._two_phase._STRAGGLERS_S", 0.0)  # no other task is being told to stop
    topic = kafka.create_topic(max_message_bytes=1000)
    query = Query(kafka, tmp_path, topic, uuid.uuid4().hex)
    plan = query.plan()
    good = query.attempt(plan, 0, 0, ["k0:1"])
    with pytest.raises(DeliveryError, match=topic):
        query.attempt(plan, 0, 1, ["k1:" + "x" * 5000])
    query.protocol.abort(0, [good, None])
    assert committed(kafka, topic) == Counter()
    assert not query.clear_now(), "nothing holds readers back"


def test_a_timeout_above_what_brokers_allow_is_refused_at_the_start(kafka, tmp_path):
    with pytest.raises(BadConfigurationError, match=r"more than the brokers allow, \d+ ms.*transaction\.max\.timeout"):
        Query(kafka, tmp_path, "out", "q", transactionTimeout="20 days")


def test_a_topic_that_is_not_there(kafka, tmp_path):
    query = Query(
        kafka,
        tmp_path,
        f"missing-{uuid.uuid4().hex}",
        uuid.uuid4().hex,
        **{"kafka.allow.auto.create.topics": "false", "kafka.topic.metadata.propagation.max.ms": "1000"},
    )
    plan = query.plan()
    with pytest.raises(DeliveryError, match=r"missing-.*[Uu]nknown topic"):
        query.attempt(plan, 0, 0, ["k0:1"])


def test_tasks_without_rows_open_no_transaction(kafka, tmp_path):
    topic = kafka.create_topic()
    query = Query(kafka, tmp_path, topic, uuid.uuid4().hex)
    plan = query.plan()
    result = query.attempt(plan, 0, 0, [])
    assert result.outputs == ()
    assert not query.clear_now()
    query.protocol.commit(0, [result])
