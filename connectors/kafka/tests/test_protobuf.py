"""Protobuf through Spark and a broker: every type of column, there and back."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from suite.protobuf_records import ORDER, descriptor_file

pytestmark = pytest.mark.spark


def test_every_type_of_column_passes_through_spark(spark, kafka, tmp_path):
    _, path = descriptor_file(tmp_path, {"order.proto": ORDER})
    topic = kafka.create_topic()
    own = {"kafka.bootstrap.servers": kafka.address, "value.format": "protobuf"}
    own |= {"value.format.descriptorFile": path, "value.format.message": "shop.Order"}
    written = spark.sql(
        """select named_struct(
            'i32', 1, 'u32', 4294967295L, 'u64', cast(18446744073709551615 as decimal(20,0)), 'raw', X'00ff',
            'color', 'BLUE', 'colors', array('GREEN'), 'lines', array(named_struct('sku', 'a', 'quantity', 2)),
            'names', map(7L, 'seven'), 'by_sku', map('k', named_struct('sku', 'b')),
            'at', timestamp '2024-02-29 12:00:00.123456', 'took', interval '90.5' second,
            'wrapped', 0L, 'cash', 5L
        ) as value"""
    )
    written.write.format("penstock.kafka").options(topic=topic, **own).mode("append").save()
    read = spark.read.format("penstock.kafka").options(subscribe=topic, **own).load().select("value")
    value = read.schema["value"].dataType
    assert value["took"].dataType.simpleString() == "interval day to second"
    assert value["u64"].dataType.simpleString() == "decimal(20,0)"
    (row,) = read.collect()
    found = row.value.asDict(recursive=True)
    expected = {
        "i32": 1,
        "u32": 2**32 - 1,
        "u64": Decimal(2**64 - 1),
        "raw": bytearray(b"\0\xff"),
        "color": "BLUE",
        "colors": ["GREEN"],
        "lines": [{"sku": "a", "quantity": 2}],
        "names": {7: "seven"},
        "by_sku": {"k": {"sku": "b", "quantity": 0}},
        "at": datetime(2024, 2, 29, 12, 0, 0, 123456),
        "took": timedelta(seconds=90.5),
        "wrapped": 0,
        "wrapped_text": None,
        "card": None,
        "cash": 5,
        "note": "",
        "maybe": None,
    }
    assert {name: found[name] for name in expected} == expected


def test_what_can_not_be_decoded_is_a_bad_record(spark, kafka, tmp_path):
    _, path = descriptor_file(tmp_path, {"order.proto": ORDER})
    topic = kafka.create_topic()
    kafka.produce(topic, [{"value": "\b\x05"}, {"value": "\b"}])
    own = {"kafka.bootstrap.servers": kafka.address, "subscribe": topic, "value.format": "protobuf"}
    own |= {"value.format.descriptorFile": path, "value.format.message": "shop.Order", "badRecords": "deadLetter"}
    read = spark.read.format("penstock.kafka").options(**own).load()
    rows = read.orderBy("offset").selectExpr("value.i32", "_bad_record.*").collect()
    assert [row.i32 for row in rows] == [5, None]
    assert "not a shop.Order" in str(rows[1].asDict())
