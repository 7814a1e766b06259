"""The option ``retryTimeout``: every connector has it, and the engine follows it."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.types import LongType, StructField, StructType

from penstock._plugins import find_connector
from penstock.connector import Capability, Connector
from penstock.errors import RetriableError
from penstock.options import Option, OptionSet
from penstock.retry import RetryPolicy
from penstock.sink import Sink, SinkWriter
from penstock.spark._data_source import data_source_of
from penstock.spark._write import AtLeastOnceWriter

SIDES = [(name, side) for name in ("cassandra", "filesystem", "kafka", "pravega") for side in ("source", "sink")]
GIVEN = {
    "cassandra": {"keyspace": "k", "table": "t"},
    "filesystem source": {"path": "/data", "format": "json"},
    "filesystem sink": {"path": "/data", "format": "json"},
    "kafka source": {"kafka.bootstrap.servers": "h:1", "subscribe": "t"},
    "kafka sink": {"kafka.bootstrap.servers": "h:1", "topic": "t"},
    "pravega": {"controller": "tcp://127.0.0.1:9", "scope": "s", "stream": "t"},
}


def options_of(name, side, **more):
    declared = getattr(find_connector(name).load(), f"{side}_options")
    given = GIVEN.get(f"{name} {side}") or GIVEN[name]
    return declared.parse({**given, **more}, owner=f"{side} {name}")


@pytest.mark.parametrize(("name", "side"), SIDES, ids=[" ".join(side) for side in SIDES])
def test_it_arrives(name, side):
    assert RetryPolicy.from_values(options_of(name, side, retryTimeout="7s")) == RetryPolicy(7.0)


@pytest.mark.parametrize(("name", "side"), SIDES, ids=[" ".join(side) for side in SIDES])
def test_the_default_is_two_minutes(name, side):
    assert RetryPolicy.from_values(options_of(name, side)) == RetryPolicy(120.0)


def test_the_name_that_spark_has_for_kafka_means_the_same():
    options = options_of("kafka", "source", **{"kafkaConsumer.pollTimeoutMs": "512"})
    assert RetryPolicy.from_values(options) == RetryPolicy(0.512)


def test_a_connector_has_it_without_declaring_it():
    class Mine(Connector):
        source_options = OptionSet([Option("path", "Where", required=True)])
        capabilities = frozenset({Capability.BATCH_READ})

        def describe_guarantee(self):
            return ""

    assert Mine.source_options.find("retryTimeout").default == "2m" and Mine.sink_options is None


ROWS = pa.schema([("id", pa.int64())])
SPARK_ROWS = StructType([StructField("id", LongType())])


@pytest.fixture
def data_source(tmp_path):
    given = {"path": str(tmp_path / "rows"), "format": "json", "retryTimeout": "7s"}
    (tmp_path / "rows").mkdir()
    return lambda **more: data_source_of("filesystem", parallelism=1, accumulator=None)({**given, **more})


def test_readers_follow_it(data_source):
    made = data_source()
    for reader in (made.reader(SPARK_ROWS), made.streamReader(SPARK_ROWS)):
        assert pickle.loads(cloudpickle.dumps(reader))._retry == RetryPolicy(7.0)


def test_writers_follow_it(data_source, tmp_path):
    (tmp_path / "ck").mkdir()
    (tmp_path / "ck" / "metadata").write_text('{"id": "0b53ab65-4a2c-4f10-9a4d-a54a8f1f64c9"}')
    writers = [
        data_source().writer(SPARK_ROWS, False),
        data_source(checkpointLocation=str(tmp_path / "ck")).streamWriter(SPARK_ROWS, False),
        AtLeastOnceWriter(Asked(), ROWS, None, RetryPolicy(7.0)),
    ]
    for writer in writers:
        assert writer._retry == RetryPolicy(7.0)
    assert writers[0]._context().retry == writers[1]._driver._context().retry == RetryPolicy(7.0)
    writers[0].abort([])


class Asked(Sink):
    """Fails when it is asked for the first time, and sees what its writer is given."""

    def __init__(self):
        self.starts, self.contexts = 0, []

    def start(self, context):
        self.starts += 1
        if self.starts == 1:
            raise RetriableError("away")
        return self

    def create_writer(self, context):
        self.contexts.append(context)
        if len(self.contexts) == 1:
            raise RetriableError("away")
        return Dropping()


class Dropping(SinkWriter):
    def write(self, batch):
        """Drops it."""

    def flush(self):
        """Has nothing."""


def test_a_sink_that_can_not_start_or_open_a_writer_is_asked_again():
    sink = Asked()
    writer = AtLeastOnceWriter(sink, ROWS, None, RetryPolicy(7.0))
    writer.write(iter([pa.record_batch([[1]], schema=ROWS)]))
    assert sink.starts == 2 and [context.retry for context in sink.contexts] == [RetryPolicy(7.0)] * 2
