"""Each use of the connector, batches and streams, reads each option that is declared to take effect in it."""

from __future__ import annotations

import itertools
import uuid

import pyarrow as pa
import pytest

from option_tests.declared import check_uses
from suite.option_uses import OptionUses, Scene

STRUCT = pa.struct([("n", pa.int64())])
ROWS = {"key": ["a", "b"], "value": ["1", "2"], "p": ["c", "u"], "gone": [None, []]}
SCHEMA = pa.schema([(name, pa.string()) for name in ("key", "value")])
#: The columns of rows that are records' values, besides the keys.
OF_VALUES = {"operationColumn": [("p", pa.string())], "unavailableColumn": [("gone", pa.list_(pa.string()))]}

#: What is read from the beginning, unless the option says where.
PLACES = ("starting", "ending", "groupOffsetsFallback")
#: The topic is made again while it is read: it ends before the offset that was reached.
CUT_OFF = ("fetchOffset.numRetries", "fetchOffset.retryIntervalMs")
#: What else an option needs to be read.
BESIDE = {
    **{name: {"discoveryInterval": "1ms"} for name in ("newPartitionsStart", "newTopicsStart")},
    "groupIdPrefix": {"client": "librdkafka"},
    **{name: {"failOnDataLoss": "false"} for name in CUT_OFF},
    "startingOffsets": {"startingOffsets": '{"t":{"0":1}}'},
}


@pytest.fixture
def scenes(kafka):
    """Functions that make the scenes of both sides, on topics of their own."""

    def on_broker(texts, topic):
        """The options with an address and a topic that exist, and groups of the test's own."""
        filled = {name: text.replace('"t"', f'"{topic}"') for name, text in texts.items()}
        for name in ("subscribe", "subscribePattern", "topic"):
            if name in filled:
                filled[name] = topic
        for name in ("kafka.group.id", "commitGroupOffsets"):
            if name in filled:
                filled[name] = topic
        return {**filled, "kafka.bootstrap.servers": kafka.address, "retryTimeout": "10s"}

    def of_source(option, given):
        topic = kafka.create_topic()
        texts = on_broker({**given, **BESIDE.get(option.name, {})}, topic)
        if not option.name.startswith(PLACES):
            texts.setdefault("startingOffsets", "earliest")
        if option.name == "newTopicsStart":
            del texts["subscribe"]
            texts["subscribePattern"] = topic
        bad, numbers = "badRecords" in texts, itertools.count(2)

        def add():
            records = [{"key": '{"n": 1}', "value": '{"n": 1}', "headers": [("h", b"1")]} for _ in range(2)]
            kafka.produce(topic, [*records, *([{"key": b"\xff", "value": b"\xff"}] if bad else [])])

        def change():
            if option.name == "failOnDataLoss":
                kafka.delete_records(topic, 0, 1)
            if option.name in CUT_OFF:
                kafka.delete_topic(topic)
                kafka.create_topic(topic)
            if option.name == "newPartitionsStart":
                kafka.add_partitions(topic, next(numbers))
            if option.name == "newTopicsStart":
                kafka.create_topic(f"{topic}-{uuid.uuid4().hex[:4]}")

        add()
        return Scene(texts, None, (), add, change)

    def of_sink(option, given):
        topic = kafka.create_topic()
        schema, columns = SCHEMA, ROWS
        if "keyColumns" in given:
            columns = {**ROWS, "value": [{"n": 1}, {"n": 2}]}
            schema = pa.schema([SCHEMA.field("key"), ("value", STRUCT), *OF_VALUES.get(option.name, [])])
        rows = pa.record_batch([pa.array(columns[field.name], field.type) for field in schema], schema=schema)
        return Scene(on_broker(given, topic), schema, (rows,))

    return {"source": of_source, "sink": of_sink}


SIDES = ("source", "sink")
#: Of each side options that all uses read.
SOME = {"source": ("minPartitions",), "sink": ("partitioner",)}


@pytest.mark.parametrize("side", SIDES)
def test_some_uses_read_some_options(tmp_path, scenes, side):
    found = OptionUses(f"kafka {side}", tmp_path, scenes[side]).found(*SOME[side])
    assert {said for options in found.values() for said in options.values()} == {"read"}


@pytest.mark.exhaustive("a minute; test_some_uses_read_some_options is the witness")
@pytest.mark.budget(120)
@pytest.mark.parametrize("side", SIDES)
def test_every_use_reads_every_option(tmp_path, scenes, side):
    """Or there is a reason in the table: ``scripts/options --uses`` prints it. ``REWRITE_USES=1`` renews the table."""
    check_uses(f"kafka {side}", OptionUses(f"kafka {side}", tmp_path, scenes[side]).found())
