"""A real broker for every test: the one that PENSTOCK_KAFKA_ADDRESS names, or one of the test run's own."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pytest

from penstock.dev import LocalServer, open_server
from penstock.metrics import Metrics
from penstock.source import ReaderContext, SourceReader
from penstock.source.log import LogSplit, LogState
from penstock.source.log._enumerator import LogEnumerator
from penstock.spark._coordinator import Coordinator
from penstock_kafka.dev import KafkaDevServer, KafkaToolbox, kafka_server
from penstock_kafka.options import SOURCE_OPTIONS, SourceOptions
from penstock_kafka.source import KafkaSource
from suite.kept import kept_for_directory


@pytest.fixture(scope="module")
def kafka(request, tmp_path_factory):
    """A :class:`KafkaToolbox` on a broker that all tests share: take topics, groups and ids of your own.

    To break a broker, take :func:`breakable`.
    """
    address = kept_for_directory(
        request, "kafka", lambda: open_server(KafkaDevServer(quick_start=True), tmp_path_factory.mktemp("kafka"))
    )
    return KafkaToolbox(address)


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
    return kept_for_directory(
        request,
        "breakable",
        lambda: kafka_server(tmp_path_factory.mktemp("breakable"), BREAKABLE, quick_start=True),
    )


@pytest.fixture
def breakable(_breakable):
    """A :class:`LocalServer` that a test may kill, and leave dead: it runs when a test begins. Tests share its data."""
    if not _breakable.running:
        _breakable.start()
    return _breakable


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


class SourceHarness:
    """A source with its enumerator and readers, without Spark. Options as a user writes them, with _ for . in names."""

    def __init__(self, address: str, **options: object) -> None:
        given = {"kafka.bootstrap.servers": address, **{n.replace("_", "."): str(o) for n, o in options.items()}}
        self.source = KafkaSource(SourceOptions.from_values(SOURCE_OPTIONS.parse(given, owner="source penstock.kafka")))
        self.metrics = Metrics()
        self.coordinator = Coordinator(self.metrics)

    def schema(self) -> pa.Schema:
        return self.source.fixed_schema()

    def list_splits(self) -> list[LogSplit]:
        return list(self.source.list_splits(self.coordinator))

    def read(self, splits: Sequence[LogSplit], schema: pa.Schema | None = None) -> list[dict[str, object]]:
        """Rows of ``splits``, read in one task of a process elsewhere, so to speak: the source is pickled."""
        schema = schema or self.schema()
        self.source.validate_schema(schema)
        source = pickle.loads(pickle.dumps(self.source))
        batches = SourceReader(source, ReaderContext(schema, self.metrics)).read(splits)
        return [row for batch in batches for row in batch.to_pylist()]

    def rows(self, schema: pa.Schema | None = None) -> list[dict[str, object]]:
        """A batch read."""
        return self.read(self.list_splits(), schema)

    def values(self) -> list[object]:
        return [row["value"] for row in self.rows()]

    @contextmanager
    def enumerator(self, state: LogState | None = None) -> Iterator[LogEnumerator]:
        enumerator = self.source.create_enumerator(self.coordinator, state)
        enumerator.start()
        try:
            yield enumerator
        finally:
            enumerator.close()
            self.coordinator.close()


@pytest.fixture
def kafka_source(kafka):
    """``kafka_source(subscribe=topic, …)``: a :class:`SourceHarness` on the shared broker, or on ``address``."""
    return lambda address=kafka.address, **options: SourceHarness(address, **options)
