"""The sink inside Spark, and beside Spark's own connector: the same records in the same partitions."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.spark

ROWS = """
    select cast(id as string) as key, concat('value ', id) as value,
           if(id % 3 = 0, null, array(struct('h' as key, cast(cast(id as string) as binary) as value),
                                      struct('h' as key, cast(null as binary) as value))) as headers
    from range(200)
"""


def test_the_same_records_in_the_same_partitions_as_sparks_connector(kafka, spark):
    rows = spark.sql(ROWS)
    written = {}
    for connector in ("kafka", "penstock.kafka"):
        topic = kafka.create_topic(partitions=5)
        writer = rows.write.format(connector).option("kafka.bootstrap.servers", kafka.address)
        writer.option("topic", topic).option("includeHeaders", True).mode("append").save()
        # Both are at least once here: a task that Spark runs again writes its records again.
        read = {(r.partition, r.key, r.value, r.headers) for r in kafka.read(topic)}
        written[connector] = sorted(read, key=lambda record: (record[0], record[1]))
    assert written["penstock.kafka"] == written["kafka"] and len(written["kafka"]) == 200


@pytest.mark.parametrize("connector", ["kafka", "penstock.kafka"])
def test_both_refuse_the_same_frames(kafka, spark, connector):
    writer = spark.sql("select 1 as value").write.format(connector).option("kafka.bootstrap.servers", kafka.address)
    with pytest.raises(Exception, match=r"(?s)value.*(string|STRING).*(binary|BINARY)"):
        writer.option("topic", "out").mode("append").save()


def test_a_batch_write_exactly_once_shows_all_or_nothing(kafka, spark):
    topic = kafka.create_topic(partitions=2)
    rows = spark.sql(ROWS).repartition(4)
    writer = rows.write.format("penstock.kafka").option("kafka.bootstrap.servers", kafka.address)
    writer.option("topic", topic).option("delivery", "exactly-once").mode("append").save()
    assert len(kafka.read(topic)) == 200
    broken = rows.selectExpr("key", "if(key = '150', raise_error('poison'), value) as value")
    writer = broken.write.format("penstock.kafka").option("kafka.bootstrap.servers", kafka.address)
    with pytest.raises(Exception, match="poison"):
        writer.option("topic", topic).option("delivery", "exactly-once").mode("append").save()
    assert len(kafka.read(topic)) == 200
    kafka.produce(topic, [{"value": "behind", "partition": partition} for partition in range(2)])
    assert len(kafka.read(topic)) == 202, "an open transaction holds readers back"


def test_a_checkpoint_is_needed(kafka, spark, tmp_path):
    rows = spark.readStream.format("rate").load().selectExpr("cast(value as string) as value")
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path))
    try:
        writer = rows.writeStream.format("penstock.kafka").option("kafka.bootstrap.servers", kafka.address)
        query = writer.option("topic", "out").option("delivery", "exactly-once").start()
        with pytest.raises(Exception, match="checkpointLocation"):
            query.awaitTermination(60)
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")
