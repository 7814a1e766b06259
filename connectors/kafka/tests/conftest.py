"""A real broker for every test: the one that PENSTOCK_KAFKA_ADDRESS names, or one of the test run's own."""

from __future__ import annotations

import shutil

import pytest

from penstock.dev import LocalServer, open_server
from penstock_kafka import KafkaConnector
from penstock_kafka.client.broker import _admin, _coordinators, _pool
from penstock_kafka.client.broker._kafka_python import KafkaPython
from penstock_kafka.dev import KafkaDevServer, KafkaToolbox
from penstock_kafka.sink import _sink
from penstock_kafka.sink._kept_producers import KEPT_PRODUCERS
from penstock_kafka.source._kept_consumers import KEPT_CONSUMERS
from penstock_kafka.transactions import _producers
from suite.kafka_network import broker_behind_network
from suite.kept import end_all, kept_for_directory
from suite.sources import SourceHarness


@pytest.fixture(scope="module", autouse=True)
def _connections_end():
    """A crashed task leaves a producer, and its connections, as its process would not."""
    yield
    KEPT_PRODUCERS.clear()
    KEPT_CONSUMERS.clear()
    for cache in (_producers._pools, _coordinators._kept, _admin._kept, _pool._shared):
        end_all(cache)


@pytest.fixture(params=["protocol", "librdkafka"])
def client(request):
    """The name of a client, for the option ``client``."""
    if request.param == "protocol" and not shutil.which("cc"):
        pytest.skip("no compiler")
    yield request.param
    _producers._pools.clear()


@pytest.fixture(scope="module")
def kafka(request, tmp_path_factory):
    """A :class:`KafkaToolbox` on a broker that all tests share: take topics, groups and ids of your own.

    To break a broker, take :func:`breakable`.
    """
    address = kept_for_directory(
        request, "kafka", lambda: open_server(KafkaDevServer(quick_start=True), tmp_path_factory.mktemp("kafka"))
    )
    return KafkaToolbox(address)


@pytest.fixture(scope="module")
def old_kafka(request, tmp_path_factory):
    """A :class:`KafkaToolbox` on a broker of Kafka 2.8 with ZooKeeper, which can't list transactions."""
    server = KafkaDevServer(quick_start=True, version="2.8.2")
    folder = tmp_path_factory.mktemp("old-kafka")
    return KafkaToolbox(kept_for_directory(request, "old-kafka", lambda: LocalServer(server, folder)).address)


#: Transactions that time out are ended at once, and a broker that was killed comes back at once: it waits for the end
#: of its old session, and asks for it at intervals that double.
BREAKABLE = {
    "transaction.max.timeout.ms": "600000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
}


@pytest.fixture(scope="module")
def _breakable(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("breakable")
    return kept_for_directory(request, "breakable", lambda: broker_behind_network(folder, BREAKABLE))


@pytest.fixture
def breakable(_breakable):
    """A :class:`LocalServer` that a test may kill, and leave dead: it runs when a test begins. Tests share its data."""
    server, _ = _breakable
    if not server.running:
        server.start()
    return server


@pytest.fixture
def network(_breakable, breakable):
    """A :class:`BadNetwork` to the broker ``breakable``."""
    _, network = _breakable
    yield network
    network.mend()
    network.reset()


class NewBroker(KafkaDevServer):
    """Has no coordinators: nobody has asked for one yet."""

    def warm_up(self, address):
        pass


@pytest.fixture(scope="module")
def groupless(request, tmp_path_factory):
    """A :class:`KafkaToolbox` on a broker whose groups never have a coordinator: their topic wants three brokers."""
    server = NewBroker({"offsets.topic.replication.factor": "3"}, quick_start=True)
    return KafkaToolbox(
        kept_for_directory(
            request, "groupless", lambda: LocalServer(server, tmp_path_factory.mktemp("groupless"))
        ).address
    )


@pytest.fixture
def new_broker(tmp_path):
    """``with new_broker(properties) as server``: one that has not been used before, and is not made ready."""
    return lambda properties=None: LocalServer(NewBroker(properties, quick_start=True), tmp_path / "kafka")


@pytest.fixture
def lacking(monkeypatch):
    """``lacking("Fetch")``: brokers do not take such requests."""
    hidden, takes = set(), KafkaPython.takes
    caches = (_sink._asked_brokers, _sink._checked_brokers, _coordinators._kept)
    for cache in caches:
        cache.clear()
    monkeypatch.setattr(
        KafkaPython, "takes", lambda self, request, low: request.name not in hidden and takes(self, request, low)
    )
    yield lambda *names: hidden.update(f"{name}Request" for name in names)
    for cache in caches:
        cache.clear()


@pytest.fixture
def kafka_source(kafka):
    """``kafka_source(subscribe=topic, …)``: a :class:`SourceHarness` on the shared broker, or on ``address``."""
    return lambda address=kafka.address, **options: SourceHarness(
        KafkaConnector(), {"kafka.bootstrap.servers": address}, **options
    )
