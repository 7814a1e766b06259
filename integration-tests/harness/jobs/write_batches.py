"""Kafka into three sinks in one batch function, as a user would write it: a topic, a Cassandra table, and files.

Arguments: brokers, in, out, table, host, port, keyspace. In mode ``update`` the counts of each key go into the topic
and the table. In mode ``group`` the three sinks are committed together.
"""

from pyspark.sql import DataFrame, DataFrameWriter

import penstock
from harness.job import arguments, session

given = arguments()
spark = session(given)
brokers, table = {"kafka.bootstrap.servers": given["brokers"]}, {name: given[name] for name in ("host", "port")}
source = spark.readStream.format("penstock.kafka").options(**brokers, subscribe=given["in"], startingOffsets="earliest")
records = source.option("maxOffsetsPerTrigger", "60").load().selectExpr("cast(value as string) as value")
mode = given.get("mode", "append")
if mode == "update":
    records = records.groupBy(records.value.substr(1, 2).alias("key")).count()
    records = records.selectExpr("key", "cast(count as string) as value")


def write(df: DataFrame, batch_id: int) -> None:
    def writer(name: str) -> DataFrameWriter:
        return penstock.batch_writer(df, batch_id, checkpoint="ck/", name=name)

    df.persist()
    for name, (kind, options) in sinks.items():
        if mode == "append" or name != "files":
            writer(name).format(kind).options(**options).save()
    df.unpersist()


def write_together(df: DataFrame, batch_id: int) -> None:
    df.persist()
    with group.batch(df, batch_id) as batch:
        for name in group.sinks:
            batch.write(name, df)
    df.unpersist()


target = {**table, "keyspace": given["keyspace"], "table": given["table"]}
topic = {**brokers, "topic": given["out"], "delivery": "exactly-once"}
files = {"path": "out/", "format": "parquet", "bucketAssigner": "basePath"}
sinks = {
    "topic": ("penstock.kafka", topic),
    "table": ("penstock.cassandra", target),
    "files": ("penstock.filesystem", files),
}
group = penstock.SinkGroup("all", checkpoint="ck/", sinks=sinks)
function, mode = (write_together, "append") if mode == "group" else (write, mode)
stream = records.writeStream.foreachBatch(function).outputMode(mode).option("checkpointLocation", "ck/")
stream.trigger(availableNow=True).start().awaitTermination()
