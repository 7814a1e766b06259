"""``penstock.replay``: dead letters of every kind go where they belong, each once."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import penstock
from penstock.errors import BadConfigurationError

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

PENSTOCK = Path(sys.executable).with_name("penstock")
COMMITTER = "penstock_kafka.sink._committer:KafkaCommitter"
SCHEMA = "struct<id: long, name: string>"
HEADERS = [("trace", b"1"), ("trace", None)]


class Orders:
    """A topic of JSON, and the query that copies it. ``run`` runs the query over what has come since the last time."""

    def __init__(self, spark, kafka, root, form, options, columns=("key", "value")):
        self.spark, self.kafka, self.root = spark, kafka, root
        self.topic = kafka.create_topic(partitions=2)
        self.checkpoint = str(root / "ck")
        self.time = int(time.time() * 1000) - 3_600_000  # retention would delete what is much older
        self._form, self._options, self._columns = form, options, columns

    @property
    def brokers(self):
        return {"kafka.bootstrap.servers": self.kafka.address}

    def add(self, *values):
        records = [{"value": value, "key": b"k", "headers": HEADERS, "timestamp": self.time} for value in values]
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
    (letter,) = kafka.read(orders.dead)
    assert letter.value == b"{bad" and letter.timestamp > orders.time + 3_000_000
    assert orders.replay() == 1
    back = [record for record in kafka.read(orders.topic) if record.value == b"{bad"]
    assert len(back) == 2 and back[0].key == back[1].key == b"k"
    assert (
        back[0].headers == back[1].headers == tuple(HEADERS) and back[0].timestamp == back[1].timestamp == orders.time
    )
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
    with pytest.raises(Exception, match="has no header __connect"):
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


@pytest.mark.exhaustive("letters of another sink; test_bad_records_go_back_to_their_topic_as_they_were is the witness")
def test_letters_in_files_go_back_to_a_topic(spark, kafka, tmp_path):
    files = {"path": str(tmp_path / "out"), "format": "parquet"}
    files |= {"deadLetters.format": "filesystem", "deadLetters.path": str(tmp_path / "dead")}
    orders = Orders(spark, kafka, tmp_path, "penstock.filesystem", files, ("value.*",))
    orders.add('{"id": 1, "name": "a"}', "{bad", "[1]")
    orders.run()
    with pytest.raises(Exception, match=r"option 'kafka\.bootstrap\.servers'"):
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


@pytest.mark.exhaustive(
    "three drivers of the command; test_bad_records_go_back_to_their_topic_as_they_were calls what it calls"
)
def test_the_command_says_what_it_has_sent(to_topic):
    orders = to_topic
    orders.add("{bad", "{worse")
    orders.run()

    def run(*arguments):
        return subprocess.run([PENSTOCK, "replay", *arguments], capture_output=True, text=True, timeout=120)

    done = run(orders.checkpoint, "--json")
    assert (done.returncode, json.loads(done.stdout)["sent"]) == (0, 2), done.stderr
    done = run(orders.checkpoint)
    assert done.returncode == 0 and done.stdout.endswith("ck: no dead letters have come since the last replay\n")
    done = run(str(orders.root))
    assert done.returncode == 2 and "is not the checkpoint of a streaming query" in done.stderr.splitlines()[-1]
    assert "starting Spark" not in done.stderr


@pytest.mark.exhaustive("a batch function that is killed, once more; test_foreach_batch kills others in the first tier")
@pytest.mark.parametrize("point", [f"{COMMITTER}.publish:before:1", f"{COMMITTER}.publish:after:1"])
def test_a_replay_that_is_killed_sends_the_rest(to_topic, driver, point):
    orders, kafka = to_topic, to_topic.kafka
    orders.add(*(f"{{bad {number}" for number in range(40)))
    orders.run()
    driver("replay_letters", fault=point, checkpoint=orders.checkpoint).wait_for_kill()
    driver("replay_letters", checkpoint=orders.checkpoint).wait_for_success()
    found = Counter(record.value for record in kafka.read(orders.topic))
    assert len(found) == 40 and set(found.values()) == {2}, "as it came, and once more"


@pytest.mark.exhaustive("another source; test_bad_records_go_back_to_their_topic_as_they_were is the witness")
def test_events_of_pravega_go_back_to_their_stream(spark, pravega, tmp_path):
    source, out, dead = [pravega.create_stream() for _ in range(3)]
    pravega.write(source, [b'{"id": 1, "name": "a"}', b"{bad"])
    where = {"controller": pravega.address, "scope": pravega.scope}

    def run():
        events = spark.readStream.format("penstock.pravega").options(**where, stream=source, startingStreamCut="head")
        events = events.option("value.format", "json").option("value.schema", SCHEMA)
        rows = events.option("badRecords", "deadLetter").load().selectExpr("to_json(value) as value", "_bad_record")
        query = rows.writeStream.format("penstock.pravega").options(**where, stream=out, delivery="exactly-once")
        query = query.option("deadLetters.format", "pravega").option("deadLetters.stream", dead)
        query.option("checkpointLocation", str(tmp_path / "ck")).trigger(availableNow=True).start().awaitTermination()

    run()
    assert penstock.replay(spark, str(tmp_path / "ck")) == 1
    assert sorted(pravega.values(source)) == [b'{"id": 1, "name": "a"}', b"{bad", b"{bad"]
    run()
    assert penstock.replay(spark, str(tmp_path / "ck")) == 1
    assert len(pravega.values(out)) == 1 and len(pravega.values(dead)) == 2
