"""``penstock.replay``: dead letters of every kind go where they belong, each once."""

from __future__ import annotations

import pytest

import penstock
from penstock import BadConfigurationError

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SCHEMA = "struct<id: long, name: string>"
HEADERS = [("trace", b"1"), ("trace", None)]


class Orders:
    """A topic of JSON, and the query that copies it. ``run`` runs the query over what has come since the last time."""

    def __init__(self, spark, kafka, root, form, options, columns=("key", "value")):
        self.spark, self.kafka, self.root = spark, kafka, root
        self.topic = kafka.create_topic(partitions=2)
        self.checkpoint = str(root / "ck")
        self._form, self._options, self._columns = form, options, columns

    @property
    def brokers(self):
        return {"kafka.bootstrap.servers": self.kafka.address}

    def add(self, *values):
        records = [{"value": value, "key": b"k", "headers": HEADERS, "timestamp": 1_700_000_000_000} for value in values]
        self.kafka.produce(self.topic, records)

    def run(self):
        source = self.spark.readStream.format("penstock.kafka").options(**self.brokers, subscribe=self.topic)
        source = source.option("startingOffsets", "earliest").option("includeHeaders", True)
        source = source.option("value.format", "json").option("value.schema", SCHEMA)
        rows = source.option("badRecords", "deadLetter").load().selectExpr(*self._columns, "_bad_record")
        query = rows.writeStream.format(self._form).options(**self._options)
        query = query.option("checkpointLocation", self.checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()

    def replay(self, **more):
        return penstock.replay(self.spark, self.checkpoint, **more)


@pytest.fixture
def to_topic(spark, kafka, tmp_path):
    """Good records go into a topic, and bad ones into another one, in the same transactions."""
    orders = Orders(spark, kafka, tmp_path, "penstock.kafka", {}, ("key", "to_json(value) as value"))
    orders.out, orders.dead = kafka.create_topic(), kafka.create_topic()
    orders._options |= orders.brokers | {"topic": orders.out, "delivery": "exactly-once"}
    orders._options |= {"deadLetters.format": "kafka", "deadLetters.topic": orders.dead}
    return orders


def test_bad_records_go_back_to_their_topic_as_they_were(to_topic):
    orders, kafka = to_topic, to_topic.kafka
    orders.add('{"id": 1, "name": "a"}', "{bad", '{"id": 2, "name": "b"}')
    orders.run()
    assert [record.value for record in kafka.read(orders.dead)] == [b"{bad"]
    assert orders.replay() == 1
    back = [record for record in kafka.read(orders.topic) if record.value == b"{bad"]
    assert len(back) == 2 and back[0].key == back[1].key == b"k"
    assert back[0].headers == back[1].headers == tuple(HEADERS) and back[0].timestamp == back[1].timestamp
    assert orders.replay() == 0, "each letter is sent once"
    orders.run()  # and is a dead letter again
    assert [record.value for record in kafka.read(orders.dead)] == [b"{bad"] * 2
    assert orders.replay(to=orders.out) == 1
    assert [record.value for record in kafka.read(orders.out)][-1] == b"{bad"


def test_letters_of_kafka_connect_are_letters(to_topic):
    orders, kafka = to_topic, to_topic.kafka
    orders.run()
    connects = [
        ("__connect.errors.topic", orders.topic.encode()),
        ("__connect.errors.partition", b"0"),
        ("__connect.errors.stage", b"VALUE_CONVERTER"),
        ("__connect.errors.connector.name", b"my-sink"),
    ]
    kafka.produce(orders.dead, [{"value": b"x", "headers": [("own", b"1"), *connects]}])
    assert orders.replay() == 1
    assert [(one.value, one.headers) for one in kafka.read(orders.topic)] == [(b"x", (("own", b"1"),))]
    kafka.produce(orders.dead, [{"value": b"no letter"}])
    with pytest.raises(Exception, match="has no header __connect.errors.topic"):
        orders.replay()
    assert orders.replay(to=orders.out) == 1


def test_letters_of_a_query_at_least_once(to_topic):
    orders, kafka = to_topic, to_topic.kafka
    del orders._options["delivery"]
    orders.add("{bad")
    orders.run()
    with pytest.raises(BadConfigurationError, match=r"say where the dead letters are, such as -o deadLetters\.format"):
        orders.replay()
    options = {"deadLetters.format": "kafka", "deadLetters.topic": orders.dead}
    options["deadLetters.kafka.bootstrap.servers"] = kafka.address
    assert orders.replay(options=options) == 1
    assert len(kafka.read(orders.topic)) == 2


def test_letters_in_files_go_back_to_a_topic(spark, kafka, tmp_path):
    files = {"path": str(tmp_path / "out"), "format": "parquet"}
    files |= {"deadLetters.format": "filesystem", "deadLetters.path": str(tmp_path / "dead")}
    orders = Orders(spark, kafka, tmp_path, "penstock.filesystem", files, ("value.*",))
    orders.add('{"id": 1, "name": "a"}', "{bad", "[1]")
    orders.run()
    with pytest.raises(Exception, match="kafka.bootstrap.servers"):
        orders.replay()
    assert orders.replay(source_options=orders.brokers) == 2
    records = [record.value for record in kafka.read(orders.topic)]
    assert (records.count(b"[1]"), records.count(b"{bad"), len(records)) == (2, 2, 5)
    assert orders.replay(source_options=orders.brokers) == 0


def test_refused_rows_go_to_the_sink_once_it_takes_them(spark, kafka, cassandra, tmp_path):
    table = cassandra.table("name text primary key, id bigint")
    options = {**cassandra.options, "table": table, "maxRowBytes": "100"}
    dead = kafka.create_topic()
    options |= {"deadLetters.format": "kafka", "deadLetters.topic": dead}
    orders = Orders(spark, kafka, tmp_path, "penstock.cassandra", options, ("value.*",))
    options |= {f"deadLetters.{name}": text for name, text in orders.brokers.items()}
    orders._options = options
    long = "x" * 200
    orders.add('{"id": 1, "name": "a"}', f'{{"id": 2, "name": "{long}"}}')
    orders.run()
    assert cassandra.rows(table, "name, id") == [("a", 1)]
    assert orders.replay() == 1, "and is refused again"
    assert len(kafka.read(dead)) == 2
    assert orders.replay(options={"maxRowBytes": "1mb"}) == 1
    assert sorted(cassandra.rows(table, "name, id")) == [("a", 1), (long, 2)]
    assert orders.replay(options={"maxRowBytes": "1mb"}) == 0
