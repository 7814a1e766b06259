"""Kafka's committer under schedules by chance; and its model of the coordinators beside a real broker."""

from __future__ import annotations

import random
import uuid

import pyarrow as pa
import pytest

from penstock.errors import PenstockError
from penstock_kafka.client import Proof, TransactionRef, open_producer
from penstock_kafka.client.broker import Coordinators
from penstock_kafka.sink._states import DescribedStates
from suite.kafka_model import FencedError, KafkaTarget, ModelCoordinators, UnlistedKafkaTarget
from suite.schedules import check_schedules, check_seed


@pytest.mark.parametrize("target", [KafkaTarget, UnlistedKafkaTarget])
@pytest.mark.parametrize(
    "schedules",
    [300, pytest.param(3_000, marks=pytest.mark.exhaustive("more of them; scripts/soak simulate tries a million"))],
)
def test_schedules_by_chance(schedules, target):
    check_schedules(target, schedules, "killed after", "times out")


@pytest.mark.parametrize("target", [KafkaTarget, UnlistedKafkaTarget])
@pytest.mark.parametrize(
    "schedules",
    [150, pytest.param(3_000, marks=pytest.mark.exhaustive("more of them; scripts/soak simulate tries a million"))],
)
def test_schedules_by_chance_of_a_batch_function(schedules, target):
    check_schedules(target, schedules, "killed after", in_batch=True)


def test_batches_after_restored_offsets_are_forgotten():
    """The seed of a schedule that fails if Spark's log keeps what it has committed since it was changed."""
    check_seed(UnlistedKafkaTarget, 102669, in_batch=True)


def test_a_batch_is_published_by_one_driver_or_given_up_by_another():
    """The seed of the schedule that found this: one had slept until the transactions were nearly too old."""
    check_seed(KafkaTarget, 353342449915)


class Broker:
    """A transactional id on a real broker: what the model does, done there."""

    def __init__(self, kafka):
        self.kafka, self.topic = kafka, kafka.create_topic()
        self.id, self.coordinators = (
            f"penstock.{uuid.uuid4().hex}.0.0123abcd.0",
            Coordinators({"bootstrap.servers": kafka.address}),
        )
        self.producers = []

    def init(self):
        settings = {"bootstrap.servers": self.kafka.address, "transactional.id": self.id}
        producer = open_producer(settings)
        self.producers.append(producer)
        identity = producer.init_transactions(30_000)
        producer.begin_transaction()
        return TransactionRef(self.id, identity.producer_id, identity.epoch)

    def write(self, number, ref, batch):
        producer = self.producers[number]
        producer.produce(pa.record_batch({"value": [b"%d" % batch], "topic": [self.topic]}))
        producer.send_offset(self.id, self.topic, 0, batch, f"attempt {batch}", 30_000)
        producer.flush()

    def state(self):
        """When it is none that leads to another one."""
        return DescribedStates(self.coordinators).settled_ids([self.id])[self.id].state

    def close(self):
        for producer in self.producers:
            producer.close()
        self.coordinators.close()


@pytest.fixture
def broker(kafka):
    made = Broker(kafka)
    yield made
    made.close()


@pytest.mark.parametrize("seed", range(6))
def test_the_model_does_what_a_broker_does(broker, seed):
    """The same steps by chance in both: answers, states, proofs and what readers see agree."""
    chance, model = random.Random(seed), ModelCoordinators(bumps=True)
    refs, open_ = [], None
    for batch in range(8):
        refs.append((broker.init(), model.init(broker.id)))
        open_ = len(refs) - 1
        if chance.random() < 0.8:
            broker.write(open_, refs[open_][0], batch)
            model.write(refs[open_][1], [batch], Proof(batch, f"attempt {batch}"), 0)
        if open_ and chance.random() < 0.3:  # the producer before
            with pytest.raises(FencedError):
                model.write(refs[open_ - 1][1], [99], Proof(99, ""), 0)
            with pytest.raises(PenstockError):
                broker.write(open_ - 1, refs[open_ - 1][0], 99)
        for _ in range(chance.randrange(4)):
            which, commit = chance.choice([open_, open_, chance.randrange(len(refs))]), chance.random() < 0.6
            told = broker.coordinators.end([refs[which][0]], commit=commit)[0]
            assert told is model.end(refs[which][1], commit=commit), (batch, which, commit)
        assert broker.state() == model.describe(broker.id).state
    assert broker.coordinators.proofs([broker.id]) == model.groups
    assert [int(one.value) for one in broker.kafka.read(broker.topic)] == [row for _, row in model.shown]
